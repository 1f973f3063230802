"""What the comparison of an operator with its leader gave, and its texts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from opsdk.engine.comment import Block, comment_lines, prose
from opsdk.engine.plan_text import StyledLine, value_text
from opsdk.engine.recording import RefusedRequest
from opsdk.engine.snapshot import Unseen
from opsdk.structured_merge.value import JsonValue

__all__ = ["Disagreement", "ShadowOutcome", "Side", "disagreement_lines", "markdown_lines", "summary_lines"]


class Side(StrEnum):
    """The side of a decision."""

    LEADER = "leader"
    """The operator that runs in the cluster."""
    SHADOW = "shadow"
    """The operator that runs in the fork."""


class Disagreement(msgspec.Struct, frozen=True, kw_only=True):
    """One field that the two leave otherwise.

    Attributes:
        subject: kind, namespace and name of the object.
        path: of the field; empty if only one of the two has the object.
        leader: the value in the cluster, or whether the object exists.
        shadow: the value in the fork, or whether the object exists.
        decided: the sides that changed the field.
        seconds: after the start.
    """

    subject: str
    path: str
    leader: JsonValue
    shadow: JsonValue
    decided: Sequence[Side]
    seconds: float


class ShadowOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a comparison gave.

    Attributes:
        operator: its name.
        disagreements: that last.
        agreed: number of decisions that were equal.
        late: number of disagreements that ended, because one side decided later.
        decisions: number of changes by each side.
        managers: the field managers of the leader.
        owned: number of objects that had fields of these managers at the start.
        last_write: when the last one of them was written, as an RFC 3339 timestamp; empty if it is not known.
        missed: number of the leader's changes just before and after the comparison, which were not compared.
        others: the field managers of other changes, with their numbers.
        seconds: of the comparison.
        failure: why the operator ended by itself; empty if it did not.
        failing: the last reconciles of objects whose last reconcile failed in the fork.
        refused: requests of the operator that the fork refused, each once.
        unseen: what could not be read or followed.
        blind: those of `unseen` that the operator reads or writes: they can hide a write.
        connections: targets outside of the fork that were refused.
    """

    operator: str
    disagreements: Sequence[Disagreement] = ()
    agreed: int = 0
    late: int = 0
    decisions: Mapping[Side, int] = {}
    managers: Sequence[str] = ()
    owned: int = 0
    last_write: str = ""
    missed: int = 0
    others: Mapping[str, int] = msgspec.field(default_factory=dict)
    seconds: float = 0.0
    failure: str = ""
    failing: Sequence[str] = ()
    refused: Sequence[RefusedRequest] = ()
    unseen: Sequence[Unseen] = ()
    blind: Sequence[Unseen] = ()
    connections: Sequence[str] = ()


_DECIDED: Final = {
    (Side.LEADER,): "only the leader changed it",
    (Side.SHADOW,): "only this version changes it",
    (Side.LEADER, Side.SHADOW): "both changed it",
}


def disagreement_lines(disagreement: Disagreement) -> Iterator[StyledLine]:
    """Yield the lines of one disagreement for a terminal."""
    what = f" {disagreement.path}" if disagreement.path else ""
    how = _DECIDED[tuple(disagreement.decided)]
    yield StyledLine(f"{disagreement.subject}{what} ({how}, after {disagreement.seconds:.0f} s)", "yellow")
    yield StyledLine(f"  leader:       {_side_text(disagreement.leader, disagreement)}")
    yield StyledLine(f"  this version: {_side_text(disagreement.shadow, disagreement)}")


def _side_text(value: JsonValue, disagreement: Disagreement) -> str:
    return value_text(value) if disagreement.path else str(value)


def summary_lines(outcome: ShadowOutcome) -> Iterator[StyledLine]:
    """Yield the lines at the end: what prevented a comparison, and the counts."""
    yield from _problems(outcome)
    yield StyledLine("")
    yield StyledLine(summary_of(outcome), "bold")


def summary_of(outcome: ShadowOutcome) -> str:
    """Return the last line.

    >>> summary_of(ShadowOutcome(operator="shop", agreed=3, decisions={Side.LEADER: 3}, seconds=60.0))
    'shop beside its leader for 60 s: 3 decisions equal, 0 fields differ, 0 came later.'
    """
    text = (
        f"{outcome.operator} beside its leader for {outcome.seconds:.0f} s: {outcome.agreed} decisions equal, "
        f"{len(outcome.disagreements)} fields differ, {outcome.late} came later."
    )
    return " ".join([text, *_leader_texts(outcome)])


def _leader_texts(outcome: ShadowOutcome) -> Iterator[str]:
    """Yield what the leader did, if it was not all compared."""
    compared = bool(outcome.decisions.get(Side.LEADER))
    if outcome.missed:
        changes = f"{outcome.missed} change{'s' if outcome.missed > 1 else ''}"
        advice = "" if compared else ", and none meanwhile: compare for longer"
        yield f"The leader made {changes} just before or after that{advice}."
    elif not compared and outcome.owned:
        when = f", the last one at {outcome.last_write}" if outcome.last_write else ""
        among = " of those that were read" if outcome.blind else ""
        before = f"The leader wrote {outcome.owned} objects before{when}"
        yield f"{before}, and changed none{among} meanwhile: compare for longer."
    elif not compared:
        names = ", ".join(outcome.managers)
        yield f"No object has a field of the leader: name its field manager with --leader, if it is not {names}."
    if not compared and outcome.others:
        yield f"Meanwhile, objects were changed by {', '.join(outcome.others)}."


def _problems(outcome: ShadowOutcome) -> Iterator[StyledLine]:
    if outcome.failure:
        yield StyledLine(outcome.failure, "bold red")
    for record in outcome.failing:
        yield StyledLine(f"Failing: {record.partition(chr(10))[0]}", "bold red")
    for request in outcome.refused:
        yield StyledLine(f"Refused: {request}", "bold red")
    for target in outcome.connections:
        yield StyledLine(f"Not reached: {target}", "bold red")
    for unseen in outcome.unseen:
        yield StyledLine(f"Not seen: {unseen}", "red" if unseen in outcome.blind else "")


def markdown_lines(outcome: ShadowOutcome) -> list[str]:
    """Return the lines of a comment for a pull request."""
    title = [f"### {outcome.operator} in the shadow of its leader", "", f"**{prose(summary_of(outcome))}**"]
    problems = [[f"- {prose(line.text)}"] for line in _problems(outcome)]
    blocks = [
        Block(
            head=["", "| object | field | leader | this version | |", "| --- | --- | --- | --- | --- |"],
            chunks=[[_row(each)] for each in outcome.disagreements],
            noun="field",
            rank=1,
        ),
        Block(head=[""], chunks=problems, noun="problem"),
    ]
    return comment_lines(title, blocks, whole="opsdk plan --shadow --output json")


def _row(each: Disagreement) -> str:
    leader, shadow = (_cell(_side_text(value, each)) for value in (each.leader, each.shadow))
    return f"| {each.subject} | {_cell(each.path)} | {leader} | {shadow} | {_DECIDED[tuple(each.decided)]} |"


def _cell(text: str) -> str:
    return prose(text).replace("|", "\\|")
