"""Own writes that end an object, against a whole API server in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from envtest.testing.effects import SlowWatch
from opsdk.api.core.v1 import ConfigMap, Container, Namespace, Pod, PodSpec
from opsdk.apimachinery.kinds import metadata_only
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.client.patch import json_patch, merge_patch
from opsdk.cluster.cluster import Cluster

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
HOLD = "demo.dev/hold"
End = Callable[[Cluster, ConfigMap], Awaitable[Any]]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A running cluster whose watches show nothing for a minute."""
    async with environment.Environment() as env, Cluster(env.config) as running:
        env.faults.add(SlowWatch(60), verb="watch")
        task = asyncio.create_task(running.start())
        await running.wait_ready()
        yield running
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def by_update(cluster: Cluster, obj: ConfigMap) -> None:
    """A whole update."""
    obj.metadata.finalizers = []
    await cluster.client.update(obj)


async def by_merge_patch(cluster: Cluster, obj: ConfigMap) -> None:
    """A merge patch."""
    await cluster.client.patch(obj, merge_patch({"metadata": {"finalizers": None}}))


async def by_metadata_patch(cluster: Cluster, obj: ConfigMap) -> None:
    """A JSON patch that returns metadata only."""
    partial = await cluster.client.get(metadata_only(ConfigMap), "default/a")
    await cluster.client.patch(partial, json_patch([{"op": "remove", "path": "/metadata/finalizers"}]))


@pytest.mark.parametrize("end", [by_update, by_merge_patch, by_metadata_patch])
async def test_a_write_without_the_last_finalizer_is_a_deletion(cluster: Cluster, end: End) -> None:
    """The response is the last state of the object: cached reads no longer return it, and return a new one at once."""
    client = cluster.client
    assert "a" not in [item.metadata.name for item in await client.list(ConfigMap, namespace="default")]
    config = ConfigMap(metadata=ObjectMeta(name="a", namespace="default", finalizers=[HOLD, "demo.dev/other"]))
    await client.create(config)
    await client.delete(config)
    live = await client.get(ConfigMap, "default/a")
    live.metadata.finalizers = [HOLD]
    await client.update(live)
    assert (await client.get(ConfigMap, "default/a")).metadata.finalizers == [HOLD]
    await end(cluster, await client.get(ConfigMap, "default/a"))
    assert await client.get_or_none(ConfigMap, "default/a") is None
    assert "a" not in [item.metadata.name for item in await client.list(ConfigMap, namespace="default")]
    await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"x": "2"}))
    assert (await client.get(ConfigMap, "default/a")).data == {"x": "2"}


async def test_a_terminating_pod_or_namespace_without_finalizers_is_not_a_deletion(cluster: Cluster) -> None:
    """A Pod in its grace period and a namespace with finalizers in its spec are not deletions."""
    client = cluster.client
    meta = ObjectMeta(name="p", namespace="default", finalizers=[HOLD])
    await client.create(
        Pod(metadata=meta, spec=PodSpec(containers=[Container(name="web", image="w:1")], node_name="n"))
    )
    await client.create(Namespace(metadata=ObjectMeta(name="far", finalizers=[HOLD])))
    for kind, key in ((Pod, "default/p"), (Namespace, "far")):
        live = await client.get(kind, key)
        await client.delete(live)
        live = await client.get(kind, key, uncached=True)
        live.metadata.finalizers = []
        await client.update(live)
        server = await client.get_or_none(kind, key, uncached=True)
        cached = await client.get_or_none(kind, key)
        assert (server is None) is (cached is None), key
        assert server is not None
