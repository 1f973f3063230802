"""The list of a fleet's leases, on the embedded API server."""

from __future__ import annotations

import pytest

from opsdk import Cluster, ObjectMeta
from opsdk.api.coordination.v1 import Lease, LeaseSpec
from opsdk.errors import OpsdkError
from opsdk.fleet.lease_list import LeaseList
from opsdk.fleet.shard_lease import holder_of, new_shard_lease

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
effects = pytest.importorskip("envtest.testing.effects")


async def test_a_list_shows_the_server_and_decodes_what_changed() -> None:
    """Each read shows every lease of the fleet as it is now; an unchanged lease is the same object as before."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        client, leases = cluster.uncached, LeaseList(cluster.transport, "shop", "default")
        assert await leases.read() == []
        first = await client.create(new_shard_lease("shop", "default", "a"))
        await client.create(new_shard_lease("shop", "default", "b"))
        await client.create(new_shard_lease("other", "default", "c"))
        await client.create(Lease(metadata=ObjectMeta(name="x", namespace="default"), spec=LeaseSpec()))
        before = {lease.metadata.name: lease for lease in await leases.read()}
        assert len(before) == 2
        first.spec.holder_identity = "me"
        await client.update(first)
        after = {lease.metadata.name: lease for lease in await leases.read()}
        changed = {name for name in after if after[name] is not before[name]}
        assert changed == {first.metadata.name}
        assert holder_of(after[first.metadata.name]) == "me"
        assert after[first.metadata.name].kind == "Lease"
        await client.delete(first)
        assert [lease.metadata.name for lease in await leases.read()] == [*(after.keys() - changed)]


async def test_a_read_that_fails_is_an_error() -> None:
    """A refused or unanswered read is never an empty list."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        leases = LeaseList(cluster.transport, "shop", "default")
        with env.faults.add(effects.Fail(503), resource="leases"), pytest.raises(OpsdkError, match="list leases"):
            await leases.read()
