"""Recordings of simulated runs, and their replays."""

from __future__ import annotations

from collections.abc import Callable

import simulations

from opsdk.builder.operator import Operator
from opsdk.engine.replay.run import OperatorReplay
from opsdk.engine.replay.timeline import Timeline
from opsdk.engine.webhooks import without_sockets
from opsdk.testing.simulate import Simulation


def operator_of(simulation: Simulation) -> Callable[[], Operator]:
    """Return what creates the operator of a simulation, without its sockets."""

    def make() -> Operator:
        operator = simulation.new_doubles().operator()
        without_sockets(operator)
        return operator

    return make


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
