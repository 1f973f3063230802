"""The reflector: decides when to list, watch, resume and back off. Pure: results go in, the next action comes out.

States::

    LISTING --all pages--> WATCHING --stream ends--> WATCHING (resumed after the last resource version)
       ^  ^                   |  |
       |  +---410 Gone--------+  +--error--> BACKING_OFF --> WATCHING or LISTING

Invariants: the store is replaced after the last page of a list; a watch starts exactly where the list, the last event
or the last bookmark ended; an expired resource version leads to a new list, whose differences become deltas, deletions
included; every failure except the first 410 increases the backoff.

Upstream: k8s.io/client-go/tools/cache/reflector.go (v1.36)
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from opsdk.aio.backoff import Backoff, BackoffState
from opsdk.apimachinery.codec import peek_key
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.meta import ListMeta
from opsdk.cache.store import Delta, InformerStore, StoreEntry
from opsdk.errors import ApiError, DecodeError, GoneError, OpsdkError
from opsdk.rest.frames import error_from_event

# A watch that ends sooner and without an event is a failure (errVeryShortWatch in client-go).
_SHORT_WATCH = 1.0
# After this many short watches in a row, assume that the resource version is stale, and list again.
_STALE_AFTER = 5


class ReflectorState(Enum):
    """State of the reflector."""

    LISTING = "listing"
    """Reading pages of a list; the store keeps its old content until the last page."""
    WATCHING = "watching"
    """The store is up to date with the last event."""
    BACKING_OFF = "backing off"
    """Waiting after a failure."""


@dataclass(frozen=True, slots=True)
class ListPage:
    """Next action: read a page.

    Attributes:
        resource_version: ``"0"`` for the first list (any version), then empty (the latest).
        continue_token: from the previous page.
        limit: the number of objects; 0 for all.
    """

    resource_version: str
    continue_token: str = ""
    limit: int = 500


@dataclass(frozen=True, slots=True)
class WatchFrom:
    """Next action: watch from a resource version."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Next action: wait `seconds`, then do `then`."""

    seconds: float
    then: ListPage | WatchFrom


Action = ListPage | WatchFrom | Wait


@dataclass(slots=True)
class Problem:
    """An object that does not decode."""

    key: ObjectKey
    error: DecodeError


@dataclass(slots=True)
class ReflectorStep:
    """The effects of an input: deltas, undecodable objects, and the next action (None: continue to read)."""

    deltas: Sequence[Delta] = ()
    problems: list[Problem] = field(default_factory=list)
    next: Action | None = None
    synced: bool = False
    """True at the end of a list: the store is complete."""


class Reflector:
    """Decides for one kind in one scope.

    Args:
        store: the store to keep up to date.
        page_size: objects per page.
        backoff: delays after failures; the defaults are client-go's.
        seed: makes jitter repeatable.
    """

    def __init__(
        self, store: InformerStore, *, page_size: int = 500, backoff: Backoff | None = None, seed: int | None = None
    ) -> None:
        self.store = store
        self.state = ReflectorState.LISTING
        self.resource_version = ""
        self.last_error: OpsdkError | None = None
        self.synced = False
        self._page_size = page_size
        self._backoff: BackoffState = (backoff or Backoff()).start(None if seed is None else random.Random(seed))  # noqa: S311 - jitter, not a secret
        self._pages: list[StoreEntry] = []
        self._problems: list[Problem] = []
        self._short_watches = 0
        self._watch_began = 0.0
        self._events_seen = 0

    # -------------------------------------------------------------- listing
    def start(self) -> ListPage:
        """Return the first action."""
        # "0" lets the server respond from its watch cache, which ignores the limit.
        return self._begin_list("" if self.synced else "0")

    def _begin_list(self, resource_version: str, *, limit: int | None = None) -> ListPage:
        self.state = ReflectorState.LISTING
        self._pages, self._problems = [], []
        return ListPage(resource_version, limit=self._page_size if limit is None else limit)

    def on_page(self, items: Sequence[bytes], meta: ListMeta) -> ReflectorStep:
        """A page has arrived."""
        for item in items:
            self._take(item, self._pages)
        if meta.continue_token:
            return ReflectorStep(next=ListPage("", meta.continue_token, self._page_size))
        first, self.synced = not self.synced, True
        deltas = self.store.replace(self._pages, initial=first)
        problems, self._problems, self._pages = self._problems, [], []
        self.last_error = None
        self.resource_version = meta.resource_version
        self._short_watches = 0
        return ReflectorStep(deltas, problems, self._watch(), synced=True)

    def _take(self, data: bytes, into: list[StoreEntry]) -> None:
        try:
            into.append(self.store.make_entry(data))
        except DecodeError as error:
            self._problems.append(Problem(peek_key(data), error))

    def on_list_error(self, error: OpsdkError, *, page: ListPage, now: float) -> ReflectorStep:
        """A page request failed."""
        self.last_error = error
        if isinstance(error, GoneError) and (page.continue_token or page.resource_version not in ("", "0")):
            # The snapshot expired between two pages: list the latest version in one page.
            return ReflectorStep(next=self._begin_list("", limit=0))
        if _is_too_large_version(error):
            return ReflectorStep(next=self._wait(now, error, self._begin_list("")))
        return ReflectorStep(next=self._wait(now, error, self._begin_list("" if self.synced else "0")))

    # -------------------------------------------------------------- watching
    def _watch(self) -> WatchFrom:
        self.state = ReflectorState.WATCHING
        return WatchFrom(self.resource_version)

    def on_watch_open(self, now: float) -> None:
        """The server accepted the watch."""
        self._watch_began, self._events_seen = now, 0
        self.last_error = None

    def on_event(self, kind: str, data: bytes, *, now: float) -> ReflectorStep:
        """A watch event has arrived."""
        self._events_seen += 1
        self._short_watches = 0
        if kind == "ERROR":
            return self.on_watch_error(error_from_event(data), now=now)
        if kind == "BOOKMARK":
            self._advance(_version_of(data))
            return ReflectorStep()
        try:
            entry = self.store.make_entry(data)
        except DecodeError as error:
            # The resource version still advances, and a deletion still deletes.
            key = peek_key(data)
            self._advance(_version_of(data))
            deltas = self.store.remove(key, final_state_unknown=True) if kind == "DELETED" else ()
            return ReflectorStep(deltas, [Problem(key, error)])
        self._advance(entry.resource_version)
        if kind == "DELETED":
            return ReflectorStep(self.store.remove(entry.key, entry))
        if kind in ("ADDED", "MODIFIED"):
            return ReflectorStep(self.store.put(entry))
        return ReflectorStep(problems=[Problem(entry.key, DecodeError(f"unknown event type {kind!r}"))])

    def _advance(self, resource_version: str) -> None:
        if resource_version:
            self.resource_version = resource_version

    def on_watch_closed(self, *, now: float) -> ReflectorStep:
        """The stream ended without an error, for example after its timeout."""
        if now - self._watch_began >= _SHORT_WATCH or self._events_seen:
            self._short_watches = 0
            return ReflectorStep(next=self._watch())
        self._short_watches += 1
        error = OpsdkError("the watch ended at once, without an event")
        self.last_error = error
        if self._short_watches >= _STALE_AFTER:
            self._short_watches = 0
            return ReflectorStep(next=self._wait(now, error, self._begin_list("")))
        return ReflectorStep(next=self._wait(now, error, self._watch()))

    def on_watch_error(self, error: OpsdkError, *, now: float) -> ReflectorStep:
        """The server rejected the watch, or the stream broke."""
        self.last_error = error
        if isinstance(error, GoneError):
            return ReflectorStep(next=self._begin_list(""))
        if _is_too_large_version(error):
            return ReflectorStep(next=self._wait(now, error, self._begin_list("")))
        return ReflectorStep(next=self._wait(now, error, WatchFrom(self.resource_version)))

    def _wait(self, now: float, error: OpsdkError, then: ListPage | WatchFrom) -> Wait:
        self.state = ReflectorState.BACKING_OFF
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        return Wait(max(self._backoff.next(now), retry_after or 0.0), then)

    def after_wait(self, then: ListPage | WatchFrom) -> ListPage | WatchFrom:
        """The wait is over."""
        self.state = ReflectorState.LISTING if isinstance(then, ListPage) else ReflectorState.WATCHING
        return then

    def __repr__(self) -> str:
        cause = f" after {self.last_error}" if self.last_error else ""
        return f"<Reflector {self.state.value}{cause}, {len(self.store)} objects at {self.resource_version or '?'}>"


class _Version(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Versioned(msgspec.Struct):
    metadata: _Version | None = None


def _version_of(data: bytes) -> str:
    """Return the resource version of a JSON object, empty if unreadable."""
    try:
        metadata = msgspec.json.decode(data, type=_Versioned).metadata
    except msgspec.MsgspecError:
        return ""
    return metadata.resource_version if metadata else ""


def _is_too_large_version(error: OpsdkError) -> bool:
    """Whether the server is behind the requested resource version: after a restore, or at another replica."""
    return isinstance(error, ApiError) and any(c.reason == "ResourceVersionTooLarge" for c in error.details.causes)
