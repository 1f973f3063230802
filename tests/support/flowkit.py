"""Objects, events and caches for the tests of flow, controller and manager."""

from __future__ import annotations

import random
from typing import Any

import msgspec
from fake_server import FakeServer

from opsdk.apimachinery.gvk import GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.kinds import Kind, unstructured
from opsdk.apimachinery.object import Unstructured
from opsdk.apimachinery.rest_mapper import DiscoverySource, RestMapper, RestMapping, ServedResource
from opsdk.apimachinery.scheme import Scheme
from opsdk.cache.cache import Cache
from opsdk.cache.entry import StoreEntry, make_entry
from opsdk.cache.list_watch import ListerWatcher
from opsdk.cache.options import CacheScope
from opsdk.event.event import AnyEvent, Event, EventType, ObjectView
from opsdk.structured_merge.value import JsonObject

THING: Kind[Unstructured] = unstructured("v1", "Thing")
WIDGET: Kind[Unstructured] = unstructured("demo.opsdk.dev/v1", "Widget")
CLUSTER_THING: Kind[Unstructured] = unstructured("demo.opsdk.dev/v1", "Zone")


def mapping(gvk: GroupVersionKind, *, namespaced: bool = True) -> RestMapping:
    """How a kind of the tests is served."""
    resource = GroupVersionResource(gvk.group, gvk.version, f"{gvk.kind.lower()}s")
    return RestMapping(gvk=gvk, resource=resource, namespaced=namespaced)


class Discovery(DiscoverySource):
    """Serves kinds that tests may add and take away."""

    def __init__(self, *kinds: Kind[Any]) -> None:
        self.served = {k.gvk: mapping(k.gvk, namespaced=k is not CLUSTER_THING) for k in kinds}
        self.asked = 0

    def add(self, kind: Kind[Any]) -> None:
        self.served[kind.gvk] = mapping(kind.gvk)

    async def fetch(self) -> ServedResource:
        self.asked += 1
        return ServedResource(mappings=list(self.served.values()))


class World:
    """A fake server for each kind, and a cache of them."""

    def __init__(self, *kinds: Kind[Any], seed: int = 0) -> None:
        self.discovery = Discovery(*(kinds or (THING, WIDGET)))
        self.servers: dict[GroupVersionKind, FakeServer] = {}
        self._seed = seed
        self.cache = Cache(self._list_watch, scheme=Scheme(), mapper=RestMapper(self.discovery))

    def _list_watch(self, mapping: RestMapping, scope: CacheScope) -> ListerWatcher:
        return self.server(mapping.gvk)

    def server(self, kind: GroupVersionKind | Kind[Any]) -> FakeServer:
        gvk = kind.gvk if isinstance(kind, Kind) else kind
        return self.servers.setdefault(gvk, FakeServer(random.Random(self._seed), kind=gvk))


def owner(kind: Kind[Any], name: str, *, controller: bool = True) -> JsonObject:
    """An owner reference as JSON."""
    reference = {"apiVersion": kind.gvk.api_version, "kind": kind.gvk.kind, "name": name, "uid": f"uid-{name}"}
    return {**reference, "controller": True} if controller else reference


def entry(name: str = "a", version: int = 1, *, namespace: str = "ns", **meta: Any) -> StoreEntry:
    """A stored Thing; keywords are further metadata."""
    tree = {
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            **meta,
        },
    }
    return make_entry(msgspec.json.encode(tree))[0]


def view(name: str = "a", version: int = 1, **meta: Any) -> ObjectView[Any]:
    """A Thing as it stands in an event."""
    return ObjectView(entry(name, version, **meta), THING)


def created(new: ObjectView[Any], *, initial: bool = False) -> AnyEvent:
    """An object came to be."""
    """An object came to be."""
    return Event(type=EventType.CREATE, new=new, initial=initial)


def updated(old: ObjectView[Any], new: ObjectView[Any]) -> AnyEvent:
    """An object changed."""
    """An object changed."""
    return Event(type=EventType.UPDATE, old=old, new=new)


def deleted(old: ObjectView[Any]) -> AnyEvent:
    """An object went away."""
    """An object went away."""
    return Event(type=EventType.DELETE, old=old)
