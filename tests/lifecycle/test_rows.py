"""The table of upstream's features is true to the tests."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "howto" / "lifecycles.md"


def test_each_row_names_a_test() -> None:
    """Every test of the table exists, and its docstring is a sentence."""
    rows = re.findall(r"^\|.*\| `([\w/]+\.py)::(\w+)` \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) > 40
    for file, name in rows:
        text = (TESTS / file).read_text()
        assert re.search(rf'def {name}\(.*?\) -> None:\n    """.+\."""', text, re.DOTALL), f"{file} has no {name}"
