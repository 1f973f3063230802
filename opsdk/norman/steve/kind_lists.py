"""The indexed lists of all requested types.

Upstream: github.com/rancher/steve/pkg/sqlcache/informer/factory/informer_factory.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from opsdk.aio.closing import Closing
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import Unstructured
from opsdk.cluster.cluster import Cluster
from opsdk.norman.collections.encoded_objects import EncodedObjects
from opsdk.norman.collections.indexed_list import IndexedListOptions
from opsdk.norman.collections.kind_list import KindList
from opsdk.norman.steve.cluster_schemas import SteveSchema
from opsdk.norman.steve.printer_fields import decorator
from opsdk.norman.steve.raw_fields import raw_fields
from opsdk.norman.steve.resources import own_fields


class OpenList(msgspec.Struct):
    """The list of a type, and its objects as JSON."""

    schema: SteveSchema
    objects: KindList
    rows: EncodedObjects


class KindLists(Closing):
    """One list for each type, opened on first use.

    Args:
        cluster: a started cluster, whose user may list and watch the types.
        options: limits of each list.
    """

    def __init__(self, cluster: Cluster, options: IndexedListOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._open_lists: dict[GroupVersionKind, OpenList] = {}
        self._locks: dict[GroupVersionKind, asyncio.Lock] = {}

    async def of(self, schema: SteveSchema) -> OpenList:
        """Return the list of a type. Raises `CacheError` if the cluster denies it."""
        async with self._locks.setdefault(schema.gvk, asyncio.Lock()):
            opened = self._open_lists.get(schema.gvk)
            if opened is None:
                cached = await self._cluster.cache.informer_for(Kind(schema.gvk, Unstructured))
                decorate = decorator(schema)
                objects = await KindList.open(cached, raw_fields(decorate), self._options)
                rows = EncodedObjects(lambda tree: own_fields(decorate(tree)), self._options.row_bytes)
                opened = self._open_lists[schema.gvk] = OpenList(schema, objects, rows)
        return opened

    async def retain_types(self, schemas: Mapping[str, SteveSchema]) -> None:
        """Close the lists of removed types, and of types with changed columns."""
        for gvk, opened in list(self._open_lists.items()):
            current = schemas.get(opened.schema.id)
            if current is None or (current.gvk, current.columns) != (gvk, opened.schema.columns):
                del self._open_lists[gvk]
                await opened.objects.aclose()
                if current is None:
                    await self._cluster.cache.remove_informer(Kind(gvk, Unstructured))

    async def aclose(self) -> None:
        """Close all lists. Idempotent."""
        while self._open_lists:
            _, opened = self._open_lists.popitem()
            await opened.objects.aclose()

    def __repr__(self) -> str:
        return f"<KindLists of {len(self._open_lists)} types>"
