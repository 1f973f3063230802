"""A source of objects that others reference: it follows their metadata, and only while there are references.

Upstream: none; operators in Go cache every Secret, or map a partial watch by hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from opsdk.aio.tasks import TaskOwner
from opsdk.apimachinery.gvk import GroupKind, ObjectKey
from opsdk.apimachinery.kinds import Kind, metadata_only
from opsdk.apimachinery.object import AnyObject
from opsdk.apimachinery.rest_mapper import RestMapper
from opsdk.cache.cache import Cache
from opsdk.errors import UsageError
from opsdk.event.event import AnyEvent, EventType
from opsdk.event.handlers import Mapped
from opsdk.event.predicates import PredicateFunc
from opsdk.event.request import Request
from opsdk.event.sources import EventSource, KindSource, SyncPolicy
from opsdk.queue.work_queue import WorkQueue
from opsdk.telemetry.failures import FunctionFailure
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

Reference = str | ObjectKey | None
ReferenceFunction = Callable[[Any], Reference | Iterable[Reference]]
"""From an object to what it references: a name in its own namespace, ``namespace/name``, an `ObjectKey`, or several."""

# Seconds without a reference after which the informer of the referenced kind stops.
_IDLE = 60.0


class ReferenceTable:
    """Which objects reference which. Pure.

    >>> table = ReferenceTable()
    >>> a, b = ObjectKey("shop", "a"), ObjectKey("shop", "b")
    >>> table.replace(ObjectKey("shop", "db"), [a, b]), table.replace(ObjectKey("shop", "db"), [b])
    (frozenset(), frozenset({ObjectKey(namespace='shop', name='a')}))
    >>> table.users(b)
    [ObjectKey(namespace='shop', name='db')]
    """

    def __init__(self) -> None:
        self._references: dict[ObjectKey, frozenset[ObjectKey]] = {}
        self._users: dict[ObjectKey, dict[ObjectKey, None]] = {}

    def replace(self, user: ObjectKey, references: Iterable[ObjectKey]) -> frozenset[ObjectKey]:
        """Replace the references of an object. Returns the keys that nothing references any more."""
        before, after = self._references.pop(user, frozenset()), frozenset(references)
        if after:
            self._references[user] = after
        for key in after - before:
            self._users.setdefault(key, {})[user] = None
        unused = set()
        for key in before - after:
            users = self._users[key]
            del users[user]
            if not users:
                del self._users[key]
                unused.add(key)
        return frozenset(unused)

    def users(self, key: ObjectKey) -> list[ObjectKey]:
        """Return the objects that reference `key`, in the order in which they began to."""
        return list(self._users.get(key, ()))

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._users

    def __len__(self) -> int:
        """Return the number of referenced keys."""
        return len(self._users)


def references_of(obj: AnyObject, by: ReferenceFunction) -> list[ObjectKey]:
    """Return the keys that an object references. Raises `UsageError` for a result of another type."""
    result = by(obj)
    items = [result] if result is None or isinstance(result, str | ObjectKey) else list(result)
    return [_as_key(item, obj.metadata.namespace) for item in items if item]


def _as_key(reference: object, namespace: str) -> ObjectKey:
    if isinstance(reference, ObjectKey):
        return reference
    if not isinstance(reference, str):
        raise UsageError(
            f"by=... returned {reference!r}: return a name, namespace/name, an ObjectKey, or a list of them"
        )
    before, slash, name = reference.partition("/")
    return ObjectKey(before, name) if slash else ObjectKey(namespace, reference)


class _References:
    """The handler of the referencing kind: it keeps the table, and queues nothing."""

    def __init__(
        self, table: ReferenceTable, by: ReferenceFunction, on_change: Callable[[frozenset[ObjectKey]], None]
    ) -> None:
        self._table = table
        self._by = by
        self._on_change = on_change

    async def prepare(self, mapper: RestMapper) -> None:
        """Do nothing."""

    def requests(self, event: AnyEvent) -> Mapped:
        """Return no request. The reconciled kind has a source of its own."""
        references = references_of(event.new.object, self._by) if event.new is not None else ()
        self._on_change(self._table.replace(event.view.key, references))
        return ()

    def __repr__(self) -> str:
        return f"references by {getattr(self._by, '__name__', self._by)}"


class _Users:
    """The handler of the referenced kind: it queues the objects that reference the changed one."""

    def __init__(self, table: ReferenceTable, on_event: Callable[[AnyEvent], None]) -> None:
        self._table = table
        self._on_event = on_event

    async def prepare(self, mapper: RestMapper) -> None:
        """Do nothing."""

    def requests(self, event: AnyEvent) -> Mapped:
        """Return a request for each object that references the changed one."""
        self._on_event(event)
        return tuple(Request(*key) for key in self._table.users(event.view.key))

    def __repr__(self) -> str:
        return "objects that reference it"


class ReferencedSource(EventSource):
    """Queues the reconciled objects that reference a changed object of another kind.

    The informer of the referenced kind holds metadata only. It starts with the first reference, and stops a minute
    after the last one has gone.

    Args:
        cache: provides the informers.
        kind: the referenced kind.
        user: the reconciled kind.
        by: what an object references.
        predicates: an event of the referenced kind must pass all of them.
        sync_policy: see `EventSource`.
        forget: is called with keys of objects that are gone, or that nothing references any more.
        changed: is called with the key and resource version of a changed object.
    """

    def __init__(
        self,
        cache: Cache,
        kind: Kind[AnyObject],
        user: Kind[AnyObject],
        by: ReferenceFunction,
        *,
        predicates: Sequence[PredicateFunc] = (),
        sync_policy: SyncPolicy | None = None,
        forget: Callable[[Iterable[ObjectKey]], None] = lambda _: None,
        changed: Callable[[ObjectKey, str], None] = lambda *_: None,
    ) -> None:
        self.sync_policy = sync_policy
        self.table = ReferenceTable()
        self._cache = cache
        self._kind = metadata_only(kind)
        self._predicates = tuple(predicates)
        self._forget = forget
        self._changed = changed
        self._users = KindSource(cache, user, _References(self.table, by, self._on_references), sync_policy=sync_policy)
        self._objects: KindSource | None = None
        self._queue: WorkQueue[Any] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._tasks = TaskOwner(f"references to {self._kind.gvk}", on_error=self._on_crash)
        self._closed = False

    def watches(self, kind: GroupKind) -> bool:
        """Whether it has the events of this kind: of the objects that are referenced."""
        return kind in (self._kind.gvk.group_kind, self._users.kind.gvk.group_kind)

    async def start(self, queue: WorkQueue[Any]) -> None:
        """Follow the referencing objects."""
        self._queue = queue
        await self._users.start(queue)

    def _on_references(self, unused: frozenset[ObjectKey]) -> None:
        """Start the informer with the first reference, and stop it some time after the last one."""
        if unused:
            self._forget(unused)
        if len(self.table):
            self._stop_timer()
            if self._objects is None and not self._closed:
                self._open()
        elif self._objects is not None and self._idle is None:
            self._idle = asyncio.get_running_loop().call_later(_IDLE, self._close_idle)

    def _open(self) -> None:
        assert self._queue is not None
        handler = _Users(self.table, self._on_event)
        objects = KindSource(
            self._cache, self._kind, handler, predicates=self._predicates, sync_policy=self.sync_policy
        )
        self._objects = objects
        self._tasks.start(objects.start(self._queue), name="start")

    def _close_idle(self) -> None:
        self._idle = None
        objects, self._objects = self._objects, None
        if objects is not None:
            log.info("nothing references %s: its informer stops", self._kind.gvk)
            self._tasks.start(objects.aclose(), name="stop")

    def _stop_timer(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _on_event(self, event: AnyEvent) -> None:
        if event.type is EventType.DELETE:
            self._forget([event.view.key])
        else:
            self._changed(event.view.key, event.view.resource_version)

    def _on_crash(self, task: str, error: BaseException) -> None:
        log.error("%s ended: %r", task, error, exc_info=error)

    async def wait_synced(self, timeout: float) -> None:
        """Return when the references of the initial objects are known, and the metadata of what they reference."""
        await self._users.wait_synced(timeout)
        if self._objects is not None:
            await self._objects.wait_synced(timeout)

    def problem(self) -> str:
        """Return why the source does not follow one of its kinds now, or an empty string."""
        return "; ".join(filter(None, (source.problem() for source in self._sources())))

    def failing_functions(self) -> list[FunctionFailure]:
        """Return the functions of the user that raise now."""
        return [failure for source in self._sources() for failure in source.failing_functions()]

    def _sources(self) -> list[KindSource]:
        return [self._users, *([self._objects] if self._objects is not None else [])]

    async def aclose(self) -> None:
        """Remove the handlers; informers without other users stop. Idempotent."""
        self._closed = True
        self._stop_timer()
        await self._tasks.aclose()
        for source in self._sources():
            await source.aclose()

    def __repr__(self) -> str:
        return f"<ReferencedSource {self._kind.gvk}: {len(self.table)} referenced>"
