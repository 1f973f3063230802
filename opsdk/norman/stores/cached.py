"""Objects of a Kubernetes kind, listed and watched from the informer cache of a cluster.

Upstream: github.com/rancher/steve/pkg/stores/sqlproxy (the same task: lists and watches from informers)
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

import msgspec
from msgspec.structs import replace

from opsdk.aio.closing import Closing
from opsdk.aio.large_work import compute
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import KindLike
from opsdk.apimachinery.object import AnyObject
from opsdk.cache.entry import StoreEntry
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.norman.collections.column import Reader
from opsdk.norman.collections.field_path import FieldPath, cell_at
from opsdk.norman.collections.kind_list import KindList, ListForm
from opsdk.norman.collections.kind_lists import KindLists
from opsdk.norman.collections.query import ID, ObjectQuery, SortKey
from opsdk.norman.model import ApiContext, Schema
from opsdk.norman.query import format_id
from opsdk.norman.store_results import PageMarkers, ResourceEvent, ResourceEventType, ResourceList
from opsdk.norman.stores.proxy import ClientFor, ProxyStore, external_form
from opsdk.structured_merge.value import JsonObject

__all__ = ["CachedStore"]


class CachedStore(ProxyStore, Closing):
    """Lists and watches a kind from the cache; reads of one object and writes go to the API server.

    All controllers of the cluster and all watches share one upstream watch. A list maps only the objects of its page,
    and those that changed since the previous list. A write returns once the lists of this store show it, or after
    three seconds. A watch resumes after `ResourceEvent.revision`.

    The cache is read with the permissions of the cluster's own user, so `ObjectQuery.visible` must have those of the
    client, as `RbacAccess` sets it. The cluster must run; the first request waits until the cache is filled.

    Args:
        cluster: the cluster. Close the store before it.
        kind: the kind. Its objects share the informer of typed reads.
        client: the client for writes and single objects, such as one that impersonates users; by default the client
            of the cluster.
    """

    def __init__(
        self, cluster: Cluster, kind: KindLike[AnyObject], *, client: Client | ClientFor | None = None
    ) -> None:
        super().__init__(client or cluster.uncached, kind)
        self._lists = KindLists(cluster)

    async def list(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> ResourceList:
        """Return one page of the cached objects that match, in order."""
        opened = await self._open(schema)
        if not query.sort:
            query = replace(query, sort=(SortKey(ID),))
        page = await opened.page(query)
        items = [await _decoded(await opened.rows.get(entry)) for entry in page.entries]
        markers = PageMarkers(
            previous=_id_of(page.previous), next=_id_of(page.next), last=_id_of(page.last), total=page.count
        )
        return ResourceList(items=items, markers=markers)

    async def watch(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> AsyncGenerator[ResourceEvent]:
        """Yield changes from now on, or after a revision. Raises `NormanError` Gone if it is too old."""
        opened = await self._open(schema)
        revision = opened.changes.parse_revision(query.since)
        async with aclosing(opened.watch(query.visible, revision=revision)) as events:
            async for event in events:
                yield ResourceEvent(
                    type=ResourceEventType.REMOVE if event.is_removal else ResourceEventType.CHANGE,
                    data=await _decoded(await opened.rows.get(event.entry)),
                    revision=str(event.revision),
                )

    async def aclose(self) -> None:
        """End all watches. Idempotent."""
        await self._lists.aclose()

    async def _open(self, schema: Schema) -> KindList:
        """Return the list of a schema. One whose mapper was replaced is closed, so that its watches end."""
        form = ListForm(schema.mapper, _ExternalFields(schema).reader, partial(external_form, schema))
        return await self._lists.open(schema.full_type, self.kind.gvk, form)

    async def _on_write(self, schema: Schema, key: ObjectKey, version: str | None) -> None:
        if (opened := self._lists.get(schema.full_type)) is not None:
            await opened.wait_shown(key, version)

    def __repr__(self) -> str:
        return f"<CachedStore of {self.kind.gvk}>"


class _ExternalFields:
    """Reads fields of objects in their external form. The last object is mapped once for all fields."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._last: StoreEntry | None = None
        self._mapped: JsonObject = {}

    def reader(self, path: FieldPath) -> Reader:
        """Return the reader of a field."""
        return _id_of if path == ID else lambda entry: cell_at(self._map(entry), path)

    def _map(self, entry: StoreEntry) -> JsonObject:
        if entry is not self._last:
            self._mapped = external_form(self._schema, msgspec.json.decode(entry.data))
            self._last = entry
        return self._mapped


async def _decoded(raw: bytes) -> JsonObject:
    return await compute(len(raw), msgspec.json.decode, raw)


def _id_of(entry: StoreEntry | None) -> str | None:
    return None if entry is None else format_id(*entry.key)
