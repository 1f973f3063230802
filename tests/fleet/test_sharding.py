"""One cluster, shared between replicas by namespace or by hash."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from slow_cases import mostly_slow

from opsdk import Cluster, Context, ObjectMeta, Operator, OperatorOptions
from opsdk.api.core.v1 import ConfigMap, Namespace
from opsdk.cache.shard import ShardField
from opsdk.fleet.fleet import Fleet
from opsdk.fleet.provider import ClusterProvider
from opsdk.fleet.sharding import HashShards, NamespaceShards
from opsdk.manager.options import ManagerOptions
from opsdk.testing.eventually import eventually

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")

OPTIONS = OperatorOptions(manager=ManagerOptions(health_probe_bind_address="0", metrics_bind_address="0"))
NAMESPACES = ["red", "orange", "yellow", "green", "blue", "violet", "black", "white"]
PROVIDERS: dict[str, Callable[[], ClusterProvider]] = {
    "uid": lambda: HashShards(8, field=ShardField.UID),
    "namespace hash": lambda: HashShards(8, field=ShardField.NAMESPACE),
    "namespace": lambda: NamespaceShards(label_selector="team"),
}


class Replica:
    """One replica that labels ConfigMaps."""

    def __init__(self, env: environment.Environment, name: str, provider: ClusterProvider) -> None:
        self.name = name
        self.operator = Operator("sharded", OPTIONS)
        self.fleet = Fleet(self.operator, provider)

        @self.fleet.reconciler(ConfigMap)
        async def label(config_map: ConfigMap, ctx: Context) -> None:
            if "want" in config_map.data and config_map.metadata.labels.get("done") != config_map.data["want"]:
                config_map.metadata.labels |= {"by": name, "done": config_map.data["want"]}
                await ctx.client.update(config_map)

        self.task = asyncio.get_running_loop().create_task(self.operator.start(env.config), name=name)

    def cached(self) -> int:
        """Return how many of the ConfigMaps its caches hold."""
        return sum(
            len([e for e in informer.store.entries() if e.key.namespace in NAMESPACES])
            for cluster in self.fleet.clusters.values()
            for kind in cluster.cache.kinds()
            for informer in kind.informers.values()
        )

    async def stop(self) -> None:
        """Stop gracefully."""
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


async def change(client: Any, want: str) -> None:
    """Change every ConfigMap."""
    for obj in (await client.list(ConfigMap)).items:
        if obj.metadata.namespace in NAMESPACES:
            obj.data["want"] = want
            await client.update(obj)


async def writers(client: Any, want: str) -> Counter[str]:
    """Return how many ConfigMaps each replica labelled, when all are."""

    async def check() -> Counter[str]:
        objects = [o for o in (await client.list(ConfigMap)).items if o.metadata.namespace in NAMESPACES]
        assert all(obj.metadata.labels.get("done") == want for obj in objects)
        return Counter(obj.metadata.labels["by"] for obj in objects)

    return await eventually(check, within=60)


def check_shares(replicas: list[Replica], written: Counter[str]) -> None:
    """Each replica writes what its caches hold: all objects together.

    The placement only bounds the largest share, so a replica may have none.
    """
    cached = {replica.name: replica.cached() for replica in replicas if replica.cached()}
    assert cached == dict(written)
    assert len(cached) > 1
    assert sum(cached.values()) == 5 * len(NAMESPACES)


@pytest.mark.parametrize("provider", mostly_slow(PROVIDERS.values(), every=3), ids=PROVIDERS)
async def test_replicas_share_the_objects_of_one_cluster(
    provider: Callable[[], ClusterProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each object is cached and reconciled by one replica; one that joins takes a share, one that leaves gives it."""
    monkeypatch.setenv("HOSTNAME", "replica")  # part of the identities, by which shards are placed
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        client = cluster.uncached
        for namespace in NAMESPACES:
            await client.create(Namespace(metadata=ObjectMeta(name=namespace, labels={"team": "yes"})))
            for number in range(5):
                metadata = ObjectMeta(name=f"x{number}", namespace=namespace)
                await client.create(ConfigMap(metadata=metadata, data={"want": "0"}))
        a, b = (Replica(env, name, provider()) for name in ("a", "b"))
        await writers(client, "0")
        await asyncio.sleep(30)
        await change(client, "1")
        check_shares([a, b], await writers(client, "1"))
        c = Replica(env, "c", provider())
        await asyncio.sleep(30)
        await change(client, "2")
        check_shares([a, b, c], await writers(client, "2"))
        await asyncio.gather(a.stop(), b.stop())
        await asyncio.sleep(10)
        await change(client, "3")
        assert (await writers(client, "3")) == {"c": 40}
        await c.stop()
