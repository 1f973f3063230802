"""Recordings of simulated runs: a replay sends the same requests in the same iterations, byte for byte."""

from __future__ import annotations

import pytest
import simulations
from replayed_runs import check_checkpoints, check_seed
from slow_cases import mostly_slow


@pytest.mark.parametrize("name", mostly_slow(simulations.ALL, every=3))
def test_a_seed(name: str) -> None:
    """Faults, crashes, lost leases, webhooks, threads and doubles included."""
    assert sum(check_seed(name, seed) for seed in range(1)) >= 1


@pytest.mark.parametrize("name", mostly_slow(simulations.ALL, every=3))
def test_checkpoints_of_a_seed(name: str) -> None:
    """What follows a checkpoint is identical: work, retries, elections, timers, broken watches."""
    assert sum(check_checkpoints(name, seed) for seed in range(1)) >= 1


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize("name", simulations.ALL)
def test_fourteen_more_seeds(name: str) -> None:
    """`python -m tests.simulation.recordings` runs a thousand."""
    assert sum(check_seed(name, seed) for seed in range(1, 15)) >= 20
