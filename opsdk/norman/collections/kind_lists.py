"""The lists of kinds that a dialect has opened, with their objects in the dialect's form.

Upstream: github.com/rancher/steve/pkg/sqlcache/informer/factory/informer_factory.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from opsdk.aio.closing import Closing
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import Unstructured
from opsdk.cluster.cluster import Cluster
from opsdk.norman.collections.column import ReaderFor
from opsdk.norman.collections.encoded_objects import EncodedObjects
from opsdk.norman.collections.indexed_list import IndexedListOptions
from opsdk.norman.collections.kind_list import KindList
from opsdk.structured_merge.value import JsonObject


class ListForm(msgspec.Struct, frozen=True):
    """The form in which a dialect reads and shows the objects of a kind.

    Attributes:
        read: returns the reader of a field.
        show: returns an object as the dialect shows it. It may change its argument.
    """

    read: ReaderFor
    show: Callable[[JsonObject], JsonObject]


class OpenList(msgspec.Struct):
    """The list of a kind, and its objects as JSON.

    Attributes:
        kind: the kind.
        source: what the form was made of.
        objects: the list.
        rows: the objects in their form.
    """

    kind: Kind[Unstructured]
    source: object
    objects: KindList
    rows: EncodedObjects


class KindLists(Closing):
    """One list for each key, such as the id of a type, opened on first use.

    Args:
        cluster: a started cluster, whose user may list and watch the kinds. Close the lists before it.
        options: limits of each list.
    """

    def __init__(self, cluster: Cluster, options: IndexedListOptions | None = None) -> None:
        self._cluster = cluster
        self._options = options or IndexedListOptions()
        self._open_lists: dict[str, OpenList] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def get(self, key: str) -> OpenList | None:
        """Return an open list, or None."""
        return self._open_lists.get(key)

    async def open(self, key: str, kind: Kind[Unstructured], source: object, form: Callable[[], ListForm]) -> OpenList:
        """Return the list of a key, and wait until it is filled. Raises `CacheError` if the cluster denies the kind.

        Args:
            key: of the list.
            kind: of its objects.
            source: what the form is made of. A list of another source is closed, so that its watches end.
            form: makes the form of a list that is not open.
        """
        async with self._locks.setdefault(key, asyncio.Lock()):
            opened = self._open_lists.get(key)
            if opened is not None and opened.source != source:
                await self._close(key)
                opened = None
            if opened is None:
                self._cluster.cache.check_running()
                list_form, cached = form(), await self._cluster.cache.informer_for(kind)
                objects = await KindList.open(cached, list_form.read, self._options)
                rows = EncodedObjects(list_form.show, self._options.row_bytes)
                opened = self._open_lists[key] = OpenList(kind, source, objects, rows)
        return opened

    async def retain(self, sources: Mapping[str, object]) -> None:
        """Close lists of other sources, and those of other keys, whose informers stop: their kinds are not served."""
        for key, opened in list(self._open_lists.items()):
            if key not in sources or sources[key] != opened.source:
                await self._close(key)
            if key not in sources:
                await self._cluster.cache.remove_informer(opened.kind)

    async def _close(self, key: str) -> None:
        if (opened := self._open_lists.pop(key, None)) is not None:
            await opened.objects.aclose()

    async def aclose(self) -> None:
        """Close all lists. Idempotent."""
        for key in list(self._open_lists):
            await self._close(key)

    def __repr__(self) -> str:
        return f"<KindLists: {len(self._open_lists)} open>"
