"""Runs seeds, minimizes failing plans, and prints them as tests."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opsdk.engine.world.faults import Step
from opsdk.engine.world.outcome import Outcome
from opsdk.testing.simulation.runner import Simulation
from opsdk.testing.simulation.shrink import shrink

_MAX_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failing run with the smallest plan that still breaks one of its invariants.

    Attributes:
        name: the name of the simulation in the printed test.
        outcome: of the small plan.
        drawn: number of steps of the plan that the seed draws.
    """

    name: str
    outcome: Outcome
    drawn: int

    def test_text(self) -> str:
        """Return a pytest test that repeats the run."""
        steps = "".join(f"        {step!r},\n" for step in self.outcome.steps)
        return (
            f"def test_seed_{self.outcome.seed}() -> None:\n"
            f"    steps = [\n{steps}    ]\n"
            f"    outcome = {self.name}.run({self.outcome.seed}, steps)\n"
            f"    assert not outcome.violations, outcome.violations\n"
        )

    def __str__(self) -> str:
        problems = "".join(f"  {violation}\n" for violation in self.outcome.violations[:_MAX_SHOWN])
        count = len(self.outcome.steps)
        journal = f"The operator's journal:\n\n{self.outcome.journal}\n\n" if self.outcome.journal else ""
        return (
            f"seed {self.outcome.seed} breaks:\n{problems}{journal}"
            f"{count} of {self.drawn} steps are needed. Paste this test to repeat it:\n\n"
            f"from opsdk.testing.simulate import Step\n\n\n{self.test_text()}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSummary:
    """The result of `simulate`.

    Attributes:
        seeds: number of seeds that were run; all of them passed.
        of: number of seeds that should run.
        seconds: real time.
        reconciles: number of reconciles of all runs.
    """

    seeds: int
    of: int
    seconds: float
    reconciles: int

    def __str__(self) -> str:
        if self.seeds < self.of:
            return f"the time limit ended the simulation: {self._counts()}"
        return self._counts()

    def _counts(self) -> str:
        return f"{self.seeds} of {self.of} seeds hold, {self.reconciles} reconciles, {self.seconds:.1f} s"


def minimize(simulation: Simulation, outcome: Outcome, *, name: str = "SIMULATION", max_runs: int = 100) -> Failure:
    """Return the failure with the fewest steps that still break one of the outcome's invariants.

    Args:
        simulation: the simulation of the run.
        outcome: a run with violations.
        name: the name of the simulation in the printed test.
        max_runs: the largest number of further runs.
    """
    smallest = outcome

    def fails(steps: Sequence[Step]) -> bool:
        nonlocal smallest
        attempt = simulation.run(outcome.seed, steps)
        if attempt.broken & outcome.broken:
            smallest = attempt
            return True
        return False

    shrink(outcome.steps, fails, max_runs=max_runs)
    return Failure(name=name, outcome=smallest, drawn=len(outcome.steps))


def simulate(
    simulation: Simulation, seeds: Iterable[int] = range(100), *, name: str = "SIMULATION", time_limit: float = 300.0
) -> SimulationSummary:
    """Run the plans of some seeds. Call it from a plain test function, outside any event loop.

    It prints a line with the number of seeds and the time, which pytest shows with ``-s`` and in failures.

    Args:
        simulation: the operator, its environment and its invariants.
        seeds: the seeds to run.
        name: the name of the simulation in the printed test.
        time_limit: real seconds after which no further seed is run. The seeds that were not run are not an error.

    Raises:
        AssertionError: a run breaks an invariant. The message has the violations, the operator's journal of the objects
            that they name, and a test that repeats the run, with the fewest faults and actions.
    """
    planned, reconciles, began = list(seeds), 0, time.monotonic()
    count = 0
    for seed in planned:
        if count and time.monotonic() - began > time_limit:
            break
        outcome = simulation.run(seed)
        count, reconciles = count + 1, reconciles + outcome.reconciles
        if outcome.violations:
            failure = minimize(simulation, outcome, name=name)
            raise AssertionError(f"{failure}\n{count} of {len(planned)} seeds were run.")
    summary = SimulationSummary(seeds=count, of=len(planned), seconds=time.monotonic() - began, reconciles=reconciles)
    print(f"simulate {name}: {summary}")  # noqa: T201 - for the reader of a test run
    return summary
