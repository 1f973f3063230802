"""An API server whose storage is restored to an older state while the cache holds own writes."""

from __future__ import annotations

import asyncio
import logging

import pytest

from envtest.testing.effects import SlowWatch
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.cluster.cluster import Cluster

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


def config(name: str, **data: str) -> ConfigMap:
    """Return a config map in the default namespace."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data)


@pytest.mark.parametrize("watch_delay", [0, 5])
async def test_cached_reads_equal_a_restored_server(watch_delay: int, caplog: pytest.LogCaptureFixture) -> None:
    """Lost own writes disappear with one list, which is logged and counted; updates of cached reads work at once."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        task = asyncio.create_task(cluster.start())
        await cluster.wait_ready()
        client = cluster.client
        for n in range(30):
            await client.create(config(f"kept-{n}", x="1"))
        await client.list(ConfigMap, namespace="default")
        env.faults.add(SlowWatch(watch_delay), verb="watch")
        env.faults.drop_watches()
        await asyncio.sleep(600)  # the watch that follows is slow
        snapshot = env.snapshot()
        for n in range(50):
            await client.create(config(f"lost-{n}"))
        for n in range(30):
            await client.apply(config(f"kept-{n}", x="2"), field_owner="test", force=True)
        before = cluster.cache.health()[0]
        with caplog.at_level(logging.ERROR):
            env.restore(snapshot, reset_revision=True)
            await asyncio.sleep(600)  # a slow watch first sends what the server had lost
        names = {obj.metadata.name for obj in await client.list(ConfigMap, namespace="default")}
        stored = {obj.metadata.name for obj in await cluster.uncached.list(ConfigMap, namespace="default")}
        assert names == stored
        assert "lost-0" not in names
        for n in range(30):
            obj = await client.get(ConfigMap, f"default/kept-{n}")
            assert obj.data == {"x": "1"}
            obj.data["x"] = "3"
            await client.update(obj)
        health = cluster.cache.health()[0]
        assert (health.lists, health.rollbacks) == (before.lists + 1, 1)
        assert "the API server went back from resource version" in caplog.text
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
