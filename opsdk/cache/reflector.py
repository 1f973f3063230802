"""The reflector: decides when to list, watch, resume and back off. Pure: results go in, the next action comes out.

States::

    LISTING --complete--> WATCHING --stream ends--> WATCHING (resumed after the last resource version)
       ^  ^                  |  |
       |  +---410 Gone-------+  +--error--> BACKING_OFF --> LISTING, or WATCHING after 429 and refused connections

A list is a streaming list (a watch that begins with the existing objects) where the server supports it, else pages.

Invariants: the store is replaced after the last object of a list; a watch starts exactly where the list, the last event
or the last bookmark ended; an expired resource version leads to a new list, whose differences become deltas, deletions
included; every failure except the first 410 increases the backoff; no failure repeats the same watch for ever.

Upstream: k8s.io/client-go/tools/cache/reflector.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import TypeVar

import msgspec

from opsdk.aio.backoff import Backoff, BackoffState
from opsdk.apimachinery.codec import peek_key
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.meta import ListMeta
from opsdk.cache.entry import Problem
from opsdk.cache.head import HeadMeta, decode_head
from opsdk.cache.store import Delta, InformerStore
from opsdk.errors import (
    ApiError,
    ConnectError,
    DecodeError,
    GoneError,
    OpsdkError,
    TooManyRequestsError,
    TransportError,
)
from opsdk.rest.frames import error_from_event

# A watch that ends sooner and without an object is a failure (errVeryShortWatch in client-go).
_SHORT_WATCH = 1.0
# Seconds after which a watch counts as healthy: its end is no reason to wait longer than after the first failure.
_HEALTHY_WATCH = 5.0
# After this many short watches in a row, assume that the resource version is stale, and list again.
_STALE_AFTER = 5
# Marks the bookmark at the end of a streaming list.
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class ReflectorState(Enum):
    """State of the reflector."""

    LISTING = "listing"
    """Reading a list; the store keeps its old content until the last object."""
    WATCHING = "watching"
    """The store is up to date with the last event."""
    BACKING_OFF = "backing off"
    """Waiting after a failure."""


class ListPage(msgspec.Struct, frozen=True):
    """Next action: read a page of the latest state.

    Attributes:
        continue_token: from the previous page.
        limit: the number of objects; 0 for all.
    """

    continue_token: str = ""
    limit: int = 500


class WatchFrom(msgspec.Struct, frozen=True):
    """Next action: watch.

    Attributes:
        resource_version: the watch sends the changes after it.
        initial_events: begin with the existing objects: a streaming list.
    """

    resource_version: str = ""
    initial_events: bool = False


class Wait(msgspec.Struct, frozen=True):
    """Next action: wait `seconds`, then do `then`."""

    seconds: float
    then: ListPage | WatchFrom


Action = ListPage | WatchFrom | Wait


class ReflectorStep(msgspec.Struct):
    """The effects of an input: deltas, failures of objects, and the next action (None: continue to read).

    Attributes:
        deltas: of a watch event.
        replaced: of a list, computed while the caller iterates; see `InformerStore.replace`.
        problems: objects that do not decode, and functions that failed.
        next: the next action.
    """

    deltas: Sequence[Delta] = ()
    replaced: Iterator[tuple[Delta, ...]] | None = None
    problems: list[Problem] = msgspec.field(default_factory=list)
    next: Action | None = None
    synced: bool = False
    """True at the end of a list: the store is complete."""


class Reflector:
    """Decides about the requests of one kind in one scope.

    Args:
        store: the store to keep up to date.
        page_size: objects per page.
        watch_list: try streaming lists.
        backoff: delays after failures; the defaults are client-go's.
        expected: the kind of the objects; events with another one are skipped.
    """

    def __init__(
        self,
        store: InformerStore,
        *,
        page_size: int = 500,
        watch_list: bool = False,
        backoff: Backoff | None = None,
        expected: GroupVersionKind | None = None,
    ) -> None:
        self.store = store
        self.state = ReflectorState.LISTING
        self.resource_version = ""
        self.last_error: OpsdkError | None = None
        """The failure that the reflector recovers from; None while it watches."""
        self.synced = False
        self._page_size = page_size
        self._watch_list = watch_list
        self._expected = expected
        self._backoff: BackoffState = (backoff or Backoff()).start()
        self._replacement = store.replacement()
        self._problems: list[Problem] = []
        self._short_watches = 0
        self._watch_began: float | None = None
        self._objects_seen = 0
        self._broken_watches = 0
        self._expired_watches = 0
        self._event_seen = False

    # -------------------------------------------------------------- listing
    def start(self) -> Action:
        """Return the first action."""
        return self._begin_list()

    def _begin_list(self, *, limit: int | None = None, watch_list: bool = True) -> ListPage | WatchFrom:
        self.state = ReflectorState.LISTING
        self._replacement = self.store.replacement()
        self.store.own.list_started()
        if self._watch_list and watch_list:
            return WatchFrom(initial_events=True)
        return ListPage(limit=self._page_size if limit is None else limit)

    def on_items(self, items: Iterable[bytes]) -> None:
        """Objects of a list have arrived."""
        for data in items:
            self._add_item(data)

    def _add_item(self, data: bytes, meta: HeadMeta | None = None) -> None:
        try:
            self._replacement.add(self.store.make_entry(data, meta))
        except DecodeError as error:
            key = peek_key(data)
            self._replacement.unreadable[key] = None
            self._problems.append(Problem(key, error))

    def on_page(self, meta: ListMeta) -> ReflectorStep:
        """A page is complete: `on_items` got all its objects."""
        if meta.continue_token:
            return ReflectorStep(next=ListPage(meta.continue_token, self._page_size))
        step = self._complete_list(meta.resource_version)
        step.next = self._watch()
        return step

    def _complete_list(self, resource_version: str) -> ReflectorStep:
        first, self.synced = not self.synced, True
        deltas = self.store.replace(self._replacement, resource_version=resource_version, initial=first)
        self._replacement = self.store.replacement()
        self.resource_version = resource_version
        self._short_watches = 0
        step = self._step(synced=True)
        step.replaced = deltas
        return step

    def _step(self, deltas: Sequence[Delta] = (), *, synced: bool = False) -> ReflectorStep:
        if not self._problems and not self.store.problems:
            return ReflectorStep(deltas=deltas, synced=synced)
        problems, self._problems = [*self._problems, *self.store.take_problems()], []
        return ReflectorStep(deltas=deltas, problems=problems, synced=synced)

    def on_list_error(self, error: OpsdkError, *, page: ListPage, now: float) -> ReflectorStep:
        """A page request failed."""
        self.last_error = error
        if isinstance(error, GoneError) and page.continue_token:
            # The snapshot expired between two pages: list the latest version in one page.
            return ReflectorStep(next=self._begin_list(limit=0, watch_list=False))
        return ReflectorStep(next=self._wait(now, error, self._begin_list()))

    def on_list_timeout(self, *, now: float) -> ReflectorStep:
        """A streaming list makes no progress: list in pages from now on."""
        self._watch_list = False
        return self.on_watch_error(OpsdkError("the streaming list made no progress in time"), now=now)

    # -------------------------------------------------------------- watching
    def _watch(self) -> WatchFrom:
        self.state = ReflectorState.WATCHING
        return WatchFrom(self.resource_version)

    def on_watch_start(self) -> None:
        """A watch request is sent."""
        self._watch_began, self._objects_seen, self._event_seen = None, 0, False

    def on_watch_open(self, now: float) -> None:
        """The server accepted the watch."""
        self._watch_began = now
        if self.state is ReflectorState.WATCHING:
            self.last_error = None

    def connected(self, now: float) -> bool:
        """Whether a watch is open and works: it lasts for a second, or has sent an event."""
        if self.state is not ReflectorState.WATCHING or self._watch_began is None:
            return False
        return self._event_seen or now - self._watch_began >= _SHORT_WATCH

    def on_event(self, kind: str, data: bytes, *, now: float) -> ReflectorStep:
        """A watch event has arrived."""
        if kind == "ERROR":
            return self.on_watch_error(error_from_event(data), now=now)
        self._event_seen = True
        if self.state is ReflectorState.WATCHING:
            self._expired_watches = 0
        if kind == "BOOKMARK":
            return self._on_bookmark(data)
        self._objects_seen += 1
        self._short_watches = self._broken_watches = 0
        return self._on_object(kind, data)

    def _on_object(self, kind: str, data: bytes) -> ReflectorStep:
        meta: HeadMeta | None = None
        try:
            head = decode_head(data)
            meta, api_version, name = head.metadata, head.api_version, head.kind
        except DecodeError:
            # Reported below, unless the object is of another kind.
            identity = _decode_lenient(data, _TypeMeta)
            api_version, name = identity.api_version, identity.kind
        expected = self._expected
        if expected is not None and name and (name, api_version) != (expected.kind, expected.api_version):
            # The server sent another kind, such as a Status or a Table.
            stranger = DecodeError(f"the watch of {expected} sent an object of another kind: {api_version} {name}")
            self._problems.append(Problem(peek_key(data), stranger))
            return self._step()
        if self.state is ReflectorState.LISTING:
            # Changes during a streaming list come between its objects.
            if kind == "DELETED":
                self._replacement.discard(peek_key(data))
            else:
                self._add_item(data, meta)
            return ReflectorStep()
        try:
            entry = self.store.make_entry(data, meta)
        except DecodeError as error:
            # The resource version still advances, and a deletion still deletes.
            key = peek_key(data)
            self._problems.append(Problem(key, error))
            deltas = self.store.remove(key, final_state_unknown=True) if kind == "DELETED" else ()
            self._advance(_bookmark_of(data).resource_version)
            return self._step(deltas)
        if kind == "DELETED":
            deltas = self.store.remove(entry.key, entry)
        elif kind in ("ADDED", "MODIFIED"):
            deltas = self.store.put(entry, watched=True)
        else:
            self._problems.append(Problem(entry.key, DecodeError(f"unknown event type {kind!r}")))
            deltas = ()
        self._advance(entry.resource_version)
        return self._step(deltas)

    def _on_bookmark(self, data: bytes) -> ReflectorStep:
        bookmark = _bookmark_of(data)
        if self.state is ReflectorState.LISTING:
            if _INITIAL_EVENTS_END not in (bookmark.annotations or {}):
                return ReflectorStep()
            step = self._complete_list(bookmark.resource_version)
            self.state = ReflectorState.WATCHING
            self.last_error = None
            return step
        self._advance(bookmark.resource_version)
        self.store.own.bookmark()
        return ReflectorStep()

    def _advance(self, resource_version: str) -> None:
        if resource_version:
            self.resource_version = resource_version
            self.store.advance(resource_version)

    def on_watch_closed(self, *, now: float) -> ReflectorStep:
        """The stream ended without an error, for example after its timeout."""
        if self.state is ReflectorState.LISTING:
            return self.on_watch_error(TransportError("the streaming list ended before its last object"), now=now)
        if self._end_watch(now) >= _SHORT_WATCH or self._objects_seen:
            self._short_watches = 0
            return ReflectorStep(next=self._watch())
        self._short_watches += 1
        error = OpsdkError("the watch ended at once, without an object")
        self.last_error = error
        if self._short_watches >= _STALE_AFTER:
            self._short_watches = 0
            return ReflectorStep(next=self._wait(now, error, self._begin_list()))
        return ReflectorStep(next=self._wait(now, error, self._watch()))

    def _end_watch(self, now: float) -> float:
        """Return how many seconds the watch was open. After a long one, failures start again with the first delay.

        client-go resets its backoff only after two minutes without a failure. With a failure every 15 s, its delays
        grow to a minute, although each watch in between works.
        """
        opened = now - self._watch_began if self._watch_began is not None else 0.0
        self._watch_began = None
        if opened >= _HEALTHY_WATCH:
            self._backoff.reset()
        return opened

    def on_watch_error(self, error: OpsdkError, *, now: float) -> ReflectorStep:
        """The server rejected the watch, or the stream broke."""
        self.last_error = error
        opened = self._watch_began is not None
        self._end_watch(now)
        listing = self.state is ReflectorState.LISTING
        if isinstance(error, GoneError):
            self._expired_watches += 1
            again = self._begin_list(watch_list=not listing)
            # A version that expires at once, time after time, must not make a busy loop of lists.
            return ReflectorStep(next=again if self._expired_watches == 1 else self._wait(now, error, again))
        if isinstance(error, TooManyRequestsError | ConnectError):
            # The server is overloaded or restarts. The resource version is as good as before.
            return ReflectorStep(next=self._wait(now, error, self._begin_list() if listing else self._watch()))
        if listing:
            # Without support for streaming lists the server calls the request invalid; without the permission to
            # watch, pages at least fill the store.
            self._watch_list = self._watch_list and not (isinstance(error, ApiError) and 400 <= error.code < 500)
            return ReflectorStep(next=self._wait(now, error, self._begin_list(watch_list=False)))
        if opened and isinstance(error, TransportError) and not self._broken_watches:
            # A connection broke: resume once. If the next watch breaks too, without an object, list again.
            self._broken_watches += 1
            return ReflectorStep(next=self._wait(now, error, self._watch()))
        return ReflectorStep(next=self._wait(now, error, self._begin_list()))

    def on_unexpected_error(self, error: Exception, *, now: float) -> ReflectorStep:
        """Handle an unexpected exception: a defect, which must not end the informer. It lists again."""
        problem = OpsdkError(f"unexpected: {error!r}")
        problem.__cause__ = error
        self.last_error = problem
        self._watch_began = None
        return ReflectorStep(next=self._wait(now, problem, self._begin_list(watch_list=False)))

    def _wait(self, now: float, error: OpsdkError, then: ListPage | WatchFrom) -> Wait:
        self.state = ReflectorState.BACKING_OFF
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        return Wait(max(self._backoff.next(now), retry_after or 0.0), then)

    def after_wait(self, then: ListPage | WatchFrom) -> ListPage | WatchFrom:
        """The wait is over."""
        lists = isinstance(then, ListPage) or then.initial_events
        self.state = ReflectorState.LISTING if lists else ReflectorState.WATCHING
        return then

    def __repr__(self) -> str:
        cause = f" after {self.last_error}" if self.last_error else ""
        return f"<Reflector {self.state.value}{cause}, {len(self.store)} objects at {self.resource_version or '?'}>"


class _TypeMeta(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


class _BookmarkMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _BookmarkObject(msgspec.Struct):
    metadata: _BookmarkMeta | None = None


def _bookmark_of(data: bytes) -> _BookmarkMeta:
    """Return the metadata of a bookmark, empty if unreadable."""
    return _decode_lenient(data, _BookmarkObject).metadata or _BookmarkMeta()


S = TypeVar("S", _TypeMeta, _BookmarkObject)


def _decode_lenient(data: bytes, form: type[S]) -> S:
    try:
        return msgspec.json.decode(data, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return form()
