"""Plans: what happens in a simulation, and when. Pure values, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from opsdk.aio.randomness import seeded
from opsdk.engine.world.faults import DEFAULT_FAULTS, FAULTS_WITHOUT_WINDOW, Fault, Step

__all__ = ["PlanOptions", "draw_plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The parameters from which a seed draws a plan.

    Attributes:
        faults: the faults to choose from.
        actions: names of the workload's actions.
        replicas: number of replicas.
        duration: seconds in which steps begin.
        max_faults: largest number of faults.
        max_actions: largest number of actions.
        max_seconds: longest fault, in seconds.
    """

    faults: Sequence[Fault] = DEFAULT_FAULTS
    actions: Sequence[str] = ()
    replicas: int = 1
    duration: float = 60.0
    max_faults: int = 8
    max_actions: int = 10
    max_seconds: float = 20.0


def draw_plan(seed: int, options: PlanOptions) -> tuple[Step, ...]:
    """Return the plan of a seed: actions and faults in the order of their times.

    >>> plan = draw_plan(1, PlanOptions(actions=["edit"], max_faults=2, max_actions=2))
    >>> plan == draw_plan(1, PlanOptions(actions=["edit"], max_faults=2, max_actions=2))
    True
    """
    rng = seeded(seed)
    steps = []
    if options.actions:
        for _ in range(rng.randint(min(3, options.max_actions), options.max_actions)):
            time = round(rng.uniform(0, options.duration), 3)
            steps.append(Step(time=time, name=rng.choice(options.actions), seed=rng.getrandbits(30)))
    if options.faults:
        steps += [_draw_fault(rng, options) for _ in range(rng.randint(1, options.max_faults))]
    return tuple(sorted(steps, key=lambda step: step.time))


def _draw_fault(rng: random.Random, options: PlanOptions) -> Step:
    fault = rng.choice(options.faults)
    # Short windows hit single requests, long ones outlast timeouts.
    seconds = round(rng.choice([0.1, 1.0, options.max_seconds]) * rng.random(), 3)
    return Step(
        time=round(rng.uniform(0, options.duration), 3),
        name=fault.value,
        replica=rng.randrange(options.replicas),
        seconds=0.0 if fault in FAULTS_WITHOUT_WINDOW else seconds,
        seed=rng.getrandbits(30),
    )
