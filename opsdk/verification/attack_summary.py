"""What the disturbed runs of a verification show, in whatever process the operator runs. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from opsdk.verification.disturbances import DisturbanceKind, by_kind

__all__ = ["AttackSummary"]


class _Run(Protocol):
    """A broken run."""

    @property
    def violation_kinds(self) -> frozenset[str]:
        """What its violations have in common with those of other runs that show the same bug."""
        ...


RunT = TypeVar("RunT", bound=_Run)


@dataclass(kw_only=True)
class AttackSummary(Generic[RunT]):
    """What was attacked, and what broke.

    Attributes:
        workloads: number of workloads with a run that was not disturbed.
        planned: number of disturbances of the budget, by kind.
        runs: number of disturbances that were run, by kind.
        beyond: number of disturbances beyond the budget, by kind.
        unrepeated: number of broken runs that were not confirmed: a second run with the same disturbance is not broken,
            or one without it is broken too.
        uncompared: objects and fields that are not compared, since two runs without a disturbance differ in them.
        seconds: of real time.
        broken: what the operator does not survive, once for the same kinds of violations.
    """

    workloads: int = 0
    planned: Counter[DisturbanceKind] = field(default_factory=Counter)
    runs: Counter[DisturbanceKind] = field(default_factory=Counter)
    beyond: Counter[DisturbanceKind] = field(default_factory=Counter)
    unrepeated: int = 0
    uncompared: dict[str, None] = field(default_factory=dict)
    seconds: float = 0.0
    broken: list[RunT] = field(default_factory=list)

    @property
    def omitted(self) -> Counter[DisturbanceKind]:
        """The number of disturbances of the budget for which there was no time, by kind."""
        return self.planned - self.runs

    def add(self, run: RunT) -> None:
        """Add a broken run, unless another one breaks the same invariants: one bug shows at many places."""
        if self.is_new(run):
            self.broken.append(run)

    def is_new(self, run: RunT) -> bool:
        """Whether no other run breaks the same invariants."""
        return all(run.violation_kinds != each.violation_kinds for each in self.broken)

    @property
    def bugs(self) -> str:
        """The number of broken runs, in words."""
        return f"{len(self.broken)} bug{'' if len(self.broken) == 1 else 's'}"

    @property
    def _workloads_text(self) -> str:
        return f"{self.workloads} workloads"

    def __str__(self) -> str:
        counts = by_kind(self.runs)
        if omitted := self.omitted:
            counts += f"; {omitted.total()} left for lack of time: {by_kind(omitted)}"
        if self.beyond:
            counts += f"; {self.beyond.total()} beyond the budget: {by_kind(self.beyond)}"
        runs = f"{self.runs.total()} disturbances of {self._workloads_text} ({counts})"
        return f"{runs}, {self.bugs}, {self.seconds:.1f} s"
