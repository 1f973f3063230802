"""The cached store on the embedded API server: shared watches, skipped work and cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest
from normankit import V3, api_context

from opsdk.api.authentication.v1 import UserInfo
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.cluster.cluster import Cluster
from opsdk.errors import CacheNotStartedError, ForbiddenError
from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.errors import NormanError
from opsdk.norman.model import Schema, SchemaLookup
from opsdk.norman.query import apply_query, condition, sort_by
from opsdk.norman.schema_parts import Field, Filter, Modifier, Scope
from opsdk.norman.store_results import ResourceEventType
from opsdk.norman.stores.cached import CachedStore
from opsdk.norman.stores.proxy import ProxyStore
from opsdk.norman.stores.user_clients import ImpersonatingClients
from opsdk.structured_merge.value import JsonObject


class CountingMapper:
    """Name, namespace and data at the top; counts the objects that it maps."""

    def __init__(self) -> None:
        self.mapped = 0

    def from_internal(self, data: JsonObject) -> None:
        self.mapped += 1
        metadata = data.pop("metadata")
        data["name"], data["namespaceId"] = metadata["name"], metadata.get("namespace")

    def to_internal(self, data: JsonObject) -> None:
        data["metadata"] = {"name": data.pop("name", None), "namespace": data.pop("namespaceId", None)}

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """The schema is written by hand."""


def schema(mapper: CountingMapper | None = None) -> Schema:
    """Return the schema of ConfigMaps."""
    return Schema(
        id="configMap",
        version=V3,
        scope=Scope.NAMESPACE,
        resource_fields={name: Field(type="string") for name in ("name", "namespaceId")}
        | {"data": Field(type="map[string]", nullable=True)},
        collection_filters={"name": Filter(), "data.size": Filter()},
        mapper=mapper or CountingMapper(),
    )


def config_map(name: str, namespace: str = "default", **data: str) -> ConfigMap:
    """Return a ConfigMap."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data)


@asynccontextmanager
async def started(cluster: Cluster) -> AsyncIterator[None]:
    """Run a cluster."""
    running = asyncio.create_task(cluster.start())
    try:
        await cluster.wait_ready()
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_typed_controller_and_all_watches_share_one_upstream_watch(k8s_cluster: Cluster) -> None:
    """One informer, with one list and one watch; two subscribers see a change of another client, as do typed reads."""
    async with started(k8s_cluster), CachedStore(k8s_cluster, ConfigMap) as store:
        context, kind = api_context(), schema()
        await k8s_cluster.client.list(ConfigMap)
        first, second = (store.watch(context, kind, ObjectQuery()) for _ in range(2))
        async with aclosing(first), aclosing(second):
            reading = [asyncio.ensure_future(anext(events)) for events in (first, second)]
            await asyncio.sleep(1)
            async with Cluster(k8s_cluster.config) as other:
                await other.uncached.create(config_map("a", size="1"))
            events_read = [await each for each in reading]
        assert [(event.type, event.data["id"]) for event in events_read] == [
            (ResourceEventType.CHANGE, "default:a")
        ] * 2
        assert (await store.by_id(context, kind, "default:a"))["data"] == {"size": "1"}
        (health,) = k8s_cluster.cache.health()
        assert (health.lists, health.errors) == (1, 0)


async def test_reads_show_own_writes(k8s_cluster: Cluster) -> None:
    """Without waiting for the watch: create, update and delete are in the next read and list."""
    async with started(k8s_cluster), CachedStore(k8s_cluster, ConfigMap) as store:
        context, kind = api_context(), schema()
        by_name = ObjectQuery(filters=condition("name", Modifier.EQ, "a"))
        for size in range(10):
            body = {"name": "a", "namespaceId": "default", "data": {"size": "0"}}
            created = await store.create(context, kind, body)
            assert await store.by_id(context, kind, "default:a") == created
            updated = await store.update(context, kind, {"data": {"size": str(size)}}, "default:a")
            assert (await store.list(context, kind, by_name)).items == [updated]
            assert await store.delete(context, kind, "default:a") is None
            with pytest.raises(NormanError, match="failed to find default:a"):
                await store.by_id(context, kind, "default:a")
            assert (await store.list(context, kind, by_name)).items == []


async def test_only_changed_objects_are_mapped(k8s_cluster: Cluster) -> None:
    """The first list maps each object for its values; later ones map what is new on the page, and what changed."""
    mapper = CountingMapper()
    context, kind = api_context(), schema(mapper)
    for number in range(30):
        await k8s_cluster.uncached.create(config_map(f"a{number:02}", size=str(number % 3)))
    async with started(k8s_cluster), CachedStore(k8s_cluster, ConfigMap) as store:
        options = ObjectQuery(
            filters=condition("data.size", Modifier.EQ, "2"),
            sort=sort_by("name", descending=True),
            limit=3,
        )
        page = await store.list(context, kind, options)
        assert [item["name"] for item in page.items] == ["a29", "a26", "a23"]
        assert page.markers is not None
        assert (page.markers.total, page.markers.next) == (10, "default:a20")
        mapper.mapped = 0
        assert [item["name"] for item in (await store.list(context, kind, options)).items] == ["a29", "a26", "a23"]
        assert mapper.mapped == 0
        await store.update(context, kind, {"data": {"size": "2"}}, "default:a28")
        mapper.mapped = 0
        assert [item["name"] for item in (await store.list(context, kind, options)).items] == ["a29", "a28", "a26"]
        assert mapper.mapped == 2  # for its values, and for the page


async def test_lists_agree_with_the_proxy_store(k8s_cluster: Cluster) -> None:
    """In all namespaces, some, or none, and with fields that the schema does not declare as filters."""
    for namespace in ("default", "kube-system"):
        for number in range(4):
            await k8s_cluster.uncached.create(config_map(f"a{number}", namespace, size=str(number), other="x"))
    async with started(k8s_cluster), CachedStore(k8s_cluster, ConfigMap) as store:
        context, kind, proxy = api_context(), schema(), ProxyStore(k8s_cluster.uncached, ConfigMap)
        some = condition("namespaceId", Modifier.IN, "missing", "kube-system")
        queries = [
            (),
            condition("namespaceId", Modifier.EQ, "default"),
            condition("namespaceId", Modifier.IN),
            some,
            (*condition("namespaceId", Modifier.EQ, "default"), *some),
            condition("data.other", Modifier.NOT_NULL),
            condition("id", Modifier.EQ, "default:a1"),
        ]
        for filters in queries:
            object_query = ObjectQuery(filters=filters)
            # A proxy store filters by namespace only; what it returns is filtered by the server.
            expected = apply_query(kind, object_query, (await proxy.list(context, kind, object_query)).items).items
            result = (await store.list(context, kind, object_query)).items
            assert {item["id"]: item for item in result} == {item["id"]: item for item in expected}
            assert [item["id"] for item in result] == sorted(item["id"] for item in result)


async def test_a_watch_resumes_and_old_revisions_are_gone(k8s_cluster: Cluster) -> None:
    """A subscriber that reconnects gets what it missed; a revision of another store is Gone."""
    async with started(k8s_cluster), CachedStore(k8s_cluster, ConfigMap) as store:
        context, kind = api_context(), schema()
        async with aclosing(store.watch(context, kind, ObjectQuery())) as events:
            reading = asyncio.ensure_future(anext(events))
            await asyncio.sleep(1)
            await k8s_cluster.uncached.create(config_map("a"))
            revision = (await reading).revision
        await k8s_cluster.uncached.create(config_map("b"))
        await store.delete(context, kind, "default:a")
        async with aclosing(store.watch(context, kind, ObjectQuery(since=revision))) as events:
            missed = [await anext(events), await anext(events)]
        assert [(event.type, event.data["id"]) for event in missed] == [
            (ResourceEventType.CHANGE, "default:b"),
            (ResourceEventType.REMOVE, "default:a"),
        ]
        with pytest.raises(NormanError) as raised:
            await anext(store.watch(context, kind, ObjectQuery(since="other-1")))
        assert raised.value.status == 410


async def test_closing_ends_watches(k8s_cluster: Cluster) -> None:
    """A reader that waits gets the end; the informer goes on for others."""
    async with started(k8s_cluster):
        store = CachedStore(k8s_cluster, ConfigMap)
        reading = asyncio.ensure_future(anext(store.watch(api_context(), schema(), ObjectQuery()), None))
        await asyncio.sleep(1)
        await store.aclose()
        await store.aclose()
        assert await reading is None
        assert await k8s_cluster.client.list(ConfigMap)


async def test_a_cluster_that_does_not_run_is_an_error(k8s_cluster: Cluster) -> None:
    """The error says to start it, instead of waiting forever."""
    with pytest.raises(CacheNotStartedError, match="not started"):
        await CachedStore(k8s_cluster, ConfigMap).list(api_context(), schema(), ObjectQuery())


async def test_writes_have_the_permissions_of_the_user(k8s_cluster: Cluster) -> None:
    """Reads come from the cache; a write of a user without permissions is refused by Kubernetes."""
    async with started(k8s_cluster), ImpersonatingClients(k8s_cluster) as clients:
        store = CachedStore(k8s_cluster, ConfigMap, client=clients)
        context = api_context(user=UserInfo(username="ada"))
        assert (await store.list(context, schema(), ObjectQuery())).items
        with pytest.raises(ForbiddenError):
            await store.create(context, schema(), {"name": "a", "namespaceId": "default"})
        await store.aclose()


@pytest.mark.slow
@pytest.mark.deep
async def test_the_cost_of_ten_thousand_objects(k8s_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """A filtered, sorted page is right; the times are printed."""
    objects = [config_map(f"a{number:05}", size=str(number % 100), text="x" * 200) for number in range(10_000)]
    for start in range(0, len(objects), 100):
        await asyncio.gather(*(k8s_cluster.uncached.create(obj) for obj in objects[start : start + 100]))
    async with started(k8s_cluster), CachedStore(k8s_cluster, ConfigMap) as store:
        context, kind = api_context(), schema()
        await k8s_cluster.client.list(ConfigMap)
        where = condition("data.size", Modifier.EQ, "7")
        queries = {
            "first list, page of 100": ObjectQuery(limit=100),
            "page of 100 in the order of ids": ObjectQuery(limit=100),
            "page of 100 sorted by name, descending": ObjectQuery(limit=100, sort=sort_by("name", descending=True)),
            "filtered, 100 of 10,000": ObjectQuery(limit=100, filters=where),
            "all objects": ObjectQuery(),
        }
        lines = []
        for name, options in queries.items():
            before = time.perf_counter()
            result = await store.list(context, kind, options)
            lines.append(f"cached store, 10,000 ConfigMaps: {name}: {(time.perf_counter() - before) * 1000:.1f} ms")
            assert len(result.items) >= 100
        proxy = ProxyStore(k8s_cluster.uncached, ConfigMap)
        before = time.perf_counter()
        assert len((await proxy.list(context, kind, ObjectQuery())).items) >= 10_000
        lines.append(f"proxy store, 10,000 ConfigMaps: all objects: {(time.perf_counter() - before) * 1000:.1f} ms")
        with capsys.disabled():
            print("\n" + "\n".join(lines))  # noqa: T201 - figures
