"""The reflector: decides when to list, watch, resume and back off. Pure: results go in, the next action comes out.

States::

    LISTING --complete--> WATCHING --stream ends--> WATCHING (resumed after the last resource version)
       ^  ^                  |  |
       |  +---410 Gone-------+  +--error--> BACKING_OFF --> LISTING, or WATCHING after 429 and broken connections
       +--the resource version went back----+

A list is a streaming list (a watch that begins with the existing objects) where the server supports it, else pages.

An API server whose etcd is restored from a backup goes back to older resource versions. A watch that resumes from a
newer one stays open there, and silent until the server catches up. So after a refused or broken connection the
reflector first asks for the server's resource version (`CheckRevision`), and lists if it went back, as it does when an
event or a bookmark goes back. The list replaces everything; `ReflectorStep.rollback` names the event.

Invariants: the store is replaced after the last object of a list; a watch starts exactly where the list, the last event
or the last bookmark ended; an expired resource version leads to a new list, whose differences become deltas, deletions
included; every failure except the first 410 increases the backoff; no failure repeats the same watch forever.

Upstream: k8s.io/client-go/tools/cache/reflector.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Final, TypeVar

import msgspec

from opsdk.aio.backoff import Backoff, BackoffState
from opsdk.apimachinery.codec import peek_key
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.meta import ListMeta
from opsdk.cache.entry import Problem, StoreEntry
from opsdk.cache.head import HeadMeta, ObjectHead, decode_head
from opsdk.cache.own_writes import revision_of
from opsdk.cache.store import Delta, InformerStore
from opsdk.cache.watch_history import SavedHistory, WatchHistory, WatchVerdict
from opsdk.errors import (
    ApiError,
    ConnectError,
    DeadlineError,
    DecodeError,
    GoneError,
    OpsdkError,
    ResponseLimitError,
    TooManyRequestsError,
    TransportError,
)
from opsdk.rest.frames import error_from_event
from opsdk.rest.pages import LIST_BYTES, OBJECT_BYTES, Pages
from opsdk.structured_merge.value import JSON_ERRORS

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


# Python 3.11 searches the metaclass for each member of an enum that is named: not for each object.
_LISTING, _WATCHING = ReflectorState.LISTING, ReflectorState.WATCHING


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


class CheckRevision(msgspec.Struct, frozen=True):
    """Next action: list one object and get the newest one, to learn whether the server went back."""


NextRequest = ListPage | WatchFrom | CheckRevision


class Wait(msgspec.Struct, frozen=True):
    """Next action: wait `seconds`, then do `then`."""

    seconds: float
    then: NextRequest


Action = NextRequest | Wait


class Rollback(msgspec.Struct, frozen=True):
    """The API server went back to older resource versions: it has lost the writes in between.

    Attributes:
        revision_before: the highest resource version seen before.
        revision: the resource version of the list that replaced everything.
    """

    revision_before: int
    revision: int


class ReflectorStep(msgspec.Struct, gc=False):
    """The effects of an input: deltas, failures of objects, and the next action.

    Attributes:
        deltas: of a watch event.
        replaced: of a list, computed while the caller iterates; see `InformerStore.replace`.
        problems: objects that do not decode, and functions that failed.
        next: the next action; None to continue to read.
        synced: True at the end of a list: the store is complete.
        rollback: at the end of a list: the server went back since the last one.
    """

    deltas: Sequence[Delta] = ()
    replaced: Iterator[tuple[Delta, ...]] | None = None
    problems: Sequence[Problem] = ()
    next: Action | None = None
    synced: bool = False
    rollback: Rollback | None = None


CONTINUE: Final = ReflectorStep()
"""The step of most events of a streaming list: no effect yet. It is shared: do not change it."""


class Reflector:
    """Decides about the requests of one kind in one scope.

    Args:
        store: the store to keep up to date.
        page_size: objects per page.
        watch_list: try streaming lists.
        list_bytes: memory of a whole list: its JSON, and half a kilobyte for each object.
        backoff: delays after failures; the defaults are client-go's.
        expected: the kind of the objects; events with another one are skipped.

    Attributes:
        state: see `ReflectorState`.
        resource_version: everything up to it is in the store; empty before the first list.
        last_error: the failure that the reflector recovers from; None while it watches.
        synced: whether a list was complete.
    """

    def __init__(
        self,
        store: InformerStore,
        *,
        page_size: int = 500,
        watch_list: bool = False,
        list_bytes: int = LIST_BYTES,
        backoff: Backoff | None = None,
        expected: GroupVersionKind | None = None,
    ) -> None:
        self.store = store
        self.state = _LISTING
        self.resource_version = ""
        self.last_error: OpsdkError | None = None
        self.synced = False
        self._page_size = page_size
        self._watch_list = watch_list
        self._list_bytes = list_bytes
        self._expected = expected
        self._backoff: BackoffState = (backoff or Backoff()).start()
        self._replacement = store.replacement()
        self._pages = Pages(expected)
        self._listed_bytes = self._listed_objects = 0
        self._problems: list[Problem] = []
        self._history = WatchHistory()
        self._revision_before = 0
        self._went_back = False

    # -------------------------------------------------------------- listing
    def start(self) -> Action:
        """Return the first action."""
        return self._begin_list()

    def on_list_start(self) -> None:
        """The first page of a list, a streaming list or a check is requested.

        It must not be called before: what the server acknowledges during a backoff is older than the list, too.
        """
        self._replacement = self.store.replacement()
        self._pages = Pages(self._expected)
        self._listed_bytes = self._listed_objects = 0
        self._revision_before = self.store.newest_revision
        self.store.own.list_started()

    def _begin_list(self, *, limit: int | None = None, watch_list: bool = True) -> ListPage | WatchFrom:
        self.state = _LISTING
        if self._watch_list and watch_list:
            return WatchFrom(initial_events=True)
        return ListPage(limit=self._page_size if limit is None else limit)

    def on_items(self, items: Iterable[bytes]) -> None:
        """Objects of a list have arrived."""
        for data in items:
            self._add_item(data)

    def _add_item(self, data: bytes, meta: HeadMeta | None = None) -> None:
        self._listed_bytes += len(data) + OBJECT_BYTES
        if self._listed_bytes > self._list_bytes:
            self._replacement = self.store.replacement()
            raise self._too_much("list")
        try:
            self._replacement.add(self.store.make_entry(data, meta))
        except DecodeError as error:
            key = peek_key(data)
            self._replacement.unreadable[key] = None
            self._problems.append(Problem(key, error))

    def _too_much(self, what: str) -> ResponseLimitError:
        return ResponseLimitError(
            f"the {what} of {self._expected} has more than {self._list_bytes} bytes: select fewer objects or"
            " namespaces, cache metadata only, or raise CacheOptions.list_bytes"
        )

    def on_page(self, meta: ListMeta) -> ReflectorStep:
        """A page is complete: `on_items` got all its objects. Raises `ResponseLimitError` for a list without an end."""
        if meta.continue_token:
            before, self._listed_objects = self._listed_objects, self._replacement.size
            self._pages.check(meta.continue_token, progress=self._listed_objects > before)
            return ReflectorStep(next=ListPage(meta.continue_token, self._page_size))
        step = self._complete_list(meta.resource_version)
        step.next = self._watch()
        return step

    def _complete_list(self, resource_version: str) -> ReflectorStep:
        first, self.synced = not self.synced, True
        deltas = self.store.replace(self._replacement, resource_version=resource_version, initial=first)
        self._replacement = self.store.replacement()
        self.resource_version = resource_version
        self._history.listed()
        step = self._step(synced=True)
        step.replaced = deltas
        if self._went_back or self._is_behind(resource_version):
            self._went_back = False
            step.rollback = Rollback(self._revision_before, self.store.revision)
        return step

    def _is_behind(self, resource_version: str) -> bool:
        """Whether a list or a check is older than what was seen before its request."""
        revision = revision_of(resource_version) or self._revision_before  # some servers send none: 0, or empty
        return revision < self._revision_before

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

    # -------------------------------------------------------------- checking
    def on_checked(self, meta: ListMeta, newest: StoreEntry | None, resource_version: str) -> ReflectorStep:
        """The answers to a `CheckRevision` have arrived.

        Args:
            meta: of the list.
            newest: the newest object of the store.
            resource_version: that object's version on the server; empty if it does not exist.
        """
        went_back = self._is_behind(meta.resource_version)
        if not went_back and newest is not None:
            if not resource_version:
                return ReflectorStep(next=self._begin_list())  # deleted, or lost
            # A restored server may have passed the old resource version again. Then the newest object shows it.
            revision = revision_of(newest.resource_version) or 0
            went_back = (revision_of(resource_version) or revision) < revision
        if went_back:
            self._went_back = True
            return ReflectorStep(next=self._begin_list())
        return ReflectorStep(next=self._watch())

    def on_check_error(self, error: OpsdkError, *, now: float) -> ReflectorStep:
        """A `CheckRevision` failed. A list would fail too, or be a heavier load, where the server does not answer."""
        self.last_error = error
        if isinstance(error, DeadlineError):
            # The check itself has waited. Without this, an informer would see nothing for up to a minute after the
            # server answers again.
            self._backoff.reset()
        patient = isinstance(error, TooManyRequestsError | ConnectError | DeadlineError)
        return ReflectorStep(next=self._wait(now, error, CheckRevision() if patient else self._begin_list()))

    # -------------------------------------------------------------- watching
    def _watch(self) -> WatchFrom:
        self.state = _WATCHING
        return WatchFrom(self.resource_version)

    def on_watch_start(self) -> None:
        """A watch request is sent."""
        self._history.started()

    def on_watch_open(self, now: float) -> None:
        """The server accepted the watch."""
        self._history.opened(now)
        if self.state is _WATCHING:
            self.last_error = None

    def connected(self, now: float) -> bool:
        """Whether a watch is open and works: it lasts for a second, or has sent an event."""
        return self.state is _WATCHING and self._history.works(now)

    def on_event(self, event_type: str, data: bytes, *, now: float, head: ObjectHead | None = None) -> ReflectorStep:
        """A watch event has arrived.

        Args:
            event_type: such as ``ADDED``.
            data: the object as JSON.
            now: the time.
            head: the decoded head of `data`, if the caller has it.
        """
        if event_type == "ERROR":
            return self.on_watch_error(error_from_event(data), now=now)
        is_object = event_type != "BOOKMARK"
        self._history.received(is_object=is_object, in_list=self.state is not _WATCHING)
        return self._on_object(event_type, data, now, head) if is_object else self._on_bookmark(data, now)

    def _on_object(self, event_type: str, data: bytes, now: float, head: ObjectHead | None) -> ReflectorStep:
        """Handle an event with an object: one of another kind, of a streaming list, undecodable, or a change."""
        meta: HeadMeta | None = None
        try:
            head = head or decode_head(data)
            meta, api_version, kind = head.metadata, head.api_version, head.kind
        except DecodeError:
            # Reported below, unless the object is of another kind.
            identity = _decode_lenient(data, _TypeMeta)
            api_version, kind = identity.api_version, identity.kind
        expected = self._expected
        if expected is not None and kind and (kind, api_version) != (expected.kind, expected.api_version):
            # The server sent another kind, such as a Status or a Table.
            stranger = DecodeError(f"the watch of {expected} sent an object of another kind: {api_version} {kind}")
            self._problems.append(Problem(peek_key(data), stranger))
            return self._step()
        if self.state is _LISTING:
            # Changes during a streaming list come between its objects.
            if event_type == "DELETED":
                self._replacement.discard(peek_key(data))
            else:
                self._add_item(data, meta)
            return CONTINUE
        try:
            entry = self.store.make_entry(data, meta)
        except DecodeError as error:
            return self._on_undecodable(event_type, data, error)
        revision = revision_of(entry.resource_version)
        if event_type == "DELETED":
            # Its resource version may be older: servers before Kubernetes 1.9 send the last one of the object.
            deltas = self.store.remove(entry.key, entry)
        elif event_type in ("ADDED", "MODIFIED"):
            if self.store.size(OBJECT_BYTES) > self._list_bytes:
                raise self._too_much("cache")
            deltas = self.store.put(entry, watched=True)
            if revision is not None and revision < self.store.revision:
                step = self.on_rollback(entry.resource_version, now=now)
                step.deltas = deltas
                return step
        else:
            self._problems.append(Problem(entry.key, DecodeError(f"unknown event type {event_type!r}")))
            deltas = ()
        lost = self._advance(entry.resource_version, revision)
        return self._step((*deltas, *lost) if lost else deltas)

    def _on_undecodable(self, event_type: str, data: bytes, error: DecodeError) -> ReflectorStep:
        """Report an object that does not decode. The resource version still advances, and a deletion still deletes."""
        key = peek_key(data)
        self._problems.append(Problem(key, error))
        deltas = self.store.remove(key, final_state_unknown=True) if event_type == "DELETED" else ()
        version = _bookmark_of(data).resource_version
        deltas += self._advance(version, revision_of(version))
        return self._step(deltas)

    def on_rollback(self, resource_version: str, *, now: float) -> ReflectorStep:
        """The resource version of an event, a bookmark or an own write went back: list again.

        The list waits for the backoff: a server whose versions have no order must not get a list for each event.
        """
        self._went_back = True
        self._end_watch(now)
        self.last_error = OpsdkError(
            f"the resource version went back from {self.store.newest_revision} to {resource_version}: "
            f"the API server has lost data, for example because etcd was restored"
        )
        return ReflectorStep(next=self._wait(now, self.last_error, self._begin_list()))

    def _on_bookmark(self, data: bytes, now: float) -> ReflectorStep:
        """Handle a bookmark: the end of a streaming list, an older server, or a newer resource version."""
        bookmark = _bookmark_of(data)
        if self.state is _LISTING:
            if _INITIAL_EVENTS_END not in (bookmark.annotations or {}):
                return CONTINUE
            step = self._complete_list(bookmark.resource_version)
            self.state = _WATCHING
            self.last_error = None
            return step
        revision = revision_of(bookmark.resource_version)
        if revision is not None and revision < self.store.revision:
            return self.on_rollback(bookmark.resource_version, now=now)
        lost = self._advance(bookmark.resource_version, revision)
        self.store.own.bookmark()
        return ReflectorStep(deltas=lost)

    def _advance(self, resource_version: str, revision: int | None) -> tuple[Delta, ...]:
        """The watch has shown everything up to `resource_version`. Returns deletions, see `InformerStore.advance`."""
        if not resource_version:
            return ()
        self.resource_version = resource_version
        return self.store.advance(revision)

    def on_watch_closed(self, *, now: float) -> ReflectorStep:
        """The stream ended without an error, for example after its timeout."""
        if self.state is _LISTING:
            return self.on_watch_error(TransportError("the streaming list ended before its last object"), now=now)
        self._end_watch(now)
        verdict = self._history.after_close()
        if verdict is WatchVerdict.RESUME:
            return ReflectorStep(next=self._watch())
        self.last_error = OpsdkError("the watch ended at once, without an object")
        then = self._begin_list() if verdict is WatchVerdict.LIST_LATER else self._watch()
        return ReflectorStep(next=self._wait(now, self.last_error, then))

    def _end_watch(self, now: float) -> None:
        """The watch has ended. After a healthy one, failures start again with the first delay.

        client-go resets its backoff only after two minutes without a failure. With a failure every 15 s, its delays
        grow to a minute, although each watch in between works.
        """
        self._history.ended(now)
        if self._history.was_healthy:
            self._backoff.reset()

    def on_watch_error(self, error: OpsdkError, *, now: float) -> ReflectorStep:
        """The server rejected the watch, or the stream broke."""
        self.last_error = error
        self._end_watch(now)
        listing = self.state is _LISTING
        if isinstance(error, GoneError):
            at_once = self._history.after_expiry() is WatchVerdict.LIST
            again = self._begin_list(watch_list=not listing)
            return ReflectorStep(next=again if at_once else self._wait(now, error, again))
        if isinstance(error, TooManyRequestsError | ConnectError):
            # The server is overloaded or restarts. The resource version is as good as before.
            if listing:
                return ReflectorStep(next=self._wait(now, error, self._begin_list()))
            then = self._watch() if isinstance(error, TooManyRequestsError) else CheckRevision()
            return ReflectorStep(next=self._wait(now, error, then))
        if listing:
            # Without support for streaming lists the server calls the request invalid; without the permission to
            # watch, pages at least fill the store.
            self._watch_list = self._watch_list and not (isinstance(error, ApiError) and 400 <= error.code < 500)
            return ReflectorStep(next=self._wait(now, error, self._begin_list(watch_list=False)))
        if isinstance(error, TransportError) and self._history.after_break() is WatchVerdict.CHECK_LATER:
            return ReflectorStep(next=self._wait(now, error, CheckRevision()))
        return ReflectorStep(next=self._wait(now, error, self._begin_list()))

    def on_unexpected_error(self, error: Exception, *, now: float) -> ReflectorStep:
        """Handle an unexpected exception: a defect, which must not end the informer. It lists again."""
        problem = OpsdkError(f"unexpected: {error!r}")
        problem.__cause__ = error
        self.last_error = problem
        self._history.ended(now)
        return ReflectorStep(next=self._wait(now, problem, self._begin_list(watch_list=False)))

    def _wait(self, now: float, error: OpsdkError, then: NextRequest) -> Wait:
        self.state = ReflectorState.BACKING_OFF
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        return Wait(max(self._backoff.next(now), retry_after or 0.0), then)

    def after_wait(self, then: NextRequest) -> NextRequest:
        """The wait is over."""
        lists = isinstance(then, ListPage) or (isinstance(then, WatchFrom) and then.initial_events)
        self.state = _LISTING if lists else _WATCHING
        return then

    # -------------------------------------------------------------- checkpoints
    def save_history(self) -> SavedHistory:
        """Return how the watches went, for a checkpoint."""
        return self._history.save(self._backoff.tries, self._backoff.last)

    def restore_history(self, saved: SavedHistory) -> None:
        """Go on as after the watches of a checkpoint."""
        self._history.restore(saved)
        self._backoff.tries, self._backoff.last = saved.tries, saved.tried_at

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
    except JSON_ERRORS:
        return form()
