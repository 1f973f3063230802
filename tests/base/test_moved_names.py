"""Old names work, and warn of the new ones."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from opsdk.base.moved_names import MOVED

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_old_name_is_the_new_one_with_a_warning(old: str, new: str) -> None:
    """The warning has both names, and points at the line that imports the old one."""
    module, _, name = old.rpartition(".")
    home, _, new_name = new.rpartition(".")
    namespace: dict[str, object] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        exec(compile(f"from {module} import {name}", "an_operator.py", "exec"), namespace)
    assert namespace[name] is getattr(importlib.import_module(home), new_name)
    assert {(str(each.message), each.filename) for each in caught} == {
        (f"{old} is deprecated, and 0.3.0 removes it: use {new}", "an_operator.py")
    }
    assert {each.category for each in caught} == {DeprecationWarning}


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_old_name_is_not_public(old: str, new: str) -> None:
    """``__all__`` has the new name only."""
    module, _, name = old.rpartition(".")
    home, _, new_name = new.rpartition(".")
    assert name not in importlib.import_module(module).__all__
    assert new_name in importlib.import_module(home).__all__


def test_a_type_checker_accepts_each_old_name_of_the_package() -> None:
    """The stub has the old names as aliases, so that an update breaks no type check."""
    stub = ast.parse((ROOT / "opsdk" / "__init__.pyi").read_text())
    aliases = {target.id for node in stub.body if isinstance(node, ast.Assign) for target in node.targets}
    assert aliases == {old.rpartition(".")[2] for old in MOVED if old.count(".") == 1}


@pytest.mark.parametrize("module", ["opsdk", "opsdk.webhook.authentication"])
def test_an_unknown_name_is_an_attribute_error(module: str) -> None:
    """As in a module without old names."""
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'absent'"):
        importlib.import_module(module).absent  # noqa: B018 - the look-up raises


def test_the_table_costs_nothing_until_an_old_name_is_used() -> None:
    """Neither the package nor a module with old names loads it."""
    code = (
        "import sys, opsdk, opsdk.webhook.authentication\n"
        "opsdk.Operator\n"
        "sys.exit('opsdk.base.moved_names' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
