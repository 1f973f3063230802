"""The indexed list of one kind of a live cluster, and watches of it.

Upstream: github.com/rancher/steve/pkg/stores/sqlproxy/proxy_store.go, pkg/sqlcache/informer/listoption_indexer.go
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from enum import Enum
from typing import Self

import msgspec

from opsdk.aio.closing import Closing
from opsdk.apimachinery.selectors import Selector
from opsdk.cache.cached_kind import CachedKind, KindRegistration
from opsdk.cache.entry import StoreEntry
from opsdk.cache.store import Delta, DeltaType
from opsdk.errors import NormanError
from opsdk.norman.steve.access_set import VisibleObjects
from opsdk.norman.steve.change_log import Change, ChangeLog
from opsdk.norman.steve.column import Decorate
from opsdk.norman.steve.indexed_list import Counts, IndexedList, IndexedListOptions, IndexedPage
from opsdk.norman.steve.query import SteveQuery
from opsdk.norman.steve.rows import EncodedRows

# Maximum number of queued events of a client. Above it, the watch ends, and the client lists again.
_MAX_BACKLOG = 10_000


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

    def event(self, change: Change) -> KindEvent | None:
        """Return the event of a change, or None if the watch does not show it."""
        before, after = self.contains(change.old), self.contains(change.new)
        if after:
            kind = KindEventType.CHANGE if before else KindEventType.CREATE
        elif before:
            kind = KindEventType.REMOVE
        else:
            return None
        return KindEvent(kind, change.entry, change.revision)


class KindList(Closing):
    """The objects of one kind. An async context manager over a running informer.

    Args:
        cached: the informers of the kind.
        decorate: adds the virtual fields to an object.
        options: limits of memory.
        history: the number of changes that a watch can resume from.
        revision_timeout: seconds that a request waits for a revision that the informer has not seen.

    Attributes:
        objects: the list.
        rows: its objects as JSON.
    """

    def __init__(
        self,
        cached: CachedKind,
        decorate: Decorate,
        options: IndexedListOptions | None = None,
        *,
        history: int = 1000,
        revision_timeout: float = 3.0,
    ) -> None:
        options = options or IndexedListOptions()
        self.objects = IndexedList(decorate, options)
        self.rows = EncodedRows(decorate, options.row_bytes)
        self._cached = cached
        self._log = ChangeLog(history)
        self._revision_timeout = revision_timeout
        self._registration: KindRegistration | None = None
        self._listeners: dict[object, Callable[[Change], None]] = {}
        self._watch_events: dict[asyncio.Event, None] = {}
        self._closed = False

    async def __aenter__(self) -> Self:
        """Wait for the first list. Raises `CacheError` if the server denies it."""
        self._registration = self._cached.add_handler(self._on_delta)
        await self._cached.wait_synced(fail_fast=True)
        await self._registration.wait_synced()
        self._log.start(self.objects.revision)
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
        change = Change(self.objects.revision, delta.old, new)
        self._log.add(change)
        for listener in list(self._listeners.values()):
            listener(change)

    # -------------------------------------------------------------- reading
    async def page(
        self,
        query: SteveQuery,
        visible: VisibleObjects,
        *,
        namespace: str = "",
        project_of: Callable[[str], str] = lambda _: "",
    ) -> IndexedPage:
        """Return a page; see `IndexedList.page`. Fields are read in slices, and a newer revision is waited for."""
        await self._wait_for(query.revision or 0)
        for _ in self.objects.prepare(query, visible, namespace=namespace, project_of=project_of):
            await asyncio.sleep(0)
        return self.objects.page(query, visible, namespace=namespace, project_of=project_of)

    async def _wait_for(self, revision: int) -> None:
        """Wait until the list has a revision, or for the timeout."""
        if self.objects.revision >= revision:
            return
        reached = asyncio.Event()

        def listener(_: Change) -> None:
            if self.objects.revision >= revision:
                reached.set()

        remove = self.listen(listener)
        try:
            async with asyncio.timeout(self._revision_timeout):
                await reached.wait()
        except TimeoutError:
            return  # `IndexedList.page` names both revisions
        finally:
            remove()

    async def counts(self, visible: VisibleObjects) -> Counts:
        """Return how many objects a user may see; see `IndexedList.counts`."""
        for _ in self.objects.prepare_counts():
            await asyncio.sleep(0)
        return self.objects.counts(visible)

    # -------------------------------------------------------------- watching
    def listen(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call a listener with each change. Returns the function that removes it; idempotent."""
        token = object()
        self._listeners[token] = listener
        return lambda: self._listeners.pop(token, None) and None

    def check_revision(self, revision: int) -> None:
        """Raise `NormanError` (410) if a watch cannot begin after a revision."""
        self._log.since(revision)

    async def watch(self, scope: WatchScope, *, revision: int | None = None) -> AsyncGenerator[KindEvent, None]:
        """Iterate over events, until the list is closed.

        Args:
            scope: the objects to watch.
            revision: begin after it; None begins now.

        Raises:
            NormanError: the revision is too old (410), or the reader is too slow (429).
        """
        waiting = deque(self._log.since(revision) if revision is not None else ())
        ready, overflow = asyncio.Event(), False

        def listener(change: Change) -> None:
            nonlocal overflow
            overflow = overflow or len(waiting) >= _MAX_BACKLOG
            if not overflow:
                waiting.append(change)
            ready.set()

        remove = self.listen(listener)
        self._watch_events[ready] = None
        try:
            while not self._closed:
                while waiting:
                    if (event := scope.event(waiting.popleft())) is not None:
                        yield event
                if overflow:
                    raise NormanError("the client is too slow: list again", status=429, code="TooSlow")
                ready.clear()
                await ready.wait()
        finally:
            remove()
            del self._watch_events[ready]

    async def aclose(self) -> None:
        """Stop following the informer, and end the watches. Idempotent. The informer stays with the cache."""
        self._closed = True
        for ready in self._watch_events:
            ready.set()
        if self._registration is not None:
            self._registration.remove()

    def __repr__(self) -> str:
        return f"<KindList {self._cached.gvk}: {self.objects!r}, {len(self._listeners)} listeners>"
