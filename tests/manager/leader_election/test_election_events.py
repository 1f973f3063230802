"""Events and releases of an election, with a whole API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from opsdk.api.coordination.v1 import Lease
from opsdk.api.events.v1 import Event
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.client.patch import merge_patch
from opsdk.client.recorder.recorder import EventRecorder
from opsdk.cluster.cluster import Cluster
from opsdk.errors import LeaderElectionLostError
from opsdk.manager.leader_election.leader_election_record import LeaderElectionOptions
from opsdk.manager.leader_election.leader_elector import LeaderElector

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")

KEY = ObjectKey("default", "shop")


@asynccontextmanager
async def elector(cluster: Cluster, identity: str) -> AsyncIterator[tuple[LeaderElector, asyncio.Task[None]]]:
    """A running candidate that records Events."""
    recorder = EventRecorder(cluster.uncached, "shop")
    options = LeaderElectionOptions(name="shop", namespace="default", identity=identity)
    candidate = LeaderElector(cluster.uncached, options, recorder=recorder)
    running = asyncio.create_task(candidate.run())
    yield candidate, running
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await candidate.release()
    await recorder.aclose()


async def events(cluster: Cluster) -> list[Event]:
    """The Events in the order of their times."""
    listed: Any = await cluster.uncached.list(Event, namespace="default")
    return sorted(listed.items, key=lambda event: str(event.event_time))


@pytest.mark.behaviour(121)
async def test_an_election_writes_events_about_its_lease() -> None:
    """Becoming and ceasing to be the leader are Events with client-go's reason and words."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        async with elector(cluster, "a") as (first, _):
            await first.wait_elected()
            await asyncio.sleep(5)
            async with elector(cluster, "waits"):
                await asyncio.sleep(5)
        written = await events(cluster)
        assert [event.note for event in written] == ["a became leader", "a stopped leading"]
        lease = await cluster.uncached.get(Lease, KEY)
        for event in written:
            assert (event.reason, event.type) == ("LeaderElection", "Normal")
            about = event.regarding
            assert (about.kind, about.namespace, about.name, about.uid) == (
                "Lease",
                "default",
                "shop",
                lease.metadata.uid,
            )


@pytest.mark.behaviour(121)
async def test_a_release_blanks_the_holder_and_retries_a_conflict() -> None:
    """Another client changes the lease meanwhile: the release reads it again. A replica that waits releases nothing."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        async with elector(cluster, "a") as (first, running):
            await first.wait_elected()
            async with elector(cluster, "b"):
                await asyncio.sleep(1)
            lease = await cluster.uncached.get(Lease, KEY)
            assert lease.spec.holder_identity == "a"
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await cluster.uncached.patch(lease, merge_patch({"metadata": {"labels": {"x": "y"}}}))
        lease = await cluster.uncached.get(Lease, KEY)
        assert not lease.spec.holder_identity
        assert lease.metadata.labels == {"x": "y"}


@pytest.mark.behaviour(121)
async def test_a_lost_lease_is_an_event_too() -> None:
    """The Event is written when the server can be reached again; the loss does not wait for it."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        effects = pytest.importorskip("envtest.testing.effects")
        async with elector(cluster, "a") as (first, running):
            await first.wait_elected()
            await asyncio.sleep(1)
            with env.faults.add(effects.Fail(503), resource="leases"), pytest.raises(LeaderElectionLostError):
                await running
        assert [event.note for event in await events(cluster)] == ["a became leader", "a stopped leading"]
