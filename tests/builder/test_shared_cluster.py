"""Operators that use a cluster which runs already."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from envtest import Environment
from opsdk import Cluster, Context, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap
from opsdk.testing.eventually import eventually


def make_operator(seen: list[str], version: str) -> Operator:
    """Return an operator that records what it reconciles."""
    operator = Operator("recorder")

    @operator.reconciler(ConfigMap)
    async def reconcile(config_map: ConfigMap, ctx: Context) -> None:
        seen.append(f"{version} {config_map.metadata.name}")

    return operator


@asynccontextmanager
async def started(cluster: Cluster) -> AsyncIterator[None]:
    """Run a cluster inside the block."""
    task = asyncio.create_task(cluster.start())
    await cluster.wait_ready()
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_operator_replaces_another_without_a_new_list() -> None:
    """The second one reconciles all objects from the informers of the first, and sees what changed in between."""
    async with Environment() as env:
        cluster = Cluster(env.config)
        async with started(cluster):
            await cluster.cache.informer_for(ConfigMap)  # kept without handlers
            client, received, lists = cluster.uncached, list[str](), 0
            for version, names in (("v1", ["a"]), ("v2", ["a", "b"]), ("v3", ["a", "b", "c"])):
                await client.create(ConfigMap(metadata=ObjectMeta(name=names[-1], namespace="default")))
                operator = make_operator(received, version)
                running = asyncio.create_task(operator.start(env.config, cluster=cluster))
                expected = {f"{version} {name}" for name in names}
                await eventually(lambda expected=expected: expected <= set(received))
                lists = lists or cluster.cache.health()[0].lists
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                assert cluster.cache.running
            assert [health.lists for health in cluster.cache.health()] == [lists]
            await cluster.client.get(ConfigMap, "default/c")
        await cluster.aclose()
