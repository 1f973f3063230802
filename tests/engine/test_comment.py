"""Markdown for a pull request fits a comment however large the plan is, and says what it leaves out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.engine.comment import MAX_COMMENT, Block, comment_lines
from opsdk.engine.differences import Difference
from opsdk.engine.plan import (
    ChangeAction,
    Consequence,
    ConsequenceKind,
    Plan,
    PlannedChange,
    PlannedObject,
    Severity,
)
from opsdk.engine.plan_text import markdown_lines
from opsdk.engine.shadow.outcome import Disagreement, ShadowOutcome, Side
from opsdk.engine.shadow.outcome import markdown_lines as shadow_lines

LINES = st.lists(st.text("ab\n<`", max_size=30), max_size=3)
BLOCKS = st.lists(
    st.builds(
        Block,
        head=LINES.map(lambda lines: [line.replace("\n", " ") for line in lines]),
        chunks=st.lists(LINES, max_size=6),
        tail=st.just(["```"]),
        noun=st.just("change"),
        whole=st.sampled_from(["", "object"]),
        rank=st.integers(0, 2),
    ),
    max_size=6,
)


def _change(number: int, size: int) -> PlannedChange:
    return PlannedChange(
        action=ChangeAction.UPDATE, kind="ConfigMap", api_version="v1", namespace="default", name=f"c{number}",
        differences=[Difference(path=f"data.key-{each}", old="a" * 90, new=f"{number}" * 90) for each in range(size)],
    )  # fmt: skip


def _plan(objects: int, changes: int, consequences: int) -> Plan:
    return Plan(
        operator="shop", taken_at="2026-01-01T00:00:00Z", server_version="v1.36.2",
        objects=[
            PlannedObject(
                controller="shop", subject=f"Shop default/s{number}",
                changes=[_change(number * 1_000 + each, 12) for each in range(changes)],
            )
            for number in range(objects)
        ],
        consequences=[
            Consequence(
                kind=ConsequenceKind.REFUSED, severity=Severity.DANGER, subject=f"ConfigMap default/c{number}",
                message=f"refused {number}: " + "spec.selector: field is immutable " * 50,
            )
            for number in range(consequences)
        ],
        connections=["dns.example.com:53"],
    )  # fmt: skip


@given(BLOCKS, st.integers(700, 1_500))
def test_a_comment_has_at_most_its_characters(blocks: list[Block], limit: int) -> None:
    """Whatever the blocks are, with their line breaks."""
    lines = comment_lines(["title"], blocks, whole="opsdk plan", limit=limit)
    assert len("\n".join(lines)) + 1 <= limit


@given(BLOCKS, st.integers(700, 1_500))
def test_a_comment_shows_a_chunk_or_counts_it(blocks: list[Block], limit: int) -> None:
    """A comment without the sentence has every chunk, and one with it lacks some."""
    lines = comment_lines(["title"], blocks, whole="opsdk plan", limit=limit)
    whole = comment_lines(["title"], blocks, whole="opsdk plan", limit=1_000_000)
    assert (lines == whole) == (not any(line.startswith("Left out") for line in lines))


@pytest.mark.parametrize(
    ("objects", "changes", "consequences"), [(1, 1, 1), (900, 2, 1), (1, 900, 1), (1, 1, 400), (300, 20, 300)]
)
def test_a_plan_of_any_size_fits_a_comment(objects: int, changes: int, consequences: int) -> None:
    """The summary, the danger and what was not reached are there; each opened fold is closed."""
    lines = markdown_lines(_plan(objects, changes, consequences))
    text = "\n".join(lines)
    assert len(text) < MAX_COMMENT
    assert lines[0].startswith("### Plan of shop")
    assert f"**{objects * changes} to update. {consequences} danger" in text
    assert "refused 0" in text
    assert text.count("<details>") == text.count("</details>") == text.count("```diff")
    assert ("Left out" in text) == (objects * changes + consequences > 10)
    if objects == changes == consequences == 1:
        assert "dns.example.com:53: it was not reached" in text


@pytest.mark.slow
def test_a_comment_says_what_is_missing_and_where_the_whole_is() -> None:
    """The last line counts what was left out, and has the command that prints it."""
    last = markdown_lines(_plan(900, 2, 1))[-1]
    assert last.startswith("Left out, because this comment has at most 60,000 characters: ")
    assert " objects. " in last
    assert last.endswith("`opsdk plan --output text` prints the whole.")


def test_words_of_the_server_stay_text() -> None:
    """A message cannot end a fold, and a line break in it does not end its line."""
    message = "denied:\n</details> a < b"
    consequence = Consequence(
        kind=ConsequenceKind.REFUSED, severity=Severity.DANGER, subject="ConfigMap default/a", message=message
    )
    plan = Plan(operator="shop", taken_at="", server_version="", consequences=[consequence])
    assert markdown_lines(plan)[-1] == "- **Danger**: `ConfigMap default/a`: denied: &lt;/details> a &lt; b"


def test_a_comparison_with_the_leader_fits_too() -> None:
    """Fields that differ are left out when there are too many; the problems stay."""
    disagreements = [
        Disagreement(
            subject=f"ConfigMap default/c{number}", path="data.text", leader="a", shadow="b", decided=[Side.SHADOW],
            seconds=1.0,
        )
        for number in range(3_000)
    ]  # fmt: skip
    outcome = ShadowOutcome(operator="shop", disagreements=disagreements, failing=["reconcile of a\nlong"])
    text = "\n".join(shadow_lines(outcome))
    assert len(text) < MAX_COMMENT
    assert "Failing: reconcile of a" in text
    assert "Left out" in text
