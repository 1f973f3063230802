"""Ownership between the replicas of one fleet, on the embedded API server and in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from typing import Self

import pytest

from opsdk import Cluster, UsageError
from opsdk.aio.fence import check_fence
from opsdk.api.coordination.v1 import Lease
from opsdk.errors import LeaderElectionLostError
from opsdk.fleet.ownership import Ownership
from opsdk.fleet.ownership_rules import OwnershipOptions
from opsdk.fleet.shard_lease import holder_of, shard_of
from opsdk.testing.eventually import eventually

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")

OPTIONS = OwnershipOptions(name="shop", namespace="default", drain_timeout=5.0)
SHARDS = [f"cluster-{number}" for number in range(12)]


class Work:
    """The work for one shard: it writes twice a second, and each write passes the fence."""

    def __init__(self, replica: Replica, shard: str) -> None:
        self.replica, self.shard = replica, shard
        self.closed = False

    async def warmup(self) -> None:
        """Take a second."""
        self.replica.log.append(("warm", self.shard))
        await asyncio.sleep(1)

    async def start(self) -> None:
        """Write until cancelled; then one more time, as a running reconcile does."""
        self.replica.log.append(("start", self.shard))
        if self.shard in self.replica.failing:
            raise RuntimeError("the work failed")
        try:
            while True:
                self.write()
                await asyncio.sleep(0.5)
        except asyncio.CancelledError:
            await asyncio.sleep(self.replica.drain_seconds)
            with suppress(LeaderElectionLostError):
                self.write()
            raise

    def write(self) -> None:
        """Write, unless the fence refuses it."""
        check_fence(f"a write for {self.shard}")
        self.replica.writes.append((asyncio.get_running_loop().time(), self.shard, self.replica.name))

    async def aclose(self) -> None:
        """Nothing may close twice."""
        assert not self.closed
        self.closed = True
        self.replica.log.append(("close", self.shard))


class Replica:
    """One replica: a cluster, an ownership and its task."""

    def __init__(self, env: environment.Environment, name: str, writes: list[tuple[float, str, str]]) -> None:
        self.name, self.writes = name, writes
        self.log: list[tuple[str, str]] = []
        self.failing: set[str] = set()
        self.drain_seconds = 1.0
        self.cluster = Cluster(env.config)
        self.unmakeable: set[str] = set()
        self.ownership = Ownership(self.cluster, self.make, OPTIONS)
        self.ownership.set_shards(SHARDS)
        self.task = asyncio.get_running_loop().create_task(self.ownership.start(), name=f"replica {name}")

    def make(self, shard: str) -> Work:
        """Return the work for a shard."""
        if shard in self.unmakeable:
            raise ValueError("the work cannot be made")
        return Work(self, shard)

    def owns_as_placed(self) -> bool:
        """Whether it owns what its placement names."""
        rules = self.ownership._rules
        assert rules is not None
        return self.ownership.owned() == {s for s, member in rules.placement().items() if member == rules.identity}

    async def kill(self) -> None:
        """End at once, and send nothing any more: the leases stay as they are."""
        await self.cluster.transport.aclose()
        self.task.cancel()
        await asyncio.sleep(0)
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task

    async def stop(self) -> None:
        """Stop gracefully."""
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task
        await self.cluster.aclose()


class Fleet:
    """Some replicas, and every write in order."""

    def __init__(self, env: environment.Environment) -> None:
        self.env = env
        self.writes: list[tuple[float, str, str]] = []
        self.replicas: list[Replica] = []

    def start(self, *names: str) -> list[Replica]:
        """Start replicas."""
        started = [Replica(self.env, name, self.writes) for name in names]
        self.replicas += started
        return started

    def owners(self) -> dict[str, list[str]]:
        """Return which replicas own each shard."""
        return {s: [r.name for r in self.replicas if s in r.ownership.owned()] for s in SHARDS}

    def check(self) -> None:
        """No writer of a shard writes again after another one began."""
        owners: dict[str, list[str]] = {}
        for _, shard, name in self.writes:
            writers = owners.setdefault(shard, [])
            if not writers or writers[-1] != name:
                assert name not in writers, f"{shard} went back to {name}: {writers}"
                writers.append(name)

    async def settled(self, count: int) -> None:
        """Return when each shard has one owner, and each of `count` replicas owns some."""

        def check() -> bool:
            owners = self.owners()
            assert [len(names) for names in owners.values()] == [1] * len(SHARDS)
            assert len(Counter(names[0] for names in owners.values())) == count
            return all(replica.owns_as_placed() for replica in self.replicas)

        await eventually(check, within=60)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(replica.stop() for replica in self.replicas))


async def test_one_replica_owns_everything_at_once() -> None:
    """A replica that starts alone does not wait."""
    async with environment.Environment() as env, Fleet(env) as fleet:
        fleet.start("a")
        began = asyncio.get_running_loop().time()
        await fleet.settled(1)
        assert asyncio.get_running_loop().time() - began < 3


@pytest.mark.slow
async def test_replicas_share_shards_and_hand_them_over() -> None:
    """A replica that joins gets its share after a warm-up; one that stops hands all over; no shard has two writers."""
    async with environment.Environment() as env, Fleet(env) as fleet:
        a, b = fleet.start("a", "b")
        await fleet.settled(2)
        (c,) = fleet.start("c")
        await fleet.settled(3)
        # Make before break: every shard that came to `c` was warm before it was owned.
        assert {shard for kind, shard in c.log if kind == "warm"} >= c.ownership.owned()
        fleet.replicas.remove(a)
        handed = asyncio.get_running_loop().time()
        await a.stop()
        await fleet.settled(2)
        assert asyncio.get_running_loop().time() - handed < 10
        fleet.check()
        assert b.ownership.owned()


@pytest.mark.slow
async def test_replicas_that_stop_together_leave_every_shard_free() -> None:
    """No replica waits for another one that leaves as well, and the next start does not wait for a lease."""
    async with environment.Environment() as env, Fleet(env) as fleet:
        replicas = fleet.start("a", "b", "c")
        await fleet.settled(3)
        stopped = asyncio.get_running_loop().time()
        await asyncio.gather(*(replica.stop() for replica in replicas))
        assert asyncio.get_running_loop().time() - stopped < OPTIONS.drain_timeout
        fleet.replicas.clear()
        fleet.check()
        async with Cluster(env.config) as cluster:
            leases = (await cluster.uncached.list(Lease, namespace="default")).items
        assert {shard_of(lease): holder_of(lease) for lease in leases} == dict.fromkeys(SHARDS, "")


@pytest.mark.slow
async def test_a_killed_replica_is_replaced_after_its_lease() -> None:
    """The shards of a replica that vanishes go to the others when its lease has expired, and not before."""
    async with environment.Environment() as env, Fleet(env) as fleet:
        a, _ = fleet.start("a", "b")
        await fleet.settled(2)
        fleet.replicas.remove(a)
        killed, lost = asyncio.get_running_loop().time(), a.ownership.owned()
        await a.kill()
        await fleet.settled(1)
        taken = min(when for when, shard, name in fleet.writes if shard in lost and name == "b")
        assert OPTIONS.lease_duration - OPTIONS.retry_period <= taken - killed <= OPTIONS.lease_duration + 6
        fleet.check()


async def test_work_that_fails_begins_again(caplog: pytest.LogCaptureFixture) -> None:
    """A failure of one shard's work is logged and retried with growing delays; the others go on."""
    caplog.set_level(logging.CRITICAL, "opsdk.fleet")
    async with environment.Environment() as env, Fleet(env) as fleet:
        (a,) = fleet.start("a")
        a.failing.add("cluster-3")
        await fleet.settled(1)
        await asyncio.sleep(20)
        assert 3 <= a.log.count(("start", "cluster-3")) <= 6
        a.failing.clear()
        await asyncio.sleep(30)
        assert any(shard == "cluster-3" for _, shard, _ in fleet.writes)
        assert a.log.count(("start", "cluster-4")) == 1


async def test_work_that_cannot_be_made_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """The replica keeps the shard, and still hands it over when it stops."""
    caplog.set_level(logging.CRITICAL, "opsdk.fleet")
    async with environment.Environment() as env, Fleet(env) as fleet:
        (a,) = fleet.start("a")
        a.unmakeable.update(("cluster-3", "cluster-4"))
        await fleet.settled(1)
        await asyncio.sleep(20)
        assert not {"cluster-3", "cluster-4"} & {shard for _, shard, _ in fleet.writes}
        a.unmakeable.remove("cluster-3")
        await asyncio.sleep(30)
        assert any(shard == "cluster-3" for _, shard, _ in fleet.writes)
        (b,) = fleet.start("b")
        await a.stop()
        fleet.replicas.remove(a)
        await fleet.settled(1)
        await eventually(lambda: {shard for _, shard, name in fleet.writes if name == b.name} == set(SHARDS))


async def test_a_shard_that_leaves_is_drained_and_its_lease_deleted() -> None:
    """The last write of a running reconcile still passes, and no lease is left."""
    async with environment.Environment() as env, Fleet(env) as fleet:
        (a,) = fleet.start("a")
        await fleet.settled(1)
        left_at = asyncio.get_running_loop().time()
        a.ownership.set_shards(SHARDS[1:])
        await asyncio.sleep(10)
        assert ("close", SHARDS[0]) in a.log
        assert any(when > left_at + 0.9 for when, shard, _ in fleet.writes if shard == SHARDS[0])
        leases = await a.cluster.uncached.list(Lease, namespace="default")
        assert {shard_of(lease) for lease in leases.items} == {"", *SHARDS[1:]}
        fleet.replicas.remove(a)
        await a.stop()
        async with Cluster(env.config) as cluster:
            leases = await cluster.uncached.list(Lease, namespace="default")
        assert {(shard_of(lease), holder_of(lease)) for lease in leases.items} == {(s, "") for s in SHARDS[1:]}


async def test_a_restart_keeps_the_shard() -> None:
    """A runnable is replaced after its work has drained; no other replica gets the shard."""
    async with environment.Environment() as env, Fleet(env) as fleet:
        (a,) = fleet.start("a")
        await fleet.settled(1)
        a.ownership.restart("cluster-5")
        a.ownership.restart("not-here")
        await asyncio.sleep(5)
        assert [kind for kind, shard in a.log if shard == "cluster-5"] == ["start", "close", "start"]


@pytest.mark.slow
async def test_a_replica_that_lost_its_lease_begins_again() -> None:
    """Without an answer from the server, its work is cancelled; afterwards it takes part with a new identity."""
    async with environment.Environment() as env, Fleet(env) as fleet:
        a, b = fleet.start("a", "b")
        await fleet.settled(2)
        before = a.ownership.identity
        # Another writer takes the member's lease, as an administrator with kubectl could.
        leases = await b.cluster.uncached.list(Lease, namespace="default")
        (own,) = [lease for lease in leases.items if lease.spec.holder_identity == before and not shard_of(lease)]
        own.spec.holder_identity = "kubectl"
        await b.cluster.uncached.update(own)
        await asyncio.sleep(4)
        assert a.ownership.identity != before
        await fleet.settled(2)


async def test_an_ownership_starts_once() -> None:
    """A second start of an ownership is refused."""
    async with environment.Environment() as env, Fleet(env) as fleet:
        (a,) = fleet.start("a")
        await fleet.settled(1)
        with pytest.raises(UsageError, match="already"):
            await a.ownership.start()
