"""Cached reads after own writes, against a whole API server in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from envtest.testing.effects import SlowWatch
from opsdk.api.apps.v1 import Deployment, DeploymentSpec
from opsdk.api.core.v1 import ConfigMap, Container, Pod, PodSpec, PodTemplateSpec
from opsdk.apimachinery.kinds import metadata_only, unstructured_kind
from opsdk.apimachinery.meta import LabelSelector, ObjectMeta
from opsdk.apimachinery.object import deep_copy
from opsdk.client.patch import MergeFrom, merge_patch
from opsdk.cluster.cluster import Cluster
from opsdk.errors import NotFoundError, StaleCacheError
from opsdk.telemetry.records import Record, Requested, TelemetryHook

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
SCALE = unstructured_kind("autoscaling/v1", "Scale")


class Reads(TelemetryHook):
    """Counts GET requests."""

    def __init__(self) -> None:
        self.count = 0

    def record(self, record: Record) -> None:
        """Count reads; a watch begins after the list that a read waits for."""
        self.count += isinstance(record, Requested) and record.method == "GET" and record.request.verb != "watch"


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Cluster, Reads]]:
    """A cluster with a started cache, and its reads."""
    hook = Reads()
    async with environment.Environment() as env, Cluster(env.config, hook=hook) as cluster:
        task = asyncio.create_task(cluster.start())
        await cluster.wait_ready()
        yield cluster, hook
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def config(name: str = "a", **data: str) -> ConfigMap:
    """A config map."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default", labels={"app": name}), data=data)


async def names(cluster: Cluster) -> list[str]:
    """The names of a cached list."""
    listed = await cluster.client.list(ConfigMap, namespace="default")
    return [item.metadata.name for item in listed if item.metadata.labels]


async def test_every_write_is_read_at_once_and_without_a_request() -> None:
    """200 creates, updates, patches, applies and deletes: each is in the next get and list, from memory."""
    async with running() as (cluster, hook):
        client = cluster.client
        assert await names(cluster) == []
        before = hook.count
        for n in range(40):
            obj = config(f"o{n}", x="1")
            await client.create(obj)
            assert (await client.get(ConfigMap, f"default/o{n}")).data == {"x": "1"}
            obj.data["x"] = "2"
            await client.update(obj)
            assert (await client.get(ConfigMap, f"default/o{n}")).data == {"x": "2"}
            base = deep_copy(obj)
            obj.data["x"] = "3"
            await client.patch(obj, MergeFrom(base))
            assert (await client.get(ConfigMap, f"default/o{n}")).data == {"x": "3"}
            await client.apply(config(f"o{n}", x="4"), field_owner="me", force=True)
            assert (await client.get(ConfigMap, f"default/o{n}")).data == {"x": "4"}
            assert f"o{n}" in await names(cluster)
            await client.delete(obj)
            assert await client.get_or_none(ConfigMap, f"default/o{n}") is None
            assert await names(cluster) == []
        assert hook.count == before
        await asyncio.sleep(5)
        assert await names(cluster) == []


async def test_a_dry_run_is_not_read() -> None:
    """A cached read does not return the object of a dry run."""
    async with running() as (cluster, _):
        assert await names(cluster) == []
        await cluster.client.create(config(), dry_run=True)
        assert await names(cluster) == []


async def test_an_object_that_the_server_did_not_find_is_not_read_from_the_cache() -> None:
    """After a NotFoundError of an uncached get, a patch or an update, a cached read does not return the dead object."""
    async with environment.Environment() as env, Cluster(env.config) as cluster, Cluster(env.config) as other:
        env.faults.add(SlowWatch(60), verb="watch")  # the watch shows no deletion in time
        task = asyncio.create_task(cluster.start())
        await cluster.wait_ready()
        client = cluster.client
        for name in ("get", "patch", "update"):
            await client.create(config(name))
        assert await names(cluster) == ["get", "patch", "update"]
        objects = {name: await client.get(ConfigMap, f"default/{name}") for name in ("get", "patch", "update")}
        for obj in objects.values():
            await other.uncached.delete(deep_copy(obj))
        with pytest.raises(NotFoundError):
            await client.get(ConfigMap, "default/get", uncached=True)
        with pytest.raises(NotFoundError):
            await client.patch(objects["patch"], merge_patch({"data": {"x": "1"}}))
        with pytest.raises(NotFoundError):
            await client.update(objects["update"])
        for name in objects:
            assert await client.get_or_none(ConfigMap, f"default/{name}") is None
        assert await names(cluster) == []
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_read_can_disable_read_own_writes() -> None:
    """With ``read_own_writes=False`` the read shows what the watch has shown."""
    async with running() as (cluster, _):
        assert await names(cluster) == []
        await cluster.client.create(config())
        with pytest.raises(NotFoundError):
            await cluster.client.get(ConfigMap, "default/a", read_own_writes=False)
        assert len(await cluster.client.list(ConfigMap, namespace="default", read_own_writes=False)) <= 1


@pytest.mark.behaviour(22)
async def test_writes_whose_response_is_not_the_object() -> None:
    """Scale, metadata patches and collections: the next cached read goes to the server, and is up to date."""
    async with running() as (cluster, _):
        client = cluster.client
        labels = {"app": "a"}
        template = PodTemplateSpec(
            metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[Container(name="c", image="i")])
        )
        deployment = Deployment(
            metadata=ObjectMeta(name="d", namespace="default"),
            spec=DeploymentSpec(replicas=1, selector=LabelSelector(match_labels=labels), template=template),
        )
        assert not (await client.list(Deployment)).items
        await client.create(deployment)
        scale = await client.subresource("scale").get(deployment, SCALE)
        scale["spec"] = {"replicas": 4}
        await client.subresource("scale").update(deployment, body=scale)
        assert (await client.get(Deployment, "default/d")).spec.replicas == 4
        assert await names(cluster) == []
        for name in ("a", "b"):
            await client.create(config(name))
        partial = await client.get(metadata_only(ConfigMap), "default/a")
        await client.patch(partial, merge_patch({"metadata": {"labels": {"app": "changed"}}}))
        assert (await client.get(ConfigMap, "default/a")).metadata.labels == {"app": "changed"}
        await client.delete_all_of(ConfigMap, namespace="default", label_selector="app")
        assert await names(cluster) == []


async def test_a_pod_that_terminates_is_read_with_its_deletion() -> None:
    """A deletion with a grace period is an update: the object is still there, with its timestamp."""
    async with running() as (cluster, _):
        client = cluster.client
        assert not (await client.list(Pod)).items
        pod = Pod(
            metadata=ObjectMeta(name="p", namespace="default", finalizers=["demo.opsdk.dev/x"]),
            spec=PodSpec(containers=[Container(name="c", image="i")]),
        )
        await client.create(pod)
        await client.delete(pod)
        assert (await client.get(Pod, "default/p")).metadata.deletion_timestamp is not None


async def test_a_read_can_limit_staleness() -> None:
    """``max_staleness`` raises, with the reason, if the cache received nothing for longer."""
    async with running() as (cluster, _):
        await cluster.client.create(config())
        await cluster.client.get(ConfigMap, "default/a", max_staleness=30)
        await cluster.transport.aclose()
        await asyncio.sleep(400)
        with pytest.raises(StaleCacheError, match="older than 30 s"):
            await cluster.client.get(ConfigMap, "default/a", max_staleness=30)
        assert await cluster.client.get(ConfigMap, "default/a") is not None


@pytest.mark.behaviour(13)
async def test_an_unset_selector_selects_nothing() -> None:
    """``label_selector=None`` lists and deletes nothing; left out, it selects everything."""
    async with running() as (cluster, _):
        client = cluster.client
        await client.create(config())
        for uncached in (False, True):
            assert len(await client.list(ConfigMap, namespace="default", label_selector=None, uncached=uncached)) == 0
            assert len(await client.list(ConfigMap, namespace="default", field_selector=None, uncached=uncached)) == 0
            assert len(await client.list(ConfigMap, namespace="default", uncached=uncached)) >= 1
        unset: dict[str, str] | None = None
        await client.delete_all_of(ConfigMap, namespace="default", label_selector=unset)
        assert await client.get(ConfigMap, "default/a", uncached=True) is not None


@pytest.mark.behaviour(99, better="Whole objects are read from the server; no second informer starts.")
async def test_watching_metadata_starts_no_second_informer() -> None:
    """Reads of whole objects of a kind that is cached as metadata go to the server."""
    async with running() as (cluster, hook):
        cached = await cluster.cache.informer_for(metadata_only(ConfigMap))
        await cached.wait_synced()
        await cluster.client.create(config(x="1"))
        before = hook.count
        assert (await cluster.client.get(ConfigMap, "default/a")).data == {"x": "1"}
        assert hook.count == before + 1
        assert [kind.metadata_only for kind in cluster.cache.kinds()] == [True]
