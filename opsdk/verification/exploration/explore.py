"""Explores a workload: all its schedules within bounds, where equal states are continued once.

::

    explore(SIMULATION, [WorkloadStep("create_site"), WorkloadStep("delete_site")])
"""

from __future__ import annotations

import gc
import os
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import BinaryIO, Final, NoReturn

import msgspec

from opsdk.engine.world.declaration import SimulatedOperator
from opsdk.engine.world.outcome import Outcome
from opsdk.errors import OpsdkError, UsageError
from opsdk.verification.exploration.bounds import Bounds, Choice, Option, Schedule
from opsdk.verification.exploration.known_states import KnownStates
from opsdk.verification.exploration.scheduled_run import Replay, ScheduledRun
from opsdk.verification.exploration.snapshots import ProcessSlots, Snapshots
from opsdk.verification.guided_run import WorkloadRun, WorkloadStep, outside_text
from opsdk.verification.processes import become_child, forking
from opsdk.verification.reference_run import REFERENCE_SEED, ReferenceRun

__all__ = ["DEFAULT_BOUNDS", "Counterexample", "Exploration", "explore", "verify_schedule"]

DEFAULT_BOUNDS: Final = Bounds()
"""One crash, one stale view, and two deviations."""
_POLL_SECONDS: Final = 0.1
_CHANCE: Final = "let the operator decide neither by the real time nor by random numbers of its own"
_WITHOUT: Final = "verify it without --exhaustive"
_RESTLESS: Final = f"let it compare what it would write with what exists, or {_WITHOUT}"


class Counterexample(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that the operator does not survive.

    Attributes:
        schedule: the options that the run takes.
        violations: what followed.
        journal: the operator's journal of the objects that the violations name.
    """

    schedule: Schedule
    violations: Sequence[str]
    journal: str = ""

    def __str__(self) -> str:
        choices = "".join(f"  {choice}\n" for choice in self.schedule) or "  none\n"
        problems = "".join(f"  {violation}\n" for violation in self.violations)
        return f"{problems}The schedule:\n{choices}The operator's journal:\n\n{self.journal}\n"


class Exploration(msgspec.Struct, kw_only=True):
    """What a search found.

    Attributes:
        bounds: of each schedule.
        states: number of different states.
        runs: number of runs, most of which ended in a known state.
        complete: no schedule within the bounds is left.
        counterexamples: the broken runs; the search ends soon after the first one.
        reference: the run without options.
        seconds: real time.
    """

    bounds: Bounds
    states: int = 0
    runs: int = 0
    complete: bool = False
    counterexamples: Sequence[Counterexample] = ()
    seconds: float = 0.0
    reference: Outcome = Outcome()

    def __str__(self) -> str:
        end = "complete" if self.complete else "not complete"
        return f"{end}: {self.states} states ({self.bounds}), {self.runs} runs, {self.seconds:.1f} s"


def explore(
    declared: SimulatedOperator, steps: Sequence[WorkloadStep], bounds: Bounds = DEFAULT_BOUNDS, *,
    order: int | None = None, time_limit: float = 300.0, processes: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> Exploration:  # fmt: skip
    """Run a workload under every schedule within bounds. Call it outside any event loop.

    The operator must not use threads: its runs are continued in copies of the process.

    Args:
        declared: the operator, its environment, its actions and its invariants.
        steps: the workload. Three actions of a small operator have some thousand states.
        bounds: of each schedule.
        order: the seed of the order in which tasks run that are ready at once, from which schedules deviate; None for
            first in, first out.
        time_limit: real seconds, after which the search is not complete.
        processes: that run at the same time; 0 for one on each processor.
        progress: called from time to time, with the number of states.

    Raises:
        UsageError: the platform has no fork.
        OpsdkError: the operator uses threads, does not come to rest, differs in equal runs, or tries to reach what is
            outside of the simulated cluster; or there are more states than there is room for.
    """
    if not hasattr(os, "fork"):
        raise UsageError("an exhaustive search copies processes, which this platform cannot: use Linux or macOS")
    began = time.monotonic()
    run = partial(_run_schedule, declared, steps, (), order=order)
    reference = ReferenceRun(run, steps)
    if reference.connections:
        raise OpsdkError("; ".join(map(outside_text, reference.connections)))
    if reference.violations:
        return _broken_reference(reference, bounds, seconds=time.monotonic() - began)
    if reference.outcome.restless:
        writes = ", ".join(reference.outcome.restless)
        raise OpsdkError(f"the operator does not come to rest ({writes}), so it has states without end: {_RESTLESS}")
    states = KnownStates(bounds)
    with tempfile.TemporaryFile() as reports:
        deadline = began + time_limit
        search = _Search(declared, steps, reference, order=order, states=states, reports=reports, deadline=deadline)
        _run_processes(search, processes or os.cpu_count() or 1, lambda: progress(len(states)))
        reports.seek(0)
        ends = [msgspec.json.decode(line, type=_RunEnd) for line in reports.read().splitlines()]
    if failures := [end.failure for end in ends if end.failure]:
        raise OpsdkError(f"the search has ended: {failures[0]}")
    counterexamples = [end.counterexample for end in ends if end.counterexample is not None]
    if counterexamples and (chance := reference.judge(run(REFERENCE_SEED), counted=True)):
        raise OpsdkError(f"two equal runs differ ({chance[0]}): {_CHANCE}")
    return Exploration(
        bounds=bounds,
        states=len(states),
        runs=len(ends),
        complete=not states.stopped,
        counterexamples=counterexamples,
        seconds=time.monotonic() - began,
        reference=reference.outcome,
    )


def _broken_reference(reference: ReferenceRun, bounds: Bounds, *, seconds: float) -> Exploration:
    """Return the result for an operator that breaks an invariant without any option."""
    violations, outcome = reference.violations, reference.outcome
    broken = Counterexample(schedule=(), violations=violations, journal=outcome.journal_of(violations))
    return Exploration(bounds=bounds, runs=1, counterexamples=[broken], seconds=seconds, reference=outcome)


def verify_schedule(
    declared: SimulatedOperator, steps: Sequence[WorkloadStep], schedule: Sequence[Choice], *, order: int | None = None
) -> Sequence[str]:
    """Return the violations of one schedule of a workload, as `explore` found them with the same `order`."""
    reference = ReferenceRun(partial(_run_schedule, declared, steps, (), order=order), steps)
    if reference.violations:
        return reference.violations
    outcome = _run_schedule(declared, steps, schedule, REFERENCE_SEED, order)
    return reference.judge(outcome, counted=_is_counted(schedule))


def _run_schedule(
    declared: SimulatedOperator, steps: Sequence[WorkloadStep], schedule: Sequence[Choice], seed: int,
    order: int | None,
) -> Outcome:  # fmt: skip
    return WorkloadRun(declared, steps, ScheduledRun(Replay(schedule), len(steps)), seed=seed, order=order).execute()


def _is_counted(schedule: Sequence[Choice]) -> bool:
    """Whether the operator has no reason to create, delete or repeat anything more often than without the schedule.

    With an old view it may create a child of a deleted owner, which is collected again and again.
    """
    return all(choice.option in (Option.CRASH, Option.LATE) for choice in schedule)


class _RunEnd(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the process of a run reports."""

    counterexample: Counterexample | None = None
    failure: str = ""


def _run_processes(search: _Search, processes: int, progress: Callable[[], None]) -> None:
    """Run the search in a process group of its own, and wait for its end."""
    slots = ProcessSlots(processes)
    pid = 0
    try:
        with forking():
            if not (pid := os.fork()):
                search.run(slots)
            os.setpgid(pid, pid)
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            progress()
            time.sleep(_POLL_SECONDS)
    finally:
        if pid:
            _kill_group(pid)
        slots.close()


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return  # all have ended


class _Search:
    """The search in one process: a `Chooser` whose process is copied at each new state."""

    def __init__(
        self, declared: SimulatedOperator, steps: Sequence[WorkloadStep], reference: ReferenceRun, *,
        order: int | None, states: KnownStates, reports: BinaryIO, deadline: float,
    ) -> None:  # fmt: skip
        self._reference, self._states, self._reports, self._deadline = reference, states, reports, deadline
        self._run = WorkloadRun(declared, steps, ScheduledRun(self, len(steps)), seed=REFERENCE_SEED, order=order)
        self._left = states.bounds
        self._schedule: Schedule = ()
        self._own: set[bytes] = set()

    def run(self, slots: ProcessSlots) -> NoReturn:
        """Run the workload, and continue its snapshots. Each copy of this process comes to the end of this method."""
        os.setpgid(0, 0)
        become_child()
        gc.freeze()
        self._snapshots = Snapshots(slots)
        self._threads = threading.active_count()
        try:
            self._end(self._run.execute())
        except BaseException:  # noqa: BLE001 - a copy must not return into the code of its caller
            self._fail(f"a run failed:\n{traceback.format_exc()}")

    def choose(self, number: int, text: str, options: Sequence[Option], state: Callable[[], bytes]) -> Option | None:
        """Keep a snapshot for the options of a new state. Ends the run if the state is known."""
        digest = state()
        if digest in self._own:
            return None  # a loop: its end tells whether it is harmless
        if not self._states.add(digest, self._left):
            self._end(self._run.outcome([]), partial=True)
        self._own.add(digest)
        options = [option for option in options if self._left.after(option) is not None]
        if not options or self._is_over():
            return None
        if threading.active_count() > self._threads:
            self._fail(f"the operator uses threads, which the copies of a process do not have: {_WITHOUT}")
        option = self._snapshots.take(options)
        if option is None:
            return None
        if self._is_over():
            os._exit(0)
        after = self._left.after(option)
        assert after is not None, option
        self._left = after
        self._schedule = (*self._schedule, Choice(number, option, text))
        return option

    def _is_over(self) -> bool:
        if time.monotonic() > self._deadline:
            self._states.stop()
        return self._states.stopped

    def _end(self, outcome: Outcome, *, partial: bool = False) -> NoReturn:
        """Judge the run, continue its snapshots, and end the process."""
        if outcome.connections:
            self._fail("; ".join(map(outside_text, outcome.connections)))
        counterexample = None
        if violations := self._reference.judge(outcome, counted=_is_counted(self._schedule), partial=partial):
            journal = outcome.journal_of(violations)
            counterexample = Counterexample(schedule=self._schedule, violations=violations, journal=journal)
            self._states.stop()
        self._report(_RunEnd(counterexample=counterexample))
        self._snapshots.end()

    def _fail(self, failure: str) -> NoReturn:
        self._states.stop()
        self._report(_RunEnd(failure=failure))
        os._exit(1)

    def _report(self, end: _RunEnd) -> None:
        # The copies share one file position, so that no report overwrites another.
        os.write(self._reports.fileno(), msgspec.json.encode(end) + b"\n")
