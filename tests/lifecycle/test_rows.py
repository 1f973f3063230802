"""The table of upstream's features is true to the tests."""

from __future__ import annotations

import re
from pathlib import Path

import opsdk.lifecycle

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "howto" / "lifecycles.md"


def test_each_row_names_a_test() -> None:
    """Every test of the table exists, and its docstring is a sentence."""
    rows = re.findall(r"^\|.*\| `([\w/]+\.py)::(\w+)` \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) > 40
    for file, name in rows:
        text = (TESTS / file).read_text()
        assert re.search(rf'def {name}\(.*?\) -> None:\n    """.+\."""', text, re.DOTALL), f"{file} has no {name}"


def test_each_public_name_can_be_imported() -> None:
    """The package imports its names on first use, and type checkers see the same ones."""
    stub = Path(opsdk.lifecycle.__file__).with_suffix(".pyi").read_text()
    assert sorted(re.findall(r" as (\w+)$", stub, re.MULTILINE)) == sorted(opsdk.lifecycle.__all__)
    for name in opsdk.lifecycle.__all__:
        assert getattr(opsdk.lifecycle, name) is not None
