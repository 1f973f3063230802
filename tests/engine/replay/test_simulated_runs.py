"""Recordings of simulated runs: a replay sends the same requests in the same iterations, byte for byte."""

from __future__ import annotations

from collections.abc import Callable

import pytest
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


@pytest.mark.parametrize("name", simulations.ALL)
def test_three_seeds(name: str) -> None:
    """Faults, crashes, lost leases, webhooks, threads and doubles included."""
    assert sum(check_seed(name, seed) for seed in range(3)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("name", simulations.ALL)
def test_many_seeds(name: str) -> None:
    """With the other operators, more than a thousand recordings."""
    assert sum(check_seed(name, seed) for seed in range(3, 90)) >= 140
