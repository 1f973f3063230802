"""What a verification of another process reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from opsdk.structured_merge.value import JsonObject
from opsdk.verification.absent_namespaces import AbsentNamespaces
from opsdk.verification.attack_summary import AttackSummary
from opsdk.verification.disturbances import NOTHING_ATTACKED, counts_of, title_of
from opsdk.verification.foreign.places import ForeignDisturbance
from opsdk.verification.foreign.run import ForeignOutcome
from opsdk.verification.foreign.workload import UserWorkload
from opsdk.verification.reference_run import uncompared_text

__all__ = ["APPLY_IT", "ForeignBrokenRun", "ForeignSummary", "missing_text"]

APPLY_IT: Final = "apply it in the workload"
"""What to do about an object that the operator needs."""
_MAX_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignBrokenRun:
    """A disturbance that the operator does not survive.

    Attributes:
        workload: its steps.
        disturbance: what went wrong; None if nothing did.
        outcome: of the run.
    """

    workload: UserWorkload
    disturbance: ForeignDisturbance | None
    outcome: ForeignOutcome

    @property
    def violation_kinds(self) -> frozenset[str]:
        """The broken invariants, and the kind of the object that shows each."""
        return frozenset(_violation_kind(violation) for violation in self.outcome.violations)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{title_of(self.disturbance)}:"
        yield from (f"  {violation}" for violation in self.outcome.violations[:_MAX_SHOWN])
        yield f"The workload {self.workload.name}:"
        yield from (f"  {step}" for step in self.workload.steps)
        yield "Requests of the operator:"
        yield from (f"  {request}" for request in self.outcome.requests)
        if self.outcome.log:
            yield "The last lines of its output:"
            yield from (f"  {line}" for line in self.outcome.log)
        yield ""

    def as_json(self) -> JsonObject:
        """Return the run for programs."""
        return {
            "disturbance": str(self.disturbance or ""),
            "violations": list(self.outcome.violations),
            "workload": [str(step) for step in self.workload.steps],
            "requests": list(self.outcome.requests),
            "log": list(self.outcome.log),
        }


def missing_text(path: str) -> str:
    """Return the sentence about an object that nothing creates, and what to add."""
    return f"the operator looks for {path}, which nothing creates: {APPLY_IT}"


def _violation_kind(violation: str) -> str:
    """Return the invariant; for a state also the resource, and the upper part of the field.

    >>> _violation_kind("state at rest: sites default/a status.phase: 'Up' -> absent")
    'state at rest: sites status'
    """
    invariant, _, rest = violation.partition(":")
    words = rest.split()
    if not invariant.startswith(("state", "creations")) or len(words) < 3:
        return invariant
    return f"{invariant}: {words[0]} {words[2].partition('.')[0].rstrip(':')}"


@dataclass(kw_only=True)
class ForeignSummary(AttackSummary[ForeignBrokenRun]):
    """What was verified.

    Attributes:
        unreached: number of runs that did not reach their disturbance.
        omitted_workloads: number of workloads for which there was no time.
        unserved: paths of kinds that are not served.
        missing: paths of objects that the operator looks for, and that nothing creates.
        absent_namespaces: that the operator writes into, and that nothing creates.
        left_out: what the generated workloads do not change, one sentence each.
    """

    unreached: int = 0
    omitted_workloads: int = 0
    unserved: dict[str, None] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    absent_namespaces: AbsentNamespaces = field(default_factory=AbsentNamespaces)
    left_out: Sequence[str] = ()

    @property
    def unfinished(self) -> bool:
        """Whether the time limit has left out a part."""
        return bool(self.omitted or self.omitted_workloads)

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        yield from map(str, self.broken)
        for path in self.unserved:
            yield f"not served: {path}; if the operator needs it, pass its definition with --crds"
        yield from map(missing_text, self.missing)
        yield from self.absent_namespaces.texts(APPLY_IT)
        yield from self.left_out
        if self.uncompared:
            yield uncompared_text(self.uncompared)
        if self.unreached:
            yield f"{self.unreached} runs did not reach their disturbance: the order of requests differs between runs"
        if self.unrepeated:
            yield f"{self.unrepeated} broken runs were not confirmed: runs differ without a disturbance too"
        if self.omitted_workloads:
            yield f"{self.omitted_workloads} workloads left for lack of time"
        if not self.runs:
            yield NOTHING_ATTACKED
        elif self.unfinished:
            yield "unfinished: pass a longer --time-limit"
        yield str(self)

    def as_json(self) -> JsonObject:
        """Return the report for programs."""
        return {
            "broken": [run.as_json() for run in self.broken],
            "workloads": self.workloads,
            "runs": counts_of(self.runs),
            "omitted": counts_of(self.omitted),
            "beyond": counts_of(self.beyond),
            "unfinished": self.unfinished,
            "omitted_workloads": self.omitted_workloads,
            "unreached": self.unreached,
            "unrepeated": self.unrepeated,
            "unserved": list(self.unserved),
            "missing": list(self.missing),
            "absent_namespaces": self.absent_namespaces.names,
            "left_out": list(self.left_out),
            "uncompared": list(self.uncompared),
            "seconds": round(self.seconds, 1),
        }
