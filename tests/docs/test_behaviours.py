"""The page of behaviours is complete and true to the tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tools.generate.behaviours import Behaviour, Proof, proofs, read_behaviours, read_proofs, render_behaviours
from tools.generate.errors import GenerateError

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/behaviours.md").read_text()
ROWS = re.findall(r"^\| (\d+) \| (.+) \| (.*) \| (same|better: .+|not applicable: .+|open) \|$", PAGE, re.MULTILINE)


def test_every_behaviour_has_a_row() -> None:
    """The table has 146 rows in order, each with a sentence."""
    assert [int(number) for number, *_ in ROWS] == list(range(1, 147))
    assert all(text.endswith(".") for _, text, *_ in ROWS)


def test_every_named_test_exists() -> None:
    """A test in a row is a function of its file; rows without a test are open or not applicable, and say so."""
    functions: dict[str, set[str]] = {}
    for _, _, tests, state in ROWS:
        assert bool(tests) == state.startswith(("same", "better"))
        for path, name in re.findall(r"`([\w/.]+)::(\w+)`", tests):
            if path not in functions:
                nodes = ast.parse((ROOT / path).read_text()).body
                functions[path] = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
            assert name in functions[path]


def test_the_page_is_as_generated() -> None:
    """The committed page is what the marks make."""
    assert render_behaviours(read_behaviours(ROOT), read_proofs(ROOT)) == PAGE


@pytest.mark.parametrize(
    "mark", ["behaviour(NUMBER)", "behaviour()", 'behaviour("7")', "behaviour(7, worse='x')", "behaviour(**options)"]
)
def test_unreadable_marks_are_refused(mark: str) -> None:
    """A mark that is not written with literal numbers and one reason names its test in the error."""
    with pytest.raises(GenerateError, match=r"test_x\.py::test_a"):
        list(proofs(f"@pytest.mark.{mark}\ndef test_a(): ...\n", "test_x.py"))


def test_marks_without_their_behaviour_are_refused() -> None:
    """A mark of an unknown behaviour, or of one that is not applicable, is an error."""
    behaviours = [Behaviour(1, "One."), Behaviour(2, "Two.", not_applicable="none")]
    assert "| 1 | One. | `t.py::test_a` | better: why |" in render_behaviours(
        behaviours, [Proof(1, "t.py::test_a", "why")]
    )
    for number in (2, 3):
        with pytest.raises(GenerateError, match="test_a"):
            render_behaviours(behaviours, [Proof(number, "t.py::test_a")])
