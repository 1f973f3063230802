"""Verifies an operator: disturbances of the places of a reference run, and what they must not change.

::

    verify(SIMULATION, range(3), name="SIMULATION")
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from opsdk.aio.randomness import seeded
from opsdk.engine.world.declaration import SimulatedOperator, name_of
from opsdk.engine.world.outcome import Outcome
from opsdk.errors import UsageError
from opsdk.verification.attack_summary import AttackSummary
from opsdk.verification.causes import Cause, cause_lines, causes_of
from opsdk.verification.disturbances import (
    COUNTED,
    DEFAULT_KINDS,
    NEEDS_STANDBY,
    NOTHING_ATTACKED,
    Disturbance,
    DisturbanceKind,
    guided_disturbances,
    most_different,
    title_of,
)
from opsdk.verification.guided_run import WorkloadStep, outside_text, run_guided
from opsdk.verification.processes import run_in_processes
from opsdk.verification.reference_run import REFERENCE_SEED, ReferenceRun, uncompared_text

__all__ = [
    "DISTURBANCES",
    "BrokenRun",
    "VerificationSummary",
    "draw_workload",
    "run_verification",
    "verify",
    "verify_disturbance",
]

DISTURBANCES: Final = 150
"""Disturbances that are run by default."""
_NO_OUTCOMES: Final[Mapping[str, Outcome]] = {}
_MAX_ACTIONS: Final = 5
_MAX_SHOWN: Final = 5
_STANDBY_WORKLOADS: Final = 4
"""Workloads that run with a standby if there is a budget: such runs take longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRun:
    """A disturbance that the operator does not survive.

    Attributes:
        name: of the declaration, in the printed test.
        steps: the workload.
        disturbance: what went wrong; None if nothing did.
        violations: what followed.
        causes: the writes that led to it, and the code that sent them.
        journal: the operator's journal of the objects that the violations name.
        replicas: of the operator.
    """

    name: str
    steps: Sequence[WorkloadStep]
    disturbance: Disturbance | None
    violations: Sequence[str]
    causes: Sequence[Cause] = ()
    journal: str = ""
    replicas: int = 1

    def test_text(self) -> str:
        """Return a pytest test that repeats the run."""
        steps = "".join(f"        {step!r},\n" for step in self.steps)
        return (
            "from opsdk.verification.disturbances import Disturbance, DisturbanceKind\n"
            "from opsdk.verification.guided_run import WorkloadStep\n"
            "from opsdk.verification.verify import verify_disturbance\n\n\n"
            f"def test_disturbed() -> None:\n"
            f"    steps = [\n{steps}    ]\n"
            f"    violations = verify_disturbance({self.name}, steps, {self.disturbance!r})\n"
            f"    assert not violations, violations\n"
        )

    def __str__(self) -> str:
        problems = "".join(f"  {violation}\n" for violation in self.violations[:_MAX_SHOWN])
        journal = f"The operator's journal:\n\n{self.journal}\n\n" if self.journal else ""
        steps = "".join(f"  {step.name}\n" for step in self.steps)
        code = "".join(f"{line}\n" for line in cause_lines(self.causes))
        return f"{self.title}:\n{problems}{code}The workload:\n{steps}{journal}"

    @property
    def title(self) -> str:
        """The disturbance, in words."""
        replicas = f", with {self.replicas} replicas" if self.replicas > 1 else ""
        return f"{title_of(self.disturbance)}{replicas}"

    @property
    def violation_kinds(self) -> frozenset[str]:
        """The broken invariants, each with the resource, or the first word, that it names."""
        parts = (violation.partition(": ") for violation in self.violations)
        return frozenset(f"{invariant}: {text.partition(' ')[0]}" for invariant, _, text in parts)


@dataclass(kw_only=True)
class VerificationSummary(AttackSummary[BrokenRun]):
    """What was verified.

    Attributes:
        with_standby: number of workloads that ran with a standby too.
        connections: targets outside of the simulated cluster that were refused, each once. What reaches for them was
            not verified.
    """

    with_standby: int = 0
    connections: dict[str, None] = field(default_factory=dict)

    def advice(self) -> Iterator[str]:
        """Yield what makes the verification weak, and what to do, one sentence each."""
        if self.uncompared:
            yield uncompared_text(self.uncompared)
        if self.unrepeated:
            yield (
                f"{self.unrepeated} broken runs were not confirmed, since equal runs differ: "
                "let the operator decide neither by the real time nor by random numbers of its own"
            )

    def gaps(self) -> Iterator[str]:
        """Yield why a verification without a bug proves nothing, or less than its budget, and what to change."""
        if self.omitted:
            spent, budget = self.runs.total(), self.planned.total()
            yield (
                f"unfinished: the time limit ended after {spent} of {budget} disturbances: pass a longer time_limit, "
                f"or a smaller budget"
            )
        elif not self.runs:
            yield (
                f"{NOTHING_ATTACKED}: pass workloads whose actions make the operator write, and kinds that such "
                f"writes have"
            )

    @classmethod
    def sum_of(cls, parts: Iterable[VerificationSummary]) -> VerificationSummary:
        """Return the sum of summaries of different workloads that ran at the same time."""
        total = cls()
        for part in parts:
            total.workloads += part.workloads
            total.with_standby += part.with_standby
            total.runs += part.runs
            total.planned += part.planned
            total.beyond += part.beyond
            total.unrepeated += part.unrepeated
            total.uncompared.update(part.uncompared)
            total.connections.update(part.connections)
            total.seconds = max(total.seconds, part.seconds)
            for run in part.broken:
                total.add(run)
        return total

    @property
    def _workloads_text(self) -> str:
        standby = f", {self.with_standby} of them with a standby" if self.with_standby else ""
        return f"{super()._workloads_text}{standby}"


def verify(
    declared: SimulatedOperator, workloads: Iterable[int] = range(3), *, name: str = "SIMULATION",
    time_limit: float = 600.0, kinds: Sequence[DisturbanceKind] = DEFAULT_KINDS, budget: int | None = DISTURBANCES,
) -> VerificationSummary:  # fmt: skip
    """Run workloads without and with disturbances. Call it from a plain test function, outside any event loop.

    Args:
        declared: the operator, its environment, its actions and its invariants, such as a `Simulation`.
        workloads: seeds, each of which draws a workload from the actions.
        name: of the declaration in printed tests.
        time_limit: real seconds after which no further disturbance is run. It only ends a test that takes too long:
            what is tested follows from the budget, and a test that ends before it has run fails.
        kinds: of the disturbances.
        budget: the number of disturbances that are run, the most different ones first; None for all.

    Raises:
        AssertionError: the operator does not survive a disturbance, breaks an invariant without one, or tries to reach
            what is outside of the simulated cluster. Or nothing was attacked, or the time ended before the budget.
        UsageError: there are no actions.
    """
    drawn = [draw_workload(declared, seed) for seed in workloads]
    summary = run_verification(declared, drawn, name=name, time_limit=time_limit, kinds=kinds, budget=budget)
    texts = [f"{each}{each.test_text()}" for each in summary.broken[:_MAX_SHOWN]]
    texts += map(outside_text, summary.connections)
    if texts := texts or list(summary.gaps()):
        raise AssertionError("\n\n".join(texts) + f"\n{summary}")
    for text in (f"verify {name}: {summary}", *summary.advice()):
        print(text)  # noqa: T201 - for the reader of a test run
    return summary


def run_verification(
    declared: SimulatedOperator, workloads: Sequence[Sequence[WorkloadStep]], *, name: str = "SIMULATION",
    time_limit: float = 600.0, kinds: Sequence[DisturbanceKind] = DEFAULT_KINDS, processes: int = 1,
    with_standby: bool = False, budget: int | None = None,
    outcomes: Mapping[str, Outcome] = _NO_OUTCOMES,
    progress: Callable[[VerificationSummary], None] = lambda _: None,
) -> VerificationSummary:  # fmt: skip
    """Run workloads without and with disturbances, the most different ones first.

    Args:
        declared: the operator, its environment, its actions and its invariants.
        workloads: to run.
        name: of the declaration in printed tests.
        time_limit: real seconds after which no further disturbance is run.
        kinds: of the disturbances.
        processes: that share the workloads.
        with_standby: run the kinds that need a standby with a second replica.
        budget: the number of disturbances that are run; None for all.
        outcomes: of reference runs that there were already, by the name of the first step.
        progress: called after each run, or from time to time if there are several processes.
    """
    began = time.monotonic()
    summary = VerificationSummary()
    calm = []
    for workload in _references(declared, workloads, summary, budget, outcomes, standby=with_standby):
        if workload.is_calm(summary, name):
            calm.append(workload)
        progress(summary)
    places = [(number, each) for number, workload in enumerate(calm) for each in workload.disturbances(kinds)]
    chosen, beyond = most_different(places, budget)
    summary.planned, summary.beyond = Counter(each.kind for _, each in chosen), beyond
    attack = _Attack(calm, name, began + time_limit)
    if (number := min(processes, len(calm))) > 1:
        parts = [_part(attack, [each for each in chosen if each[0] % number == first]) for first in range(number)]
        done = run_in_processes(parts, lambda states: progress(VerificationSummary.sum_of([summary, *states])))
    else:
        done = [attack.run(chosen, lambda state: progress(VerificationSummary.sum_of([summary, state])))]
    total = VerificationSummary.sum_of([summary, *done])
    total.seconds = time.monotonic() - began
    return total


def _references(
    declared: SimulatedOperator, workloads: Sequence[Sequence[WorkloadStep]], summary: VerificationSummary,
    budget: int | None, outcomes: Mapping[str, Outcome], *, standby: bool,
) -> Iterator[_GuidedWorkload]:  # fmt: skip
    """Yield the workloads, and then those that break nothing again with a second replica: some if there is a budget."""
    calm = []
    for steps in workloads:
        summary.workloads += 1
        workload = _GuidedWorkload(declared, steps, outcome=outcomes.get(steps[0].name) if steps else None)
        yield workload
        calm += [] if workload.reference.violations else [steps]
    for steps in calm[: None if budget is None else _STANDBY_WORKLOADS] if standby else ():
        summary.with_standby += 1
        yield _GuidedWorkload(replace(declared, replicas=2), steps, only=NEEDS_STANDBY)


class _Attack:
    """Runs disturbances of workloads, until a deadline in real time."""

    def __init__(self, workloads: Sequence[_GuidedWorkload], name: str, deadline: float) -> None:
        self._workloads, self._name, self._deadline = workloads, name, deadline

    def run(
        self, places: Iterable[tuple[int, Disturbance]], progress: Callable[[VerificationSummary], None]
    ) -> VerificationSummary:
        """Run disturbances, each of the workload with a number."""
        summary = VerificationSummary()
        for number, disturbance in places:
            if time.monotonic() > self._deadline:
                break
            self._disturb(self._workloads[number], disturbance, summary)
            progress(summary)
        return summary

    def _disturb(self, workload: _GuidedWorkload, disturbance: Disturbance, summary: VerificationSummary) -> None:
        outcome, violations = workload.disturbed(disturbance)
        summary.runs[disturbance.kind] += 1
        summary.connections.update(dict.fromkeys(outcome.connections))
        if violations and not outcome.connections:
            broken = workload.broken_run(self._name, disturbance, outcome, violations)
            if not summary.is_new(broken):
                return
            if workload.is_confirmed(broken, outcome):
                summary.add(workload.explained(broken))
            else:
                summary.unrepeated += 1


def _part(
    attack: _Attack, places: Sequence[tuple[int, Disturbance]]
) -> Callable[[Callable[[VerificationSummary], None]], VerificationSummary]:
    """Return a function that runs some of the disturbances, and reports its progress."""
    return lambda report: attack.run(places, report)


def verify_disturbance(
    declared: SimulatedOperator, steps: Sequence[WorkloadStep], disturbance: Disturbance | None
) -> Sequence[str]:
    """Return the violations of one disturbance of a workload, as `verify` found them."""
    workload = _GuidedWorkload(declared, steps)
    if disturbance is None or workload.reference.violations:
        return workload.reference.violations
    return workload.disturbed(disturbance)[1]


def draw_workload(declared: SimulatedOperator, seed: int) -> Sequence[WorkloadStep]:
    """Return the actions that a seed draws: each of them once, then some more in any order."""
    if not declared.actions:
        raise UsageError("there is nothing to verify: declare actions, such as one that creates an object")
    rng = seeded(seed)
    names = [name_of(action) for action in declared.actions][:_MAX_ACTIONS]
    names += [rng.choice(names) for _ in range(_MAX_ACTIONS - len(names))] if seed else []
    return [WorkloadStep(name, rng.getrandbits(30)) for name in names]


class _GuidedWorkload:
    """A workload, its reference run, and its runs with a disturbance.

    Args:
        declared: the operator.
        steps: the workload.
        only: the kinds of its disturbances; empty for all.
        outcome: of its reference run, if there was one already.
    """

    def __init__(
        self, declared: SimulatedOperator, steps: Sequence[WorkloadStep], *,
        only: Collection[DisturbanceKind] = (), outcome: Outcome | None = None,
    ) -> None:  # fmt: skip
        self._declared, self._steps, self.only = declared, steps, only
        self.reference = ReferenceRun(lambda seed: run_guided(declared, steps, seed=seed), steps, outcome)

    def is_calm(self, summary: VerificationSummary, name: str) -> bool:
        """Add what runs without a disturbance show. Returns whether others can be compared with them."""
        reference = self.reference
        summary.connections.update(dict.fromkeys(reference.connections))
        summary.uncompared.update(dict.fromkeys(reference.uncompared))
        if reference.violations and not reference.connections:
            summary.add(self.explained(self.broken_run(name, None, reference.outcome, reference.violations)))
        return not reference.violations

    def disturbances(self, kinds: Sequence[DisturbanceKind]) -> Iterator[Disturbance]:
        """Yield the disturbances of some kinds."""
        outcome = self.reference.outcome
        children = {number: state.children for number, state in outcome.states.items()}
        harmless = set(self._harmless_views())
        for each in guided_disturbances(outcome.writes, outcome.messages, children):
            is_harmless = each.kind is DisturbanceKind.TAKE_OVER and (each.path, each.number) in harmless
            if each.kind in kinds and (not self.only or each.kind in self.only) and not is_harmless:
                yield each

    def _harmless_views(self) -> Iterator[tuple[str, int]]:
        """Yield path and number of the messages after whose next action nothing of the operator is left.

        A standby with an older view can destroy nothing then. It may create again what has gone, as any operator with a
        cache does: the garbage collector removes that.
        """
        outcome, last = self.reference.outcome, len(self._steps)
        for message in outcome.messages:
            state = outcome.states.get(min(message.action + 2, last))
            if state is not None and not state.objects:
                yield message.path, message.number

    def disturbed(self, disturbance: Disturbance) -> tuple[Outcome, Sequence[str]]:
        """Run the workload with a disturbance. Returns the outcome and its violations."""
        last = self.reference.outcome.states.get(len(self._steps))
        outcome = run_guided(self._declared, self._steps, disturbance, seed=REFERENCE_SEED, expected=last)
        if disturbance.kind is DisturbanceKind.DRIFT:
            # An operator may keep what others change: it alone decides about the state.
            return outcome, [each for each in outcome.violations if each.startswith("drift: ")]
        return outcome, self._judge(outcome, disturbance)

    def _judge(self, outcome: Outcome, disturbance: Disturbance) -> Sequence[str]:
        """Return the violations of a disturbed run.

        With an old view, an operator with a cache may create again what was turned off. Its next view removes that.
        """
        is_old_view = disturbance.kind is DisturbanceKind.TAKE_OVER
        return self.reference.judge(outcome, counted=disturbance.kind in COUNTED, transient=is_old_view)

    def is_confirmed(self, run: BrokenRun, outcome: Outcome) -> bool:
        """Run the disturbance again, and the workload without it: does the operator decide by chance?"""
        assert run.disturbance is not None
        control = run_guided(self._declared, self._steps, seed=REFERENCE_SEED)
        if self.reference.judge(control, counted=True):
            self.reference.allow(control)
        if run.disturbance.kind is not DisturbanceKind.DRIFT and not self._judge(outcome, run.disturbance):
            return False
        again, violations = self.disturbed(run.disturbance)
        return bool(self.broken_run(run.name, run.disturbance, again, violations).violation_kinds & run.violation_kinds)

    def explained(self, run: BrokenRun) -> BrokenRun:
        """Return a broken run with the code that wrote what it shows, from a run that looks for it."""
        outcome = run_guided(self._declared, self._steps, run.disturbance, seed=REFERENCE_SEED, with_senders=True)
        return replace(run, causes=causes_of(outcome, run.violations, run.disturbance))

    def broken_run(
        self, name: str, disturbance: Disturbance | None, outcome: Outcome, violations: Sequence[str]
    ) -> BrokenRun:
        """Return what is reported of a run."""
        return BrokenRun(
            name=name,
            steps=self._steps,
            disturbance=disturbance,
            violations=violations,
            journal=outcome.journal_of(violations),
            replicas=self._declared.replicas,
        )
