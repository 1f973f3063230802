"""Recordings of simulated runs, and their replays."""

from __future__ import annotations

from collections.abc import Callable

import simulations

from opsdk.builder.operator import Operator
from opsdk.engine.replay.run import OperatorReplay
from opsdk.engine.replay.timeline import Timeline
from opsdk.engine.webhooks import without_sockets
from opsdk.testing.simulate import Simulation


def check_checkpoints(name: str, seed: int) -> int:
    """Record a run with checkpoints, and replay it from each of them. Returns the number of checkpoints."""
    simulation, count = simulations.ALL[name], 0
    _, starts = simulation.record(seed, checkpoint_period=CHECKPOINT_PERIOD)
    for number, start in enumerate(starts):
        for place, checkpoint in enumerate(start.checkpoints()):
            with OperatorReplay(Timeline(checkpoint.records), operator_of(simulation)) as replay:
                outcome = replay.run()
            assert outcome.is_identical, (
                f"{name}, seed {seed}, start {number}, checkpoint {place}: {outcome.identical} of {outcome.requests}: "
                f"{list(map(str, outcome.divergences[:3]))}, {outcome.unsent[:3]}"
            )
            count += 1
    return count


def operator_of(simulation: Simulation) -> Callable[[], Operator]:
    """Return what creates the operator of a simulation, without its sockets."""

    def make() -> Operator:
        operator = simulation.new_doubles().operator()
        without_sockets(operator)
        return operator

    return make


CHECKPOINT_PERIOD = 5.0
"""Seconds of virtual time between two checkpoints of a run."""


def check_seed(name: str, seed: int) -> int:
    """Record a run, and replay each start of a replica. Returns the number of starts."""
    simulation = simulations.ALL[name]
    _, starts = simulation.record(seed)
    for number, start in enumerate(starts):
        with OperatorReplay(Timeline(start.records), operator_of(simulation)) as replay:
            outcome = replay.run()
        assert outcome.is_identical, (
            f"{name}, seed {seed}, start {number}: {outcome.identical} of {outcome.requests}: "
            f"{list(map(str, outcome.divergences[:3]))}, {outcome.unsent[:3]}"
        )
        assert outcome.requests
    return len(starts)
