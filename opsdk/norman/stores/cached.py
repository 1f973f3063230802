"""Objects of a Kubernetes kind, read from the informer cache of a cluster.

Upstream: github.com/rancher/steve/pkg/stores/sqlproxy (the same task: lists and watches from informers)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec
from msgspec.structs import replace

from opsdk.aio.closing import Closing
from opsdk.apimachinery.kinds import KindLike
from opsdk.apimachinery.object import AnyObject
from opsdk.cache.cached_kind import CachedKind, KindRegistration
from opsdk.cache.entry import StoreEntry
from opsdk.cache.informer import Informer
from opsdk.cache.store import Delta, DeltaType
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.norman.model import (
    ApiContext,
    QueryOptions,
    ResourceEvent,
    ResourceEventType,
    ResourceList,
    Schema,
    Sort,
)
from opsdk.norman.query import apply_query
from opsdk.norman.stores.broadcast import Broadcaster
from opsdk.norman.stores.cached_projection import Projections
from opsdk.norman.stores.proxy import ClientFor, ProxyStore, external_form, namespaces_of, not_found, object_key
from opsdk.structured_merge.value import JsonObject

# Objects that are mapped before other tasks run: about 10 ms.
_OBJECTS_PER_SLICE = 100


class CachedStore(ProxyStore, Closing):
    """Reads, lists and watches a kind from the cache; writes go to the API server as those of a `ProxyStore`.

    All controllers of the cluster and all watches share one upstream watch. A list maps only the objects of its page:
    see `Projections`. A read shows at least the last write through the same cluster. A watch resumes after
    `ResourceEvent.revision` while this store lives.

    The cache is read with the permissions of the cluster's own user. Check the permissions of clients before, as
    `RbacAccess` does. The cluster must run; the first request waits until the cache is filled.

    Args:
        cluster: the cluster. Close the store before it.
        kind: the kind. Its objects share the informer of typed reads.
        client: the client for writes, such as one that impersonates users; by default that of the cluster. The cache
            shows writes of other clients when its watch has seen them.
    """

    def __init__(
        self, cluster: Cluster, kind: KindLike[AnyObject], *, client: Client | ClientFor | None = None
    ) -> None:
        super().__init__(client or cluster.uncached, kind)
        self._cluster = cluster
        self._projections: dict[str, Projections] = {}
        self._broadcasters: dict[str, Broadcaster] = {}
        self._registrations: list[KindRegistration] = []

    async def by_id(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject:
        """Return an object of the cache."""
        key = object_key(schema, object_id)
        cached = await self._synced()
        for informer in cached.informers_of(key.namespace):
            await informer.unknown_reads.read(key)
            entry = informer.store.get(key)
            if entry is not None:
                return self._external(context, schema, msgspec.json.decode(entry.data))
        raise not_found(object_id)

    async def list(self, context: ApiContext, schema: Schema, options: QueryOptions) -> ResourceList:
        """Return one page of the cached objects that match, in order."""
        cached = await self._synced()
        namespaces = namespaces_of(schema, options)
        if namespaces is not None and options.namespaces is not None:
            namespaces = [name for name in namespaces if name in options.namespaces]
            options = replace(options, namespaces=None)
        projections = self._projections.get(schema.full_type)
        if projections is None:
            projections = self._projections[schema.full_type] = Projections(schema)
        projections.need(options)
        entries = await _entries(cached, namespaces)
        rows = await _in_slices(projections, entries)
        projections.retain(cached)
        result = apply_query(replace(options, sort=options.sort or Sort()), rows)
        by_id = {row["id"]: entry for row, entry in zip(rows, entries, strict=True)}
        items = [
            self._external(context, schema, msgspec.json.decode(by_id[values["id"]].data)) for values in result.items
        ]
        return replace(result, items=items)

    async def watch(self, context: ApiContext, schema: Schema, options: QueryOptions) -> AsyncGenerator[ResourceEvent]:
        """Yield changes from now on, or after a revision. Raises `NormanError` Gone for one that is too old."""
        cached = await self._synced()
        broadcaster = self._broadcasters.get(schema.full_type)
        if broadcaster is None:
            broadcaster = self._broadcasters[schema.full_type] = Broadcaster()
            changes = _Changes(schema, broadcaster)
            self._registrations.append(cached.add_handler(changes.handle))
        async with aclosing(broadcaster.subscribe(options.since)) as events:
            async for event in events:
                yield event

    async def aclose(self) -> None:
        """End all watches. Idempotent."""
        registrations, self._registrations = self._registrations, []
        for registration in registrations:
            registration.remove()
        for broadcaster in self._broadcasters.values():
            broadcaster.end()
        self._broadcasters.clear()

    async def _synced(self) -> CachedKind:
        cache = self._cluster.cache
        cache.check_running()
        cached = await cache.informer_for(self.kind)
        if not cached.has_synced:
            await cached.wait_synced(cache.options.sync_timeout, fail_fast=True)
        return cached

    def __repr__(self) -> str:
        return f"<CachedStore of {self.kind.gvk}>"


class _Changes:
    """Publishes the deltas of an informer as events of a schema."""

    def __init__(self, schema: Schema, broadcaster: Broadcaster) -> None:
        self._schema = schema
        self._broadcaster = broadcaster

    def handle(self, delta: Delta) -> None:
        if delta.initial or delta.resync:
            return
        event = ResourceEventType.REMOVE if delta.change is DeltaType.DELETED else ResourceEventType.CHANGE
        data = external_form(self._schema, msgspec.json.decode(delta.entry.data))
        self._broadcaster.publish(ResourceEvent(type=event, data=data))


async def _entries(cached: CachedKind, namespaces: Sequence[str] | None) -> list[StoreEntry]:
    """Return one snapshot of the objects of some namespaces, or of all."""
    selected: list[tuple[Informer, str]] = []
    for namespace in namespaces if namespaces is not None else [""]:
        selected += [(informer, namespace) for informer in cached.informers_of(namespace)]
    for informer, _ in selected:
        # The result of an own write may be unknown, such as a delete of many objects.
        await informer.unknown_reads.read()
    return [entry for informer, namespace in selected for entry in informer.store.entries(namespace)]


async def _in_slices(projections: Projections, entries: Sequence[StoreEntry]) -> list[JsonObject]:
    rows: list[JsonObject] = []
    mapped = 0
    for values, is_new in projections.rows(entries):
        rows.append(values)
        mapped += is_new
        if is_new and mapped % _OBJECTS_PER_SLICE == 0:
            await asyncio.sleep(0)
    return rows
