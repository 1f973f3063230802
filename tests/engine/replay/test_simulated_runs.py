"""Recordings of simulated runs: a replay sends the same requests in the same iterations, byte for byte."""

from __future__ import annotations

import pytest
import simulations
from replayed_runs import check_checkpoints, check_seed


@pytest.mark.parametrize("name", simulations.ALL)
def test_three_seeds(name: str) -> None:
    """Faults, crashes, lost leases, webhooks, threads and doubles included."""
    assert sum(check_seed(name, seed) for seed in range(3)) >= 3


@pytest.mark.parametrize("name", simulations.ALL)
def test_checkpoints_of_two_seeds(name: str) -> None:
    """What follows a checkpoint is identical: work, retries, elections, timers, broken watches."""
    assert sum(check_checkpoints(name, seed) for seed in range(2)) >= 3


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize("name", simulations.ALL)
def test_twelve_more_seeds(name: str) -> None:
    """`python -m tests.simulation.recordings` runs a thousand."""
    assert sum(check_seed(name, seed) for seed in range(3, 15)) >= 20
