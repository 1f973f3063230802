"""A fleet under kills, freezes, stops and partitions, in virtual time. See `fleet_simulation`.

``OPSDK_FLEET_SEEDS=500 make test-deep`` plays more seeds of the large simulation.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys

import pytest

from opsdk.fleet.shard_fence import ShardFence

pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")

from tests.fleet import fleet_simulation

SEEDS = int(os.environ.get("OPSDK_FLEET_SEEDS", "1"))


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


def describe(values: list[float]) -> str:
    """Return count, median, 99th percentile and maximum of some seconds."""
    if not values:
        return "0"
    ordered = sorted(values)
    median, p99 = (ordered[int(len(ordered) * share)] for share in (0.5, 0.99))
    return f"{len(ordered)}, median {median:.1f} s, p99 {p99:.1f} s, at most {ordered[-1]:.1f} s"


MORE_SEEDS = [pytest.param(seed, marks=[pytest.mark.slow, pytest.mark.deep]) for seed in (1, 2)]


@pytest.mark.parametrize("seed", [0, *MORE_SEEDS])
@pytest.mark.slow
def test_each_write_is_the_holders_and_each_change_is_handled(seed: int) -> None:
    """Under any faults, each write comes from the holder of the cluster's Lease, and each change is handled."""
    world = fleet_simulation.simulate(seed, clusters=6, replicas=3, seconds=150)
    assert world.problems == []
    assert world.latencies


_SCRIPT = """
import logging
from tests.fleet import fleet_simulation
logging.disable(logging.CRITICAL)
world = fleet_simulation.simulate(3, clusters=6, replicas=3, seconds=100)
print(world.problems, world.latencies, world.handovers, world.takeovers)
"""


@pytest.mark.slow
def test_a_seed_repeats_its_run_in_other_processes() -> None:
    """A seed gives the same run in another process, with any string hashes and addresses."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _SCRIPT],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
        )
        for hash_seed in ("1", "2")
    ]
    printed = {process.communicate(timeout=120)[0] for process in running}
    assert len(printed) == 1
    assert b"[] [" in printed.pop()


@pytest.mark.slow
async def test_a_replica_that_reaches_a_cluster_stands_in_for_its_owner() -> None:
    """A change waits for the timeout and a warm-up, and not for the end of the partition of the owner.

    The other clusters of the owner stay. After the partition and a pause, the owner gets the cluster back.
    """
    world = fleet_simulation.World(1, clusters=6, replicas=3)
    await world.start()
    await asyncio.sleep(20)
    owner = next(replica for replica in world.replicas if "c01" in replica.fleet.owned)
    before = dict(world.holders)
    await owner.cut(250, "c01")
    await world.change_something("c01")
    await asyncio.sleep(120)
    assert not world.changed_at
    assert max(world.latencies) < 100
    assert {name for name, holder in world.holders.items() if holder != before[name]} == {"c01"}
    await asyncio.sleep(300)
    assert world.holders == before
    await world.finish()
    assert world.problems == []


@pytest.mark.slow
def test_the_simulation_notices_a_missing_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the fence, a replica that thaws writes to a cluster of another one, in one of five seeds at least."""
    monkeypatch.setattr(ShardFence, "check", lambda _self, _action: None)
    for seed in (3, 7, 8, 9, 10):
        if fleet_simulation.simulate(seed, clusters=8, replicas=4, seconds=300).problems:
            return
    pytest.fail("the judge accepted every run without a fence")


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 100 + SEEDS))
def test_fifty_clusters_and_five_replicas(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The law at its size, for ten minutes of virtual time; hand-over times are printed."""
    world = fleet_simulation.simulate(seed, clusters=50, replicas=5, seconds=600)
    with capsys.disabled():
        print(
            f"\nseed {seed}: changes {describe(world.latencies)}; hand-overs {describe(world.handovers)}; "
            f"take-overs after a kill {describe(world.takeovers)}; {world.stand_ins} stood in for an owner"
        )
    assert world.problems == []
