"""The lists of a kind that a store has opened, with their objects in the forms of schemas.

Upstream: github.com/rancher/steve/pkg/sqlcache/informer/factory/informer_factory.go
"""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

from opsdk.aio.closing import Closing
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import Unstructured
from opsdk.cluster.cluster import Cluster
from opsdk.norman.collections.kind_list import KindList, ListForm


class KindLists(Closing):
    """One list for each key, such as the type of a schema, opened on first use.

    Args:
        cluster: a started cluster, whose user may list and watch the kinds. Close the lists before it.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._open_lists: dict[str, KindList] = {}
        # Those that a request holds or waits for: types come and go with definitions.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def get(self, key: str) -> KindList | None:
        """Return an open list, or None."""
        return self._open_lists.get(key)

    async def open(self, key: str, gvk: GroupVersionKind, form: ListForm) -> KindList:
        """Return the list of a key, and wait until it is filled. Raises `CacheError` if the cluster denies the kind.

        Args:
            key: of the list.
            gvk: the kind of its objects.
            form: the form of its objects. A list in a form of another source is closed, so that its watches end.
        """
        async with self._locks.setdefault(key, asyncio.Lock()):
            opened = self._open_lists.get(key)
            if opened is not None and opened.source != form.source:
                await self._close(key)
                opened = None
            if opened is None:
                self._cluster.cache.check_running()
                cached = await self._cluster.cache.informer_for(Kind(gvk, Unstructured))
                opened = self._open_lists[key] = await KindList(cached, form).__aenter__()
        return opened

    async def _close(self, key: str) -> None:
        if (opened := self._open_lists.pop(key, None)) is not None:
            await opened.aclose()

    async def aclose(self) -> None:
        """Close all lists. Idempotent."""
        for key in list(self._open_lists):
            await self._close(key)

    def __repr__(self) -> str:
        return f"<KindLists: {len(self._open_lists)} open>"
