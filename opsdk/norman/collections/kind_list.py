"""The indexed list of one kind of a live cluster, and watches of it.

Upstream: github.com/rancher/steve/pkg/stores/sqlproxy/proxy_store.go, pkg/sqlcache/informer/listoption_indexer.go
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Self

import msgspec

from opsdk.aio.closing import Closing
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.cache.cached_kind import CachedKind, KindRegistration
from opsdk.cache.entry import StoreEntry
from opsdk.cache.own_writes import revision_of
from opsdk.cache.store import Delta, DeltaType
from opsdk.norman.codes import ErrorCode
from opsdk.norman.collections.access_set import VisibleObjects
from opsdk.norman.collections.broadcast import Broadcaster
from opsdk.norman.collections.column import ReaderFor
from opsdk.norman.collections.encoded_objects import EncodedObjects
from opsdk.norman.collections.indexed_list import IndexedList, IndexedPage
from opsdk.norman.collections.query import ObjectQuery
from opsdk.structured_merge.value import JsonObject

# A write is waited for so long in the list.
_WRITE_SECONDS = 3.0
# Bytes of JSON of objects that were on a page, so that the next page does not encode them again.
_ROW_BYTES = 4 << 20


class ListForm(msgspec.Struct, frozen=True):
    """The form in which a store reads and shows the objects of a kind.

    Attributes:
        source: what the form is made of. Forms of equal sources are the same.
        read: returns the reader of a field.
        show: returns an object as clients see it. It may change its argument.
    """

    source: object
    read: ReaderFor
    show: Callable[[JsonObject], JsonObject]


class KindEvent(msgspec.Struct, frozen=True):
    """One change of a list.

    Attributes:
        entry: the object after it; the last state of a removed one.
        is_removal: the object was removed.
        revision: of the list.
    """

    entry: StoreEntry
    is_removal: bool
    revision: int


class KindList(Closing):
    """The objects of one kind. An async context manager over a running informer.

    Args:
        cached: the informers of the kind.
        form: the form of its objects.

    Attributes:
        source: what the form is made of.
        objects: the list.
        rows: the objects in their form as JSON.
        changes: what changes in the list, after the first list.
    """

    def __init__(self, cached: CachedKind, form: ListForm) -> None:
        self.source = form.source
        self.objects = IndexedList(form.read)
        self.rows = EncodedObjects(form.show, _ROW_BYTES)
        self.changes: Broadcaster[KindEvent] = Broadcaster()
        self._cached = cached
        self._registration: KindRegistration | None = None

    async def __aenter__(self) -> Self:
        """Wait for the first list. Raises `CacheError` if the server denies it."""
        self._registration = self._cached.add_handler(self._on_delta)
        try:
            await self._cached.wait_synced(fail_fast=True)
            await self._registration.wait_synced()
        except BaseException:
            await self.aclose()
            raise
        self.changes.start(self.objects.revision)
        return self

    def _on_delta(self, delta: Delta) -> None:
        is_removal = delta.change is DeltaType.DELETED
        if is_removal:
            self.objects.remove(delta.entry, missed=delta.final_state_unknown)
        else:
            self.objects.put(delta.entry)
        if not delta.initial and not delta.resync:
            # The revision of the list never decreases: after a gap, a new list has its objects in any order.
            revision = self.objects.revision
            self.changes.publish(KindEvent(delta.entry, is_removal, revision), revision)

    # -------------------------------------------------------------- reading
    async def page(self, query: ObjectQuery) -> IndexedPage:
        """Return a page; see `IndexedList.page`. Fields are read in slices."""
        for _ in self.objects.prepare(query):
            await asyncio.sleep(0)
        return self.objects.page(query)

    async def wait_shown(self, key: ObjectKey, version: str | None) -> None:
        """Wait until the list shows a write, or for the timeout.

        Args:
            key: the object.
            version: its resource version; None for an object that is gone.
        """
        revision = revision_of(version or "")
        if revision is not None:
            await self._wait_until(lambda: self.objects.revision >= revision)
        elif version is None:
            await self._wait_until(lambda: self.objects.get(key) is None)

    async def _wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds after an event, or for the timeout."""
        if holds():
            return
        reached = asyncio.Event()
        remove = self.changes.listen(lambda _, __: reached.set() if holds() else None)
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                await reached.wait()
        except TimeoutError:
            return  # the write is done, and the next list shows it
        finally:
            remove()

    # -------------------------------------------------------------- watching
    async def watch(self, visible: VisibleObjects, *, revision: int | None = None) -> AsyncGenerator[KindEvent, None]:
        """Iterate over events, until the list is closed.

        Args:
            visible: the objects that the user may watch.
            revision: begin after it; None begins now.

        Raises:
            NormanError: Gone; the revision is too old, or the reader is too slow.
        """
        async with aclosing(self.changes.subscribe(revision)) as changes:
            async for _, event in changes:
                if visible.contains(*event.entry.key):
                    yield event
            if changes.is_dropped:
                raise ErrorCode.GONE.error("the client is too slow: list again")

    async def aclose(self) -> None:
        """Stop following the informer, and end the watches. Idempotent. The informer stays with the cache."""
        self.changes.end()
        if self._registration is not None:
            self._registration.remove()

    def __repr__(self) -> str:
        return f"<KindList {self._cached.gvk}: {self.objects!r}, {self.changes!r}>"
