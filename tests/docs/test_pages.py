"""What the pages in docs/ show is what runs."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

from opsdk.structured_merge.value import JsonObject

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/envtest.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
async def test_the_examples_of_the_envtest_page(number: int) -> None:
    """Every test shown there passes as it stands."""
    scope: JsonObject = {}
    exec(BLOCKS[number], scope)
    for name, function in list(scope.items()):
        if name.startswith("test_"):
            await function()


@pytest.mark.slow
def test_the_example_of_the_simulation_page() -> None:
    """It passes as it stands."""
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/simulation.md").read_text(), re.DOTALL)
    scope: JsonObject = {}
    exec(block, scope)
    scope["test_copier"]()


def test_the_example_of_the_controllers_page() -> None:
    """Its declarations are accepted."""
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/controllers.md").read_text(), re.DOTALL)
    scope: JsonObject = {}
    exec(block, scope)
    assert [kind.__name__ for kind in scope["operator"].custom_kinds()] == []


async def test_the_examples_of_the_webhooks_page() -> None:
    """The blocks run one after the other in one module, and every test in them passes."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/webhooks.md").read_text(), re.DOTALL)
    scope: JsonObject = {"__name__": "webhooks_page"}
    for block in blocks:
        exec(block, scope)
    tests = [function for name, function in scope.items() if name.startswith("test_")]
    assert len(tests) == 4
    for function in tests:
        if (running := function()) is not None:
            await running


async def test_the_examples_of_the_custom_resources_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's checks accept its definition, rules included, and the old version can be dropped."""
    definitions = pytest.importorskip("opsdk.cli.generate.definitions", reason="needs opsdk[envtest]")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/custom-resources.md").read_text(), re.DOTALL)
    # msgspec resolves annotations in the module of a class.
    module = types.ModuleType("custom_resources_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks:
        exec(block, module.__dict__)
    (definition,) = definitions.definitions_of([module.Database, module.DatabaseBeta])
    assert definition == module.definition
    await module.test_the_old_version_is_dropped()


async def test_the_examples_of_the_rbac_page() -> None:
    """The blocks run one after the other in one module, and every test in them passes."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/rbac.md").read_text(), re.DOTALL)
    scope: JsonObject = {"__name__": "rbac_page"}
    for block in blocks:
        exec(compile(block, "rbac_page.py", "exec"), scope)
    await scope["test_rules"]()
