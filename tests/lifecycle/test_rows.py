"""The tables of upstream's features are true to the tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("folder", ["lifecycle", "norman"])
def test_each_row_names_a_test(folder: str) -> None:
    """Every test of the table exists, and its docstring is a sentence."""
    table = (TESTS / folder / "UPSTREAM.md").read_text()
    rows = re.findall(r"^\|.*\| `([\w/]+\.py)::(\w+)` \|$", table, re.MULTILINE)
    assert len(rows) == table.count("\n| ") - 2
    for file, name in rows:
        text = (TESTS / file).read_text()
        assert re.search(rf'def {name}\(.*?\) -> None:\n    r?""".+\."""', text, re.DOTALL), f"{file} has no {name}"
