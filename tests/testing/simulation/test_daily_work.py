"""Logs, commands, files and ports of Pods, required and generated objects, fields of others, policies: under faults."""

from __future__ import annotations

import daily_work
import pytest

from opsdk.testing.simulate import simulate

SIMULATIONS = {"async": daily_work.ASYNC, "blocking": daily_work.BLOCKING}


@pytest.mark.parametrize("name", SIMULATIONS)
def test_a_seed(name: str) -> None:
    """One schedule of an operator with async functions, and of one with plain functions."""
    daily_work.CONTAINER.requests.clear()
    simulate(SIMULATIONS[name], range(1), name=f"daily_work.{name.upper()}")
    assert set(daily_work.CONTAINER.requests) >= {"attach", "log", "passwd", "port", "tar"}


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("name", SIMULATIONS)
def test_five_hundred_seeds(name: str, block: int) -> None:
    """Twenty-five schedules in each block."""
    simulate(SIMULATIONS[name], range(block * 25, block * 25 + 25), name=f"daily_work.{name.upper()}")
