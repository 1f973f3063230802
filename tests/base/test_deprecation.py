"""Deprecated names warn with the version of their removal, and leave with it."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from opsdk.base.deprecation import warn_deprecated
from opsdk.base.version import VERSION

ROOT = Path(__file__).resolve().parents[2]


def old_name() -> int:
    """Return a value, as before the deprecation."""
    warn_deprecated("opsdk.old_name", removed_in="0.3.0", instead="use opsdk.new_name")
    return 1


def number(version: str) -> tuple[int, ...]:
    """Return a version as a value that can be compared."""
    return tuple(int(part) for part in version.split("."))


def removals(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the version of removal of each deprecation; empty if it is not a literal."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("warn_deprecated"):
            (value,) = [keyword.value for keyword in node.keywords if keyword.arg == "removed_in"]
            yield node.lineno, value.value if isinstance(value, ast.Constant) else ""


def overdue(source: str, version: str) -> list[str]:
    """Return the deprecations whose version of removal is reached, or has no numbers."""
    return [
        f"line {line}: removed_in={removed_in!r}"
        for line, removed_in in removals(source)
        if not removed_in or number(removed_in) <= number(version)
    ]


def test_a_deprecated_name_warns_once_for_each_calling_line() -> None:
    """The warning points at the caller, and names the version of removal and the replacement."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        assert [old_name() for _ in range(3)] == [1, 1, 1]
    (warning,) = caught
    assert warning.category is DeprecationWarning
    assert warning.filename == __file__
    assert str(warning.message) == "opsdk.old_name is deprecated, and 0.3.0 removes it: use opsdk.new_name"


@pytest.mark.parametrize(("version", "late"), [("0.2.0", False), ("0.2.9", False), ("0.3.0", True), ("0.10.0", True)])
def test_a_removal_is_due_from_its_version_on(version: str, late: bool) -> None:
    """The name stays for all versions before that of its removal."""
    source = 'warn_deprecated("a", removed_in="0.3.0", instead="b")'
    assert bool(overdue(source, version)) is late
    assert overdue('deprecation.warn_deprecated("a", removed_in=LATER, instead="b")', version)


def test_no_name_outlives_its_version_of_removal() -> None:
    """A change of the version removes the names that were announced for it."""
    late = {
        str(path.relative_to(ROOT)): lines
        for package in ("opsdk", "envtest")
        for path in sorted((ROOT / package).rglob("*.py"))
        if "warn_deprecated" in (text := path.read_text()) and (lines := overdue(text, VERSION))
    }
    assert late == {}
