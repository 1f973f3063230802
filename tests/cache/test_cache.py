"""The cache as its readers see it: which informers there are, and what lists return."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from cache_world import CLUSTER_THING, THING, WIDGET, Discovery, mapping
from client_fakes import Site
from fake_server import FakeServer

from opsdk.apimachinery.kinds import kind_of, metadata_only, unstructured_kind
from opsdk.apimachinery.rest_mapper import RestMapper, RestMapping
from opsdk.apimachinery.scheme import Scheme
from opsdk.cache.cache import Cache
from opsdk.cache.list_watch import ListerWatcher
from opsdk.cache.options import CacheOptions, CacheScope, strip_managed_fields
from opsdk.cache.reader import CachedReader
from opsdk.client.client import Client
from opsdk.errors import CacheSyncError, ConnectError, NotCachedError, UnknownNamespaceError, UsageError


class Namespaces:
    """A server for each namespace of things, and a cache with a client over it."""

    def __init__(self, *namespaces: str, **options: Any) -> None:
        self.servers: dict[str, FakeServer] = {}
        self.discovery = Discovery(THING, WIDGET)
        self.cache = Cache(
            self._list_watch,
            scheme=Scheme(),
            mapper=RestMapper(self.discovery),
            options=CacheOptions(namespaces=namespaces, **options),
        )
        self.client = Client(CachedReader(self.cache))

    def _list_watch(self, served: RestMapping, scope: CacheScope) -> ListerWatcher:
        return self.servers.get(served.resource.resource) or self.server(scope.namespace)

    def server(self, namespace: str = "") -> FakeServer:
        """The server of a namespace."""
        return self.servers.setdefault(namespace, FakeServer(kind=THING.gvk))

    def put(self, namespace: str, name: str, **content: Any) -> None:
        """Store a thing."""
        self.server(namespace).put(name, **content)
        self.server(namespace).objects[name]["metadata"]["namespace"] = namespace or "ns"

    async def names(self, **options: Any) -> list[str]:
        """The names in a cached list."""
        return [item.metadata.name for item in await self.client.list(THING, **options)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The cache runs."""
        task = asyncio.create_task(self.cache.start())
        await asyncio.sleep(0)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.mark.behaviour(29)
async def test_a_read_that_times_out_leaves_its_informer_running() -> None:
    """The error names the kind; a read that is cancelled, too, leaves the informer to later readers."""
    world = Namespaces(sync_timeout=5.0)
    world.put("", "a")
    world.server().refuse = ConnectError("down")
    async with world.running():
        with pytest.raises(CacheSyncError, match="things"):
            await world.names()
        impatient = asyncio.create_task(world.names())
        await asyncio.sleep(1)
        impatient.cancel()
        await asyncio.gather(impatient, return_exceptions=True)
        [kind] = world.cache.kinds()
        world.server().refuse = None
        await asyncio.sleep(60)
        assert await world.names() == ["a"]
        assert world.cache.kinds() == [kind]


@pytest.mark.behaviour(30)
async def test_reader_fail_on_missing_informer_raises_not_cached() -> None:
    """Reads of a kind without an informer are refused; after `informer_for` they wait for the list."""
    world = Namespaces(reader_fail_on_missing_informer=True)
    world.put("", "a")
    async with world.running():
        with pytest.raises(NotCachedError, match="Kind=Thing is not cached"):
            await world.names()
        await world.cache.informer_for(THING)
        assert await world.names() == ["a"]


@pytest.mark.behaviour(31, 34)
async def test_several_namespaces_are_one_list() -> None:
    """A list of all namespaces merges them, a limit counts over all; other namespaces are an error."""
    world = Namespaces("x", "y")
    for namespace in ("x", "y"):
        for n in range(3):
            world.put(namespace, f"{namespace}{n}")
    async with world.running():
        assert await world.names() == ["x0", "x1", "x2", "y0", "y1", "y2"]
        assert await world.names(namespace="y") == ["y0", "y1", "y2"]
        assert await world.names(limit=4) == ["x0", "x1", "x2", "y0"]
        assert await world.names(label_selector="n in (x2, y0, y2)", limit=2) == ["x2", "y0"]
        for read in (world.names(namespace="z"), world.client.get(THING, "z/a")):
            with pytest.raises(UnknownNamespaceError, match="unknown namespace for the cache"):
                await read


@pytest.mark.behaviour(32, better="Each read returns a new object; `UnsafeDisableDeepCopy` is not needed.")
@pytest.mark.behaviour(33)
async def test_listed_objects_are_copies() -> None:
    """Each has its kind; changing one does not change the cache."""
    world = Namespaces()
    world.put("", "a", color="red")
    async with world.running():
        (item,) = await world.client.list(THING)
        assert (item.api_version, item.kind) == ("v1", "Thing")
        item["color"] = "blue"
        assert (await world.client.list(THING))[0]["color"] == "red"


@pytest.mark.behaviour(38)
async def test_objects_are_transformed_before_they_are_stored() -> None:
    """Fields that a transform removes are neither in the store nor in reads."""
    world = Namespaces(transform=strip_managed_fields)
    world.put("", "a")
    world.server().objects["a"]["metadata"]["managedFields"] = [{"manager": "somebody"}]
    async with world.running():
        assert (await world.client.get(THING, "ns/a")).metadata.managed_fields == []
        [kind] = world.cache.kinds()
        assert all(b"somebody" not in entry.data for entry in kind.entries())


def colors(obj: Any) -> list[str]:
    """The color, after spoiling the object."""
    color = obj["color"]
    obj["color"] = "spoiled"
    return [color]


@pytest.mark.behaviour(39, 41)
async def test_lists_by_index() -> None:
    """Lists by index work in one and all namespaces; the index function gets its own copy of the object."""
    world = Namespaces("x", "y")
    world.cache.index_field(THING, "color", colors)
    world.cache.index_field(THING, "size", lambda obj: [obj["size"]])
    for namespace in ("x", "y"):
        world.put(namespace, f"{namespace}1", color="red", size="big")
        world.put(namespace, f"{namespace}2", color="red", size="small")
        world.put(namespace, f"{namespace}3", color="blue", size="big")
    async with world.running():
        assert await world.names(field_selector="color=red") == ["x1", "x2", "y1", "y2"]
        assert await world.names(field_selector="color=red", namespace="y") == ["y1", "y2"]
        assert await world.names(field_selector="color=red,size=big") == ["x1", "y1"]
        partial = await world.client.list(metadata_only(THING), field_selector="color=blue")
        assert [item.metadata.name for item in partial] == ["x3", "y3"]
        assert (await world.client.get(THING, "x/x1"))["color"] == "red"
        with pytest.raises(UsageError, match="weight"):
            await world.names(field_selector="weight=1")
        with pytest.raises(UsageError, match="non-exact"):
            await world.names(field_selector="color!=red")


@pytest.mark.behaviour(39)
async def test_an_index_serves_every_representation_and_scope() -> None:
    """Typed, unstructured and metadata lists use the index of a typed kind; so do lists of a cluster-scoped one."""
    world = Namespaces()
    world.discovery.add(kind_of(Site))
    world.discovery.served[CLUSTER_THING.gvk] = mapping(CLUSTER_THING.gvk, namespaced=False)
    world.cache.index_field(Site, "image", lambda site: [site.spec.image])
    world.cache.index_field(CLUSTER_THING, "color", colors)
    sites = world.servers["sites"] = FakeServer(kind=Site.gvk)
    sites.put("a", spec={"image": "nginx"})
    sites.put("b", spec={"image": "apache"})
    zones = world.servers["zones"] = FakeServer(kind=CLUSTER_THING.gvk)
    zones.put("z", color="red")
    zones.objects["z"]["metadata"]["namespace"] = ""
    async with world.running():
        for kind in (Site, unstructured_kind("demo.opsdk.dev/v1", "Site"), metadata_only(Site)):
            listed: Any = await world.client.list(kind, field_selector="image=nginx")
            assert [item.metadata.name for item in listed] == ["a"]
        assert [item.metadata.name for item in await world.client.list(CLUSTER_THING, field_selector="color=red")] == [
            "z"
        ]


@pytest.mark.behaviour(40)
async def test_an_index_can_be_added_later_but_not_twice() -> None:
    """Added to a running cache it does not wait, even for a list that is denied; its name is taken then."""
    world = Namespaces()
    world.put("", "a", color="red")
    world.server().refuse = ConnectError("down")
    async with world.running():
        await world.cache.informer_for(THING)
        world.cache.index_field(THING, "color", colors)
        with pytest.raises(UsageError, match="already has an index 'color'"):
            world.cache.index_field(THING, "color", colors)
        world.server().refuse = None
        await asyncio.sleep(60)
        assert await world.names(field_selector="color=red") == ["a"]


@pytest.mark.behaviour(42)
async def test_a_removed_informer_is_started_again_by_a_read() -> None:
    """Removing an informer ends its watch; the next read lists again."""
    world = Namespaces(watch_list=False)
    world.put("", "a")
    async with world.running():
        assert await world.names() == ["a"]
        await world.cache.remove_informer(THING)
        assert world.cache.kinds() == []
        lists, watches = world.server().lists, len(world.server().watches)
        await asyncio.sleep(1000)
        assert (world.server().lists, len(world.server().watches)) == (lists, watches)
        world.put("", "b")
        assert await world.names() == ["a", "b"]
        assert world.server().lists == lists + 1


@pytest.mark.behaviour(44, 45)
async def test_a_kind_has_synced_when_all_its_namespaces_have() -> None:
    """`informer_for` does not wait; a wait runs out of time while one namespace has no list."""
    world = Namespaces("x", "y")
    world.server("y").refuse = ConnectError("down")
    async with world.running():
        kind = await world.cache.informer_for(THING)
        assert not kind.has_synced
        with pytest.raises(CacheSyncError):
            await kind.wait_synced(10)
        assert kind.informers["x"].has_synced
        assert not kind.has_synced
        world.server("y").refuse = None
        await kind.wait_synced(60)
        assert kind.has_synced
