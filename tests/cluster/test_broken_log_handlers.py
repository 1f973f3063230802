"""A log handler that raises stops no part of a cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.cluster.cluster import Cluster
from opsdk.manager.leader_election.leader_election_record import LeaderElectionOptions
from opsdk.manager.leader_election.leader_elector import LeaderElector

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
effects = pytest.importorskip("envtest.testing.effects")


class BrokenHandler(logging.Handler):
    """A handler whose disk is full."""

    records = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.records += 1
        raise OSError("no space left on device")


@pytest.fixture
def broken() -> Iterator[BrokenHandler]:
    """All records of the client side go to a broken handler."""
    handler = BrokenHandler()
    client_side = ("cache", "client", "cluster", "leader_election", "requests")
    for name in client_side:
        logging.getLogger(f"opsdk.{name}").addHandler(handler)
        logging.getLogger(f"opsdk.{name}").setLevel(logging.DEBUG)
    yield handler
    for name in client_side:
        logging.getLogger(f"opsdk.{name}").removeHandler(handler)
        logging.getLogger(f"opsdk.{name}").setLevel(logging.NOTSET)


async def test_informers_and_clients_go_on(broken: BrokenHandler) -> None:
    """A failed list is logged and repeated, a failed watch too; reads and writes succeed."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        running = asyncio.create_task(cluster.start())
        await cluster.wait_ready()
        with env.faults.add(effects.Fail(503), verb="list"), env.faults.add(effects.Fail(503), verb="watch"):
            reading = asyncio.create_task(cluster.client.list(ConfigMap))
            await asyncio.sleep(5)
        await reading
        env.faults.drop_watches()
        await cluster.client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        await asyncio.sleep(60)
        await cluster.client.get(ConfigMap, ObjectKey("default", "a"))
        (health,) = cluster.cache.health()
        assert health.ready
        assert health.errors > 0
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert broken.records > 5


async def test_a_leader_keeps_its_lease(broken: BrokenHandler) -> None:
    """A leader keeps and renews its Lease while log handlers raise."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        options = LeaderElectionOptions(name="l", namespace="default", identity="a")
        elector = LeaderElector(cluster.uncached, options)
        running = asyncio.create_task(elector.run())
        await elector.wait_elected()
        with env.faults.add(effects.Fail(503), resource="leases"):
            await asyncio.sleep(5)
        await asyncio.sleep(20)
        assert elector.is_leader
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await elector.release()
    assert broken.records > 2
