"""The indexed list of one kind of a live cluster, and watches of it.

Upstream: github.com/rancher/steve/pkg/stores/sqlproxy/proxy_store.go, pkg/sqlcache/informer/listoption_indexer.go
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from enum import Enum
from typing import Self

import msgspec

from opsdk.aio.closing import Closing
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.selectors import Selector
from opsdk.cache.cached_kind import CachedKind, KindRegistration
from opsdk.cache.entry import StoreEntry
from opsdk.cache.own_writes import revision_of
from opsdk.cache.store import Delta, DeltaType
from opsdk.norman.codes import ErrorCode
from opsdk.norman.collections.access_set import VisibleObjects
from opsdk.norman.collections.broadcast import Broadcaster
from opsdk.norman.collections.column import ReaderFor
from opsdk.norman.collections.encoded_objects import EncodedObjects
from opsdk.norman.collections.field_path import FieldPath
from opsdk.norman.collections.indexed_list import Counts, IndexedList, IndexedListOptions, IndexedPage
from opsdk.norman.collections.query import ObjectQuery
from opsdk.structured_merge.value import JsonObject

# A request waits so long for a revision that the informer has not seen.
_REVISION_SECONDS = 3.0


class ListForm(msgspec.Struct, frozen=True):
    """The form in which a dialect reads and shows the objects of a kind.

    Attributes:
        source: what the form is made of. Forms of equal sources are the same.
        read: returns the reader of a field.
        show: returns an object as the dialect shows it. It may change its argument.
    """

    source: object
    read: ReaderFor
    show: Callable[[JsonObject], JsonObject]


class Change(msgspec.Struct, frozen=True):
    """One change of an object.

    Attributes:
        old: the object before; None for a new one.
        new: the object after; None for a removed one.
    """

    old: StoreEntry | None
    new: StoreEntry | None

    @property
    def entry(self) -> StoreEntry:
        """The new object, or the last state of a removed one."""
        entry = self.new or self.old
        assert entry is not None
        return entry


class KindEventType(Enum):
    """The type of an event. The value is the name of the message."""

    CREATE = "resource.create"
    CHANGE = "resource.change"
    REMOVE = "resource.remove"


class KindEvent(msgspec.Struct, frozen=True):
    """One event of a watch: the object after it, or the last state of a removed one."""

    type: KindEventType
    entry: StoreEntry
    revision: int


class WatchScope(msgspec.Struct, frozen=True, kw_only=True):
    """The scope of a watch.

    Attributes:
        visible: the objects that the user may watch.
        namespace: only objects of this one; empty for all.
        name: only the object with this name; empty for all.
        selector: only objects with these labels.
    """

    visible: VisibleObjects
    namespace: str = ""
    name: str = ""
    selector: Selector = Selector()

    def contains(self, entry: StoreEntry | None) -> bool:
        """Whether an object is shown."""
        return (
            entry is not None
            and self.namespace in ("", entry.key.namespace)
            and self.name in ("", entry.key.name)
            and self.visible.contains(*entry.key)
            and self.selector.matches(entry.labels)
        )

    def event(self, revision: int, change: Change) -> KindEvent | None:
        """Return the event of a change, or None if the watch does not show it."""
        before, after = self.contains(change.old), self.contains(change.new)
        if after:
            kind = KindEventType.CHANGE if before else KindEventType.CREATE
        elif before:
            kind = KindEventType.REMOVE
        else:
            return None
        return KindEvent(kind, change.entry, revision)


class KindList(Closing):
    """The objects of one kind. An async context manager over a running informer.

    Args:
        cached: the informers of the kind.
        form: the form of its objects.
        options: limits of memory.

    Attributes:
        source: what the form is made of.
        gvk: the kind.
        objects: the list.
        rows: the objects in their form as JSON.
        changes: what changes in the list, after the first list.
    """

    def __init__(self, cached: CachedKind, form: ListForm, options: IndexedListOptions | None = None) -> None:
        options = options or IndexedListOptions()
        self.source, self.gvk = form.source, cached.gvk
        self.objects = IndexedList(form.read, options)
        self.rows = EncodedObjects(form.show, options.row_bytes)
        self.changes: Broadcaster[Change] = Broadcaster()
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
        if delta.change is DeltaType.DELETED:
            self.objects.remove(delta.entry, missed=delta.final_state_unknown)
        else:
            self.objects.put(delta.entry)
        if delta.initial or delta.resync:
            return
        # The revision of the list never decreases: after a gap, a new list has its objects in any order.
        new = delta.new if delta.change is not DeltaType.DELETED else None
        self.changes.publish(Change(delta.old, new), self.objects.revision)

    # -------------------------------------------------------------- reading
    async def page(self, query: ObjectQuery) -> IndexedPage:
        """Return a page; see `IndexedList.page`. Fields are read in slices, and a newer revision is waited for."""
        await self._wait_for(query.revision or 0)
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
            await self._wait_for(revision)
        elif version is None:
            await self._wait_until(lambda: self.objects.get(key) is None)

    async def _wait_for(self, revision: int) -> None:
        await self._wait_until(lambda: self.objects.revision >= revision)

    async def _wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds after an event, or for the timeout."""
        if holds():
            return
        reached = asyncio.Event()
        remove = self.changes.listen(lambda _, __: reached.set() if holds() else None)
        try:
            async with asyncio.timeout(_REVISION_SECONDS):
                await reached.wait()
        except TimeoutError:
            return  # `IndexedList.page` names both revisions
        finally:
            remove()

    async def counts(self, visible: VisibleObjects, state: FieldPath) -> Counts:
        """Return how many objects a user may see; see `IndexedList.counts`."""
        for _ in self.objects.prepare_counts(state):
            await asyncio.sleep(0)
        return self.objects.counts(visible, state)

    # -------------------------------------------------------------- watching
    async def watch(self, scope: WatchScope, *, revision: int | None = None) -> AsyncGenerator[KindEvent, None]:
        """Iterate over events, until the list is closed.

        Args:
            scope: the objects to watch.
            revision: begin after it; None begins now.

        Raises:
            NormanError: Gone; the revision is too old, or the reader is too slow.
        """
        async with aclosing(self.changes.subscribe(revision)) as changes:
            async for number, change in changes:
                if (event := scope.event(number, change)) is not None:
                    yield event
            if changes.is_dropped:
                raise ErrorCode.GONE.error("the client is too slow: list again")

    async def aclose(self) -> None:
        """Stop following the informer, and end the watches. Idempotent. The informer stays with the cache."""
        self.changes.end()
        if self._registration is not None:
            self._registration.remove()

    def __repr__(self) -> str:
        return f"<KindList {self.gvk}: {self.objects!r}, {self.changes!r}>"
