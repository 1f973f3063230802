"""A cluster against a whole API server in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from client_fakes import Site, SiteStatus, site

from opsdk.api.core.v1 import ConfigMap, Namespace
from opsdk.api.events.v1 import Event
from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import metadata_only, unstructured_kind
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Unstructured, deep_copy
from opsdk.builder.controller_builder import ControllerBuilder
from opsdk.client.activity import Activity
from opsdk.client.decorators.dry_run import dry_run
from opsdk.client.patch import MergeFrom, merge_patch
from opsdk.cluster.cluster import Cluster, ClusterOptions
from opsdk.errors import (
    AlreadyExistsError,
    CacheNotStartedError,
    ConflictError,
    InvalidError,
    NoMatchError,
    NotFoundError,
    OpsdkError,
    UsageError,
)
from opsdk.event.request import Request
from opsdk.manager.manager import Manager
from opsdk.manager.phases import Phase
from opsdk.recipes.owner_references import set_owner_reference
from opsdk.telemetry.records import Record, Requested, TelemetryHook

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
CRD = unstructured_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")


class Counting(TelemetryHook):
    """Counts requests to the server."""

    def __init__(self) -> None:
        self.requests: list[Requested] = []

    def record(self, record: Record) -> None:
        if isinstance(record, Requested):
            self.requests.append(record)


@asynccontextmanager
async def world(**options: Any) -> AsyncIterator[tuple[Cluster, Counting]]:
    """A cluster over a fresh server, not started."""
    async with environment.Environment() as env:
        hook = Counting()
        async with Cluster(env.config, ClusterOptions(**options), hook=hook) as cluster:
            yield cluster, hook


@asynccontextmanager
async def running(cluster: Cluster) -> AsyncIterator[None]:
    """The cluster's cache runs."""
    task = asyncio.create_task(cluster.start())
    try:
        await cluster.wait_ready()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def install(cluster: Cluster) -> None:
    """Have the server serve sites."""
    await cluster.uncached.create(Unstructured.from_tree(crd_for(Site)))
    async with asyncio.timeout(30):
        while True:
            try:
                await cluster.mapper.mapping_for(Site.gvk)
            except NoMatchError:
                await asyncio.sleep(1.1)
            else:
                return


def config(name: str = "a", **data: str) -> ConfigMap:
    """A config map."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data)


@pytest.mark.behaviour(4, 5, 8)
@pytest.mark.behaviour(142, better="The test server is a complete API server, used through the production client.")
async def test_create_update_patch_and_delete() -> None:
    """Each verb returns the documented object, and every conflict is raised."""
    async with world(field_owner="me") as (cluster, _):
        client = cluster.uncached
        obj = await client.create(config(x="1"))
        assert obj.metadata.uid
        with pytest.raises(AlreadyExistsError):
            await client.create(config())
        stale = deep_copy(obj)
        obj.data["x"] = "2"
        await client.update(obj)
        with pytest.raises(ConflictError):
            await client.update(stale)
        base = deep_copy(obj)
        obj.data["y"] = "3"
        await client.patch(obj, MergeFrom(base, optimistic_lock=True))
        with pytest.raises(ConflictError):
            await client.patch(deep_copy(obj), MergeFrom(base, optimistic_lock=True))
        assert (await client.get(ConfigMap, "default/a")).data == {"x": "2", "y": "3"}
        await client.delete(obj)
        with pytest.raises(NotFoundError) as caught:
            await client.get(ConfigMap, "default/a")
        assert (caught.value.details.name, caught.value.details.kind) == ("a", "configmaps")


@pytest.mark.behaviour(12)
async def test_a_delete_precondition_that_fails_is_a_conflict() -> None:
    """A delete with another uid or resource version raises ConflictError."""
    async with world() as (cluster, _):
        obj = await cluster.uncached.create(config())
        with pytest.raises(ConflictError):
            await cluster.uncached.delete(obj, uid="other")
        with pytest.raises(ConflictError):
            await cluster.uncached.delete(obj, resource_version="1")
        await cluster.uncached.delete(obj, uid=obj.metadata.uid)
        await cluster.uncached.delete(obj, missing_ok=True)


@pytest.mark.behaviour(20, 21)
async def test_apply_conflicts_name_the_manager() -> None:
    """Applied twice nothing changes; another owner's field is a conflict that names it; force takes it over."""
    async with world() as (cluster, _):
        client = cluster.uncached
        with pytest.raises(UsageError, match="needs a field owner"):
            await client.apply(config(x="1"))
        first = await client.apply(config(x="1"), field_owner="one")
        again = await client.apply(config(x="1"), field_owner="one")
        assert again.metadata.resource_version == first.metadata.resource_version
        with pytest.raises(ConflictError, match=r"\.data\.x"):
            await client.apply(config(x="2"), field_owner="two")
        taken = await client.apply(config(x="2"), field_owner="two", force=True)
        assert taken.data == {"x": "2"}


@pytest.mark.behaviour(16)
async def test_a_dry_run_stores_nothing() -> None:
    """A dry run returns the would-be object and stores nothing, for every verb."""
    async with world() as (cluster, _):
        client = dry_run(cluster.uncached)
        created = await client.create(config("dry"))
        assert created.metadata.uid
        assert await cluster.uncached.get_or_none(ConfigMap, "default/dry") is None
        stored = await cluster.uncached.create(config("kept"))
        await client.patch(stored, merge_patch({"data": {"x": "1"}}))
        await client.delete(stored)
        assert (await cluster.uncached.get(ConfigMap, "default/kept")).data == {}


@pytest.mark.behaviour(11)
async def test_deleting_many_stays_in_its_namespace() -> None:
    """A deletion by labels stays in its namespace, and is rejected without one."""
    async with world() as (cluster, _):
        client = cluster.uncached
        await client.create(Namespace(metadata=ObjectMeta(name="other")))
        for namespace in ("default", "other"):
            for name, label in (("a", "yes"), ("b", "no")):
                meta = ObjectMeta(name=name, namespace=namespace, labels={"pick": label})
                await client.create(ConfigMap(metadata=meta))
        await client.delete_all_of(ConfigMap, namespace="default", label_selector="pick=yes")
        remaining = {
            (o.metadata.namespace, o.metadata.name) for o in await client.list(ConfigMap, label_selector="pick")
        }
        assert remaining == {("default", "b"), ("other", "a"), ("other", "b")}
        with pytest.raises(OpsdkError):
            await client.delete_all_of(ConfigMap, label_selector="pick")
        assert len(await client.list(ConfigMap, label_selector="pick")) == 3


@pytest.mark.behaviour(7, 14)
async def test_status_and_spec_are_written_separately() -> None:
    """A custom kind: `update` ignores the status, ``status().update`` everything else; metadata reads and patches."""
    async with world() as (cluster, _):
        await install(cluster)
        client = cluster.uncached
        obj = await client.create(site(namespace="default"))
        obj.status = SiteStatus(ready=5)
        obj.spec.replicas = 4
        await client.update(obj)
        assert obj.status is None
        obj.status = SiteStatus(ready=5)
        obj.spec.replicas = 9
        await client.status().update(obj)
        assert (obj.status, obj.spec.replicas) == (SiteStatus(ready=5), 4)
        partial = await client.get(metadata_only(Site), "default/a")
        assert partial.gvk == Site.gvk
        await client.patch(partial, merge_patch({"metadata": {"labels": {"a": "b"}}}))
        assert partial.metadata.labels == {"a": "b"}
        assert partial.gvk == Site.gvk
        (listed,) = await client.list(metadata_only(Site))
        assert (listed.kind, listed.metadata.labels) == ("Site", {"a": "b"})
        with pytest.raises(InvalidError):
            await client.patch(obj, merge_patch({"spec": {"replicas": "many"}}))


@pytest.mark.behaviour(18)
async def test_validation_of_unknown_fields() -> None:
    """Strict refuses, Ignore is silent; the client's default is used where the call says nothing."""
    async with world(field_validation="Strict") as (cluster, _):
        loose = Unstructured.from_tree(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "odd": 1}
        )
        with pytest.raises(OpsdkError, match="odd"):
            await cluster.uncached.create(deep_copy(loose))
        created = await cluster.uncached.create(loose, field_validation="Ignore")
        assert "odd" not in created


@pytest.mark.behaviour(23)
async def test_a_watch_starts_with_existing_objects() -> None:
    """A watch yields existing objects first and then typed changes; leaving the block ends it."""
    async with world() as (cluster, _):
        await cluster.uncached.create(config(x="1"))
        records: list[tuple[str, str]] = []
        async with cluster.uncached.watch(ConfigMap, namespace="default", field_selector="metadata.name=a") as events:
            async for event in events:
                records.append((event.type.value, event.object.data.get("x", "")))
                if event.type.value == "ADDED":
                    await cluster.uncached.create(config("unseen"))
                    await cluster.uncached.patch(config(), merge_patch({"data": {"x": "2"}}))
                if event.type.value == "MODIFIED":
                    await cluster.uncached.delete(config())
                if event.type.value == "DELETED":
                    break
        assert records == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]


@pytest.mark.behaviour(28)
@pytest.mark.behaviour(27, better="Unstructured reads use the same cache.")
@pytest.mark.behaviour(43, better="One informer serves all three, so each object is held once.")
async def test_cached_reads_send_no_requests() -> None:
    """After the sync, get and list of every representation need no request; before the start they are refused."""
    async with world() as (cluster, hook):
        for n in range(5):
            await cluster.uncached.create(config(f"c{n}"))
        with pytest.raises(CacheNotStartedError):
            await cluster.client.get(ConfigMap, "default/c0")
        async with running(cluster):
            await cluster.client.list(ConfigMap)
            await asyncio.sleep(1)
            requests_before = len(hook.requests)
            for kind in (ConfigMap, unstructured_kind("v1", "ConfigMap"), metadata_only(ConfigMap)):
                result = await cluster.client.get(kind, "default/c1")
                assert result.metadata.name == "c1"
                assert len(await cluster.client.list(kind, namespace="default", limit=3)) == 3
            assert len(hook.requests) == requests_before
            await cluster.client.get(ConfigMap, "default/c1", uncached=True)
            await cluster.uncached.get(ConfigMap, "default/c1")
            assert len(hook.requests) == requests_before + 2


@pytest.mark.behaviour(33)
async def test_a_cached_list_with_a_limit_has_an_unusable_continue_token() -> None:
    """The error for this token says what to do instead; a complete list has no token."""
    async with world() as (cluster, _):
        for n in range(3):
            await cluster.uncached.create(config(f"c{n}"))
        async with running(cluster):
            whole = await cluster.client.list(ConfigMap, namespace="default", limit=3)
            assert (len(whole), whole.metadata.continue_token) == (3, "")
            part = await cluster.client.list(ConfigMap, namespace="default", limit=2)
            assert (len(part), part.metadata.continue_token) == (2, "continue-not-supported")
            with pytest.raises(UsageError, match="continue list option is not supported by the cache"):
                await cluster.client.list(ConfigMap, limit=2, continue_token=part.metadata.continue_token)
            page = await cluster.client.list(ConfigMap, namespace="default", limit=2, uncached=True)
            rest = await cluster.client.list(
                ConfigMap, namespace="default", continue_token=page.metadata.continue_token
            )
            assert len(rest) == 1


@pytest.mark.behaviour(32, better="Each read returns a new object; `UnsafeDisableDeepCopy` is not needed.")
async def test_a_cached_object_is_a_copy() -> None:
    """Changing it does not change the cache."""
    async with world() as (cluster, _):
        await cluster.uncached.create(config(x="1"))
        async with running(cluster):
            obj = await cluster.client.get(ConfigMap, "default/a")
            obj.data["x"] = "changed"
            assert (await cluster.client.get(ConfigMap, "default/a")).data == {"x": "1"}


@pytest.mark.behaviour(140)
async def test_discovery_costs_two_requests_once() -> None:
    """Discovery costs two requests, for any number of kinds and concurrent callers."""
    async with world() as (cluster, hook):
        gvks = [GroupVersionKind("", "v1", "Pod"), GroupVersionKind("apps", "v1", "Deployment"), ConfigMap.gvk]
        await asyncio.gather(*(cluster.mapper.mapping_for(g) for g in gvks * 3))
        assert len(hook.requests) == 2
        await asyncio.gather(*(cluster.mapper.mapping_for(g) for g in gvks))
        assert len(hook.requests) == 2


async def test_a_controller_waits_for_its_crd_and_reconciles() -> None:
    """A controller that starts before its CRD reconciles once it exists, and leaves no task."""
    async with world(field_owner="site-operator") as (cluster, _):
        manager = Manager()
        manager.add(cluster, phase=Phase.CACHES)

        async def reconcile(request: Request) -> None:
            current = await cluster.client.get_or_none(Site, request.key)
            if current is None:
                return
            await cluster.client.apply(
                ConfigMap(metadata=ObjectMeta(name=request.name, namespace=request.namespace), data={"x": "y"})
            )
            current.status = SiteStatus(ready=current.spec.replicas)
            await cluster.client.status().update(current)

        ControllerBuilder(cluster.cache, manager=manager).for_(Site).reconciler(reconcile).complete()
        task = asyncio.create_task(manager.start())
        await asyncio.sleep(15)  # no CRD yet
        await install(cluster)
        await asyncio.sleep(15)
        await cluster.uncached.create(site(namespace="default"))
        await asyncio.sleep(5)
        assert (await cluster.uncached.get(Site, "default/a")).status == SiteStatus(ready=1)
        assert (await cluster.uncached.get(ConfigMap, "default/a")).data == {"x": "y"}
        manager.stop()
        await task
        # The manager is gone; the connection is still ours until the block ends.
        assert await cluster.uncached.get_or_none(ConfigMap, "default/a") is not None


@pytest.mark.behaviour(112)
async def test_the_configuration_is_not_changed() -> None:
    """A cluster takes nothing away from, and adds nothing to, the configuration it was given."""
    async with environment.Environment() as env:
        config_ = env.config
        before = repr(config_)
        async with Cluster(config_) as cluster:
            await cluster.uncached.list(ConfigMap)
        assert repr(config_) == before


@pytest.mark.behaviour(46)
@pytest.mark.parametrize("step", range(0, 60, 3))
async def test_a_cancellation_at_any_moment_leaves_no_task(step: int) -> None:
    """Start, sync and stop of a cluster may be cancelled anywhere."""
    async with world() as (cluster, _):
        await cluster.cache.informer_for(ConfigMap)
        task = asyncio.create_task(cluster.start())
        cluster.recorder.event(config(), "Normal", "Testing", "words")
        for _ in range(step):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()


async def test_the_server_accepts_events() -> None:
    """About namespaced and cluster-scoped objects, whatever they are called; repetitions are a series."""
    async with world(name="tester") as (cluster, _), running(cluster):
        role = unstructured_kind("rbac.authorization.k8s.io/v1", "ClusterRole")
        created = await cluster.uncached.create(
            Unstructured(role.gvk.api_version, "ClusterRole", ObjectMeta(name="system:odd"), {"rules": []})
        )
        owned = await cluster.uncached.create(config())
        for _ in range(3):
            cluster.recorder.event(owned, "Normal", "Seen", "words")
            cluster.recorder.event(created, "Warning", "Odd", "words", related=owned)
        await asyncio.sleep(1)
        events = {e.reason: e for e in await cluster.uncached.list(Event)}
        assert set(events) == {"Seen", "Odd"}
        assert events["Odd"].metadata.namespace == "default"
        assert events["Seen"].series is not None
        assert cluster.recorder.dropped == 0


async def test_a_closed_cluster_drops_events() -> None:
    """A recorder that is first used after the cluster has stopped queues nothing, because nothing would be written."""
    async with world() as (cluster, _):
        async with running(cluster):
            pass
        cluster.recorder.event(config(), "Normal", "Late", "words")
        assert cluster.recorder.dropped == 1
        assert not (await cluster.uncached.list(Event)).items


@pytest.mark.behaviour(46)
async def test_a_second_start_is_refused_and_the_first_continues() -> None:
    """The cache of the running cluster still serves reads and follows changes, also of Events."""
    async with world() as (cluster, _):
        running = asyncio.create_task(cluster.start())
        await cluster.wait_ready()
        await cluster.client.list(ConfigMap)
        with pytest.raises(UsageError, match="already started"):
            await cluster.start()
        created = await cluster.client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        cluster.recorder.event(created, "Normal", "Made", "a note")
        await asyncio.sleep(1)
        assert await cluster.client.get(ConfigMap, "default/a") == created
        assert [e.reason for e in await cluster.uncached.list(Event, namespace="default")] == ["Made"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        with pytest.raises(UsageError, match="already started"):
            await cluster.start()


async def test_objects_of_an_owner() -> None:
    """Cache and server list the same ones; the cache reads no others, so that pruning does not grow with them."""
    async with world() as (cluster, _), running(cluster):
        owner = await cluster.uncached.create(config(name="owner"))
        other = await cluster.uncached.create(config(name="other"))
        for number in range(6):
            child = config(name=f"c{number}")
            set_owner_reference(owner if number % 2 else other, child)
            if number == 5:
                set_owner_reference(other, child)
            await cluster.uncached.create(child)
        uid = owner.metadata.uid
        with Activity() as activity:
            cached = await cluster.client.list(ConfigMap, namespace="default", owner_uid=uid)
        direct = await cluster.uncached.list(ConfigMap, namespace="default", owner_uid=uid)
        assert [obj.metadata.name for obj in cached] == [obj.metadata.name for obj in direct] == ["c1", "c3", "c5"]
        assert [read.key for read in activity.reads] == ["default/c1", "default/c3", "default/c5"]
        assert not list(await cluster.client.list(ConfigMap, owner_uid="unknown"))
        excluded = frozenset({ObjectKey("default", "c1"), ObjectKey("default", "c2"), ObjectKey("default", "gone")})
        with Activity() as activity:
            for client in (cluster.client, cluster.uncached):
                others = await client.list(ConfigMap, namespace="default", owner_uid=uid, exclude=excluded)
                assert [obj.metadata.name for obj in others] == ["c3", "c5"]
        assert "default/c1" not in {read.key for read in activity.reads if read.cached}
