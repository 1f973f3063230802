"""Pods, required and generated objects, fields of others and schedules in recorded runs: a replay sends the same."""

from __future__ import annotations

from dataclasses import replace

import daily_work
import pytest
from replayed_runs import operator_of

from opsdk.engine.replay.run import OperatorReplay
from opsdk.engine.replay.timeline import Timeline
from opsdk.testing.simulate import Simulation


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=[pytest.mark.slow, pytest.mark.deep]) for seed in range(1, 25))]
)
@pytest.mark.parametrize("simulation", [daily_work.ASYNC, daily_work.BLOCKING], ids=["async", "blocking"])
def test_a_replay_is_identical(simulation: Simulation, seed: int) -> None:
    """With faults: each start of the operator repeats its requests, into Pods too."""
    daily_work.CONTAINER.requests.clear()
    one = replace(simulation, replicas=1)
    _, starts = one.record(seed)
    recorded = dict(daily_work.CONTAINER.requests)
    for start in starts:
        with OperatorReplay(Timeline(start.records), operator_of(one)) as replay:
            outcome = replay.run()
        assert outcome.is_identical, (list(map(str, outcome.divergences[:3])), outcome.unsent[:3])
    assert daily_work.CONTAINER.requests == recorded, "a replay sends nothing"
