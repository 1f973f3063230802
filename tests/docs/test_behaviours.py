"""The page of behaviours is complete and true to the tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.generate.behaviours import Behaviour, Proof, proofs, read_behaviours, read_proofs, render_behaviours
from tools.generate.errors import GenerateError

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/behaviours.md").read_text()
ROWS = re.findall(r"^\| (\d+) \| (.+) \| (better: .+|not applicable: .+|open) \|$", PAGE, re.MULTILINE)


def test_the_data_has_every_behaviour() -> None:
    """146 behaviours in order, each with a sentence; those without a test are not applicable, or open on the page."""
    behaviours = read_behaviours(ROOT)
    assert [behaviour.number for behaviour in behaviours] == list(range(1, 147))
    assert all(behaviour.text.endswith(".") for behaviour in behaviours)
    proven = {proof.number for proof in read_proofs(ROOT)}
    unproven = {behaviour.number for behaviour in behaviours} - proven
    assert unproven == {int(number) for number, _, state in ROWS if not state.startswith("better")}


def test_the_page_leaves_out_what_is_the_same() -> None:
    """A row says how opsdk differs; a behaviour that tests prove to be the same is counted only."""
    page = render_behaviours([Behaviour(1, "One."), Behaviour(2, "Two.")], [Proof(1, "t.py::test_a")])
    assert "2 behaviours: 1 same, 0 better, 0 not applicable, 1 open." in page
    assert "One." not in page
    assert "| 2 | Two. | open |" in page


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
    assert "| 1 | One. | better: why |" in render_behaviours(behaviours, [Proof(1, "t.py::test_a", "why")])
    for number in (2, 3):
        with pytest.raises(GenerateError, match="test_a"):
            render_behaviours(behaviours, [Proof(number, "t.py::test_a")])
