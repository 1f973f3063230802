"""Verifies an operator in another process: a run with a disturbance at each place of a reference run, in real time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from opsdk.verification.absent_namespaces import AbsentNamespaces
from opsdk.verification.disturbances import DEFAULT_KINDS, DisturbanceKind, most_different
from opsdk.verification.foreign.errors import ForeignOperatorError
from opsdk.verification.foreign.places import ForeignDisturbance, pasts, placed_disturbances
from opsdk.verification.foreign.report import APPLY_IT, ForeignBrokenRun, ForeignSummary, missing_text
from opsdk.verification.foreign.run import ForeignOutcome, ForeignReference, ForeignSubject, reference_of, run_foreign
from opsdk.verification.foreign.workload import UserWorkload
from opsdk.verification.reference_run import uncompared_names

__all__ = ["ForeignVerification"]

_Place = tuple[UserWorkload, ForeignReference, ForeignDisturbance]
"""One disturbance of a workload."""

_REFERENCE_SHARE = 0.5
"""The share of the time limit after which no further workload begins: the disturbances need the rest."""


class ForeignVerification:
    """Verifies an operator in another process.

    Args:
        subject: what is verified.
        workloads: to run.
        time_limit: real seconds after which no further disturbance is run.
        parallel: number of runs at the same time, each with a server and an operator of its own.
        kinds: of the disturbances.
        budget: the number of disturbances that are run; None for all.
        progress: called after each run.

    Attributes:
        summary: of the runs until now.
    """

    def __init__(
        self, subject: ForeignSubject, workloads: Sequence[UserWorkload], *, time_limit: float = 600.0,
        parallel: int = 1, kinds: Sequence[DisturbanceKind] = DEFAULT_KINDS, budget: int | None = None,
        progress: Callable[[ForeignSummary], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self._subject, self._workloads, self._kinds = subject, workloads, kinds
        self._time_limit, self._parallel, self._progress = time_limit, parallel, progress
        self._budget = budget
        self.summary = ForeignSummary()
        self._usual: set[str] = set()
        """What undisturbed runs show too, beside the two of the reference."""

    async def run(self) -> ForeignSummary:
        """Run the workloads without and with each disturbance.

        Raises:
            ForeignOperatorError: the command cannot be verified; the message says what to do.
            WorkloadError: the API server refuses a step.
        """
        loop, summary = asyncio.get_running_loop(), self.summary
        begin = loop.time()
        calm: list[tuple[UserWorkload, ForeignReference]] = []
        for number, workload in enumerate(self._workloads):
            if number and loop.time() - begin > self._time_limit * _REFERENCE_SHARE:
                summary.omitted_workloads = len(self._workloads) - number
                break
            reference = await self._refer(workload)
            summary.workloads += 1
            if reference is not None:
                calm.append((workload, reference))
            self._progress(summary)
        numbered = [
            (number, each)
            for number, (_, workload_reference) in enumerate(calm)
            for each in self._disturbances(workload_reference)
        ]
        chosen, summary.beyond = most_different(numbered, self._budget)
        summary.planned = Counter(each.kind for _, each in chosen)
        places = ((*calm[number], each) for number, each in chosen)
        # The workers share one iterator: each takes the next place when it has time.
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._parallel):
                workers.create_task(self._work(places, begin + self._time_limit))
        confirmed = [run for run in summary.broken if run.disturbance is None or self._is_broken(run)]
        summary.unrepeated += len(summary.broken) - len(confirmed)
        summary.broken = confirmed
        summary.seconds = loop.time() - begin
        return summary

    async def _refer(self, workload: UserWorkload) -> ForeignReference | None:
        """Run a workload twice without a disturbance. Returns None if that breaks an invariant."""
        first = await run_foreign(self._subject, workload)
        if not first.watched:
            self._subject = replace(self._subject, watches=False)
        self.summary.unserved.update(dict.fromkeys(first.unserved))
        self.summary.missing.update(dict.fromkeys(first.missing))
        self.summary.absent_namespaces.note(first.writes)
        if first.violations:
            self.summary.add(ForeignBrokenRun(workload=workload, disturbance=None, outcome=first))
            return None
        if not any(write.changed for write in first.writes):
            raise ForeignOperatorError(_idle_text(workload, first, self.summary.absent_namespaces))
        second = await run_foreign(self._subject, workload)
        if second.violations:
            self.summary.add(ForeignBrokenRun(workload=workload, disturbance=None, outcome=second))
            return None
        reference = reference_of(first, second)
        self.summary.uncompared.update(dict.fromkeys(uncompared_names(reference.masks.values())))
        return reference

    def _disturbances(self, reference: ForeignReference) -> Iterator[ForeignDisturbance]:
        outcome = reference.outcome
        restarts = pasts(outcome.entries, outcome.moments, outcome.any_version & outcome.watched)
        placed = placed_disturbances(outcome.writes, outcome.messages, reference.names)
        for each in (*restarts, *placed):
            # A server merges a patch without a resource version into what it has: it meets no conflict.
            unlocked = each.kind is DisturbanceKind.CONFLICT and each.number not in outcome.locked
            # The steps of a process in real time wait for a rest each.
            is_early = each.kind is DisturbanceKind.EARLY
            if each.kind in self._kinds and not unlocked and not is_early:
                yield each

    async def _work(self, places: Iterator[_Place], end: float) -> None:
        """Run the places that are left, until the time is over."""
        loop, summary = asyncio.get_running_loop(), self.summary
        while loop.time() < end and (place := next(places, None)) is not None:
            workload, reference, disturbance = place
            run = await self._disturbed(workload, reference, disturbance)
            summary.runs[disturbance.kind] += 1
            if not run.outcome.happened:
                # Without its disturbance, it tells how much runs differ.
                summary.unreached += 1
                self._usual.update(run.outcome.violations)
            elif self._is_broken(run) and summary.is_new(run):
                if await self._is_confirmed(run, reference):
                    self.summary.add(run)
                else:
                    summary.unrepeated += 1
            self._progress(summary)

    def _is_broken(self, run: ForeignBrokenRun) -> bool:
        """Whether a run has violations that no undisturbed run has."""
        return not set(run.outcome.violations) <= self._usual

    async def _is_confirmed(self, run: ForeignBrokenRun, reference: ForeignReference) -> bool:
        """Run the disturbance again, and the workload without it: the order of requests may be the reason."""
        assert run.disturbance is not None
        again = await self._disturbed(run.workload, reference, run.disturbance)
        if not again.outcome.happened or not again.violation_kinds & run.violation_kinds:
            return False
        control = await run_foreign(self._subject, run.workload, reference=reference, known_violations=self._known)
        self._usual.update(control.violations)
        return self._is_broken(run)

    async def _disturbed(
        self, workload: UserWorkload, reference: ForeignReference, disturbance: ForeignDisturbance
    ) -> ForeignBrokenRun:
        outcome = await run_foreign(
            self._subject, workload, disturbance, reference=reference, known_violations=self._known
        )  # fmt: skip
        return ForeignBrokenRun(workload=workload, disturbance=disturbance, outcome=outcome)

    @property
    def _known(self) -> set[str]:
        """The violations of reported runs."""
        return {violation for each in self.summary.broken for violation in each.outcome.violations}


def _idle_text(workload: UserWorkload, outcome: ForeignOutcome, absent: AbsentNamespaces) -> str:
    unserved = "".join(f"\n  not served: {path}; pass its definition with --crds" for path in outcome.unserved)
    unserved += "".join(f"\n  {missing_text(path)}" for path in outcome.missing)
    unserved += "".join(f"\n  {text}" for text in absent.texts(APPLY_IT))
    lines = "".join(f"\n  {line}" for line in outcome.log)
    return (
        f"the operator wrote nothing while {workload.name} ran: apply an object that it handles, or raise --quiet "
        f"if it needs longer{unserved}{lines}"
    )
