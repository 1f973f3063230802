"""A fake server for each kind, a cache of them all, and the kinds: things, widgets and zones."""

from __future__ import annotations

import random
from typing import Any

from fake_server import FakeServer

from opsdk.apimachinery.gvk import GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.kinds import Kind, unstructured_kind
from opsdk.apimachinery.object import Unstructured
from opsdk.apimachinery.rest_mapper import DiscoverySource, RestMapper, RestMapping, ServedResource
from opsdk.apimachinery.scheme import Scheme
from opsdk.cache.cache import Cache
from opsdk.cache.list_watch import ListerWatcher
from opsdk.cache.options import CacheScope
from opsdk.structured_merge.value import JsonObject

THING: Kind[Unstructured] = unstructured_kind("v1", "Thing")
WIDGET: Kind[Unstructured] = unstructured_kind("demo.opsdk.dev/v1", "Widget")
CLUSTER_THING: Kind[Unstructured] = unstructured_kind("demo.opsdk.dev/v1", "Zone")


def mapping(gvk: GroupVersionKind, *, namespaced: bool = True) -> RestMapping:
    """How a kind of the tests is served."""
    resource = GroupVersionResource(gvk.group, gvk.version, f"{gvk.kind.lower()}s")
    return RestMapping(gvk=gvk, resource=resource, namespaced=namespaced)


class Discovery(DiscoverySource):
    """Serves kinds that a test can add and remove."""

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
