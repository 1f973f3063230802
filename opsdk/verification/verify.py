"""Verifies an operator: each disturbance of each place of a reference run, and what it must not change.

::

    verify(SIMULATION, range(3), name="SIMULATION")
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from opsdk.errors import UsageError
from opsdk.testing.simulation.declaration import SimulatedOperator, name_of
from opsdk.verification.disturbances import COUNTED, Disturbance, DisturbanceKind, guided_disturbances
from opsdk.verification.guided_run import GuidedOutcome, WorkloadStep, run_guided
from opsdk.verification.rest_state import Mask, mask_of, state_violations

__all__ = ["BrokenRun", "VerificationSummary", "draw_workload", "run_verification", "verify", "verify_disturbance"]

_MAX_ACTIONS: Final = 5
_MAX_SHOWN: Final = 5
_SEED: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRun:
    """A disturbance that the operator does not survive.

    Attributes:
        name: of the declaration, in the printed test.
        steps: the workload.
        disturbance: what went wrong; None if nothing did.
        violations: what followed.
        journal: the operator's journal of the objects that the violations name.
    """

    name: str
    steps: Sequence[WorkloadStep]
    disturbance: Disturbance | None
    violations: Sequence[str]
    journal: str = ""

    def test_text(self) -> str:
        """Return a pytest test that repeats the run."""
        steps = "".join(f"        {step!r},\n" for step in self.steps)
        return (
            f"def test_disturbed() -> None:\n"
            f"    steps = [\n{steps}    ]\n"
            f"    violations = verify_disturbance({self.name}, steps, {self.disturbance!r})\n"
            f"    assert not violations, violations\n"
        )

    def __str__(self) -> str:
        problems = "".join(f"  {violation}\n" for violation in self.violations[:_MAX_SHOWN])
        journal = f"The operator's journal:\n\n{self.journal}\n\n" if self.journal else ""
        steps = "".join(f"  {step.name}\n" for step in self.steps)
        return f"{self.disturbance or 'without a disturbance'}:\n{problems}The workload:\n{steps}{journal}"

    @property
    def sorts(self) -> frozenset[str]:
        """The broken invariants."""
        return frozenset(violation.partition(":")[0] for violation in self.violations)


@dataclass(kw_only=True)
class VerificationSummary:
    """What was verified.

    Attributes:
        workloads: number of workloads.
        runs: number of disturbances that were run, by kind.
        omitted: number of disturbances for which there was no time.
        seconds: of real time.
        broken: what the operator does not survive, each sort once.
    """

    workloads: int = 0
    runs: Counter[DisturbanceKind] = field(default_factory=Counter)
    omitted: int = 0
    seconds: float = 0.0
    broken: list[BrokenRun] = field(default_factory=list)

    def add(self, run: BrokenRun) -> None:
        """Add a broken run, unless another one breaks the same invariants: one bug shows at many places."""
        if all(run.sorts != each.sorts for each in self.broken):
            self.broken.append(run)

    @property
    def bugs(self) -> str:
        """The number of broken runs, in words."""
        return f"{len(self.broken)} bug{'' if len(self.broken) == 1 else 's'}"

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind.value}" for kind, count in sorted(self.runs.items()))
        rest = f", {self.omitted} left for lack of time" if self.omitted else ""
        return (
            f"{sum(self.runs.values())} disturbances of {self.workloads} workloads ({kinds}{rest}), "
            f"{self.bugs}, {self.seconds:.1f} s"
        )


def verify(
    declared: SimulatedOperator, workloads: Iterable[int] = range(3), *, name: str = "SIMULATION",
    time_limit: float = 600.0, kinds: Sequence[DisturbanceKind] = tuple(DisturbanceKind),
) -> VerificationSummary:  # fmt: skip
    """Run workloads without and with each disturbance. Call it from a plain test function, outside any event loop.

    Args:
        declared: the operator, its environment, its actions and its invariants, such as a `Simulation`.
        workloads: seeds, each of which draws a workload from the actions.
        name: of the declaration in printed tests.
        time_limit: real seconds after which no further disturbance is run.
        kinds: of the disturbances.

    Raises:
        AssertionError: the operator does not survive a disturbance, or breaks an invariant without one.
        UsageError: there are no actions.
    """
    summary = run_verification(
        declared, [draw_workload(declared, seed) for seed in workloads], name=name, time_limit=time_limit, kinds=kinds
    )  # fmt: skip
    if summary.broken:
        text = "\n\n".join(f"{each}{each.test_text()}" for each in summary.broken[:_MAX_SHOWN])
        raise AssertionError(f"{text}\n{summary}")
    print(f"verify {name}: {summary}")  # noqa: T201 - for the reader of a test run
    return summary


def run_verification(
    declared: SimulatedOperator, workloads: Sequence[Sequence[WorkloadStep]], *, name: str = "SIMULATION",
    time_limit: float = 600.0, kinds: Sequence[DisturbanceKind] = tuple(DisturbanceKind),
    progress: Callable[[VerificationSummary], None] = lambda _: None,
) -> VerificationSummary:  # fmt: skip
    """Run workloads without and with each disturbance, one of each workload after the other.

    Args:
        declared: the operator, its environment, its actions and its invariants.
        workloads: to run.
        name: of the declaration in printed tests.
        time_limit: real seconds after which no further disturbance is run.
        kinds: of the disturbances.
        progress: called after each run.
    """
    summary, began = VerificationSummary(), time.monotonic()
    waiting: dict[_Reference, Iterator[Disturbance]] = {}
    for steps in workloads:
        reference = _Reference(declared, steps)
        summary.workloads += 1
        if reference.violations:
            summary.add(reference.broken_run(name, None, reference.outcome, reference.violations))
        else:
            waiting[reference] = reference.disturbances(kinds)
        progress(summary)
    for reference, disturbance in _in_turns(waiting):
        if time.monotonic() - began > time_limit:
            summary.omitted += 1
            continue
        outcome, violations = reference.disturbed(disturbance)
        summary.runs[disturbance.kind] += 1
        if violations:
            summary.add(reference.broken_run(name, disturbance, outcome, violations))
        progress(summary)
    summary.seconds = time.monotonic() - began
    return summary


def verify_disturbance(
    declared: SimulatedOperator, steps: Sequence[WorkloadStep], disturbance: Disturbance | None
) -> Sequence[str]:
    """Return the violations of one disturbance of a workload, as `verify` found them."""
    reference = _Reference(declared, steps)
    if disturbance is None or reference.violations:
        return reference.violations
    return reference.disturbed(disturbance)[1]


def draw_workload(declared: SimulatedOperator, seed: int) -> Sequence[WorkloadStep]:
    """Return the actions that a seed draws: each of them once, then some more in any order."""
    if not declared.actions:
        raise UsageError("there is nothing to verify: declare actions, such as one that creates an object")
    rng = random.Random(seed)  # noqa: S311 - repeatable on purpose
    names = [name_of(action) for action in declared.actions][:_MAX_ACTIONS]
    names += [rng.choice(names) for _ in range(_MAX_ACTIONS - len(names))] if seed else []
    return [WorkloadStep(name, rng.getrandbits(30)) for name in names]


class _Reference:
    """The undisturbed run of a workload, and what two of them do not have in common."""

    def __init__(self, declared: SimulatedOperator, steps: Sequence[WorkloadStep]) -> None:
        self._declared, self._steps = declared, steps
        self.outcome = run_guided(declared, steps, seed=_SEED)
        self.violations = self.outcome.violations
        self._masks: Mapping[int, Mask] = {}
        if not self.violations:
            other = run_guided(declared, steps, seed=_SEED + 1)
            self.violations, states = other.violations, self.outcome.states
            self._masks = {number: mask_of(states[number], state) for number, state in other.states.items()}

    def disturbances(self, kinds: Sequence[DisturbanceKind]) -> Iterator[Disturbance]:
        """Yield the disturbances of some kinds."""
        for each in guided_disturbances(self.outcome.writes, self.outcome.messages):
            if each.kind in kinds:
                yield each

    def disturbed(self, disturbance: Disturbance) -> tuple[GuidedOutcome, Sequence[str]]:
        """Run the workload with a disturbance. Returns the outcome and its violations."""
        outcome = run_guided(self._declared, self._steps, disturbance, seed=_SEED)
        # On a stale view, a child of a deleted owner is created and collected again and again. A loop that goes on
        # afterwards is not calm at the end.
        counted = disturbance.kind in COUNTED
        violations = [each for each in outcome.violations if counted or not each.startswith("hot loop")]
        # An action that chooses among what it finds may do something else in a disturbed run: then the ends differ.
        if violations or outcome.user_writes != self.outcome.user_writes:
            return outcome, violations
        for number, state in outcome.states.items():
            usual, mask = self.outcome.states[number], self._masks[number]
            if violations := state_violations(usual, state, mask, counted=counted):
                return outcome, violations
        return outcome, ()

    def broken_run(
        self, name: str, disturbance: Disturbance | None, outcome: GuidedOutcome, violations: Sequence[str]
    ) -> BrokenRun:
        """Return what is reported of a run."""
        return BrokenRun(
            name=name, steps=self._steps, disturbance=disturbance, violations=violations, journal=outcome.journal
        )


def _in_turns(
    disturbances: Mapping[_Reference, Iterator[Disturbance]],
) -> Iterator[tuple[_Reference, Disturbance]]:
    """Yield one disturbance of each workload after the other, so that a time limit leaves out none of them wholly."""
    waiting = dict(disturbances)
    while waiting:
        for reference, each in list(waiting.items()):
            if (disturbance := next(each, None)) is None:
                del waiting[reference]
            else:
                yield reference, disturbance
