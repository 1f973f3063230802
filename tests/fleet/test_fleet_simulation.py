"""A fleet under kills, freezes, stops and partitions, in virtual time. See `fleet_simulation`.

``OPSDK_FLEET_SEEDS=500 make test-slow`` plays more seeds of the large simulation.
"""

from __future__ import annotations

import logging
import os

import pytest

from opsdk.fleet.ownership import ShardFence

pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")

import fleet_simulation

SEEDS = int(os.environ.get("OPSDK_FLEET_SEEDS", "2"))


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


def describe(values: list[float]) -> str:
    """Return count, median and maximum of some seconds."""
    ordered = sorted(values)
    return f"{len(ordered)}, median {ordered[len(ordered) // 2]:.1f} s, at most {ordered[-1]:.1f} s" if ordered else "0"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_each_write_is_the_holders_and_each_change_is_handled(seed: int) -> None:
    """Whatever happens to the replicas, each write comes from the holder of the cluster's lease, and none is missed."""
    world = fleet_simulation.simulate(seed, clusters=6, replicas=3, seconds=150)
    assert world.problems == []
    assert world.latencies


@pytest.mark.slow
def test_the_simulation_notices_a_missing_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the fence, a replica that thaws writes to a cluster of another one, in one of five seeds at least."""
    monkeypatch.setattr(ShardFence, "check", lambda _self, _action: None)
    for seed in (3, 7, 8, 9, 10):
        if fleet_simulation.simulate(seed, clusters=8, replicas=4, seconds=300).problems:
            return
    pytest.fail("the judge accepted every run without a fence")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 100 + SEEDS))
def test_fifty_clusters_and_five_replicas(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The law at its size, for ten minutes of virtual time; hand-over times are printed."""
    world = fleet_simulation.simulate(seed, clusters=50, replicas=5, seconds=600)
    with capsys.disabled():
        print(
            f"\nseed {seed}: changes {describe(world.latencies)}; hand-overs {describe(world.handovers)}; "
            f"take-overs after a kill {describe(world.takeovers)}"
        )
    assert world.problems == []
