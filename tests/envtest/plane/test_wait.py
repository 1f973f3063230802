"""Waiting for states of a cluster."""

from __future__ import annotations

import asyncio

from envtest.environment import Environment
from envtest.testing.komega import Komega
from opsdk.api.apps.v1 import Deployment, DeploymentSpec
from opsdk.api.core.v1 import ConfigMap, Container, PodSpec, PodTemplateSpec
from opsdk.apimachinery.meta import LabelSelector, ObjectMeta
from opsdk.cluster.cluster import Cluster


async def test_a_write_is_noticed_at_once() -> None:
    """`Environment.eventually` calls its probe after each write, and not only in intervals."""
    async with Environment() as env, Cluster(env.config) as cluster:
        loop, k = asyncio.get_running_loop(), Komega(cluster.uncached, namespace="default")

        async def later() -> None:
            await asyncio.sleep(0.01)
            await cluster.uncached.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))

        writing = asyncio.ensure_future(later())
        begin = loop.time()
        await env.eventually(k.get(ConfigMap, "a"))
        assert loop.time() - begin < 0.04
        await writing


async def test_komega_reads_and_changes() -> None:
    """Komega reads objects and lists, and changes specs and statuses; a conflict is retried."""
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels={"a": "b"}), spec=PodSpec(containers=[Container(name="c", image="i")])
    )
    spec = DeploymentSpec(replicas=2, selector=LabelSelector(match_labels={"a": "b"}), template=template)
    async with Environment(controllers="cluster") as env, Cluster(env.config) as cluster:
        k = Komega(cluster.uncached, namespace="default")
        await cluster.uncached.create(Deployment(metadata=ObjectMeta(name="d", namespace="default"), spec=spec))
        await env.eventually(k.get(Deployment, "d"), lambda d: d.status.ready_replicas == 2, within=60)
        await env.eventually(k.update(Deployment, "d", lambda d: setattr(d.spec, "replicas", 3)))
        await env.eventually(k.get(Deployment, "d"), lambda d: d.status.ready_replicas == 3, within=60)
        assert len(await env.eventually(k.list(Deployment), lambda found: len(found) == 1)) == 1
    async with Environment() as env, Cluster(env.config) as cluster:
        k = Komega(cluster.uncached, namespace="default")
        await cluster.uncached.create(Deployment(metadata=ObjectMeta(name="d", namespace="default"), spec=spec))
        await env.eventually(k.update_status(Deployment, "d", lambda d: setattr(d.status, "replicas", 9)))
        assert (await k.get(Deployment, "d")()).status.replicas == 9
