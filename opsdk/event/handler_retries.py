"""Retries the events that a handler could not map.

A failing handler is retried with growing delays, so an outage loses no event. While it fails, later changes of the same
object are combined: the handler gets one event from the oldest pending state to the newest. After that succeeds, the
events in between are retried a few more times. A state that the handler can never map does not block later ones.

A live object is retried until it is mapped, in a task of its own. All deleted objects share one task. A deletion is
retried 12 times, in about seven minutes, and at most 10,000 of them at a time: the memory is bounded by live objects,
not by names that ever lived.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable

import msgspec
from msgspec.structs import replace

from opsdk.aio.backoff import Backoff, BackoffState
from opsdk.aio.clock import monotonic
from opsdk.aio.tasks import TaskOwner
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.event.event import AnyEvent, EventType
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Delays of retries: short at first, then five minutes.
_RETRY_BACKOFF = Backoff(base=0.1, factor=2.0, cap=300.0, jitter=0.1, reset_after=0)
# Pending events of one object while its handler fails. Above this, events in the middle are dropped.
_MAX_PENDING = 64
# Failures of one event while newer ones succeed (about half a minute) before it is dropped.
_MAX_FAILURES = 8
# Retries of a deletion, and deleted objects with retries; above this the oldest one is dropped.
_MAX_DELETE_FAILURES = 12
_MAX_DELETED = 10_000
# Seconds between two messages about dropped events.
_LOG_EVERY = 60.0


class _PendingEvent(msgspec.Struct):
    """An event that the handler failed to map."""

    event: AnyEvent
    failures: int = 0


class _PendingRetries(msgspec.Struct):
    """The pending events of one object, oldest first."""

    events: list[_PendingEvent] = msgspec.field(default_factory=list)
    last_success: AnyEvent | None = None
    """Latest event handled successfully; tells a poison event from a handler outage."""
    waits: BackoffState = msgspec.field(default_factory=_RETRY_BACKOFF.start)
    task: asyncio.Task[None] | None = None
    failures: int = 0
    """Failed attempts since the newest event."""

    @property
    def deleted(self) -> bool:
        """Whether the newest event is a deletion."""
        return bool(self.events) and self.events[-1].event.type is EventType.DELETE

    def merged(self) -> AnyEvent:
        """Return one event from the first pending state to the last."""
        first, last = self.events[0].event, self.events[-1].event
        if last.type is EventType.DELETE or first is last:
            return last
        if first.type is EventType.DELETE:  # deleted, then created again
            return replace(last, type=EventType.UPDATE, old=first.old)
        return replace(last, type=EventType.CREATE if first.old is None else EventType.UPDATE, old=first.old)


class HandlerRetries:
    """The failed events of one handler, by object.

    Args:
        name: of the source, for the log.
        handler: text of the handler, for the log.
        tasks: run the retries.
        try_event: maps an event again, and returns whether that succeeded.
        forget: called with the key of a deletion that is dropped.
        counts: gets ``given_up``.

    Attributes:
        pending: the objects with failed events.
    """

    def __init__(
        self,
        name: str,
        handler: str,
        *,
        tasks: TaskOwner,
        try_event: Callable[[AnyEvent], Awaitable[bool]],
        forget: Callable[[ObjectKey], None],
        counts: Counter[str],
    ) -> None:
        self._name, self._handler_name = name, handler
        self._tasks = tasks
        self._try = try_event
        self._forget = forget
        self._counts = counts
        self.pending: dict[ObjectKey, _PendingRetries] = {}
        self._deleted: dict[ObjectKey, asyncio.TimerHandle] = {}
        """Keys of `pending` whose object is deleted, the oldest first, each with the timer of its next try."""
        self._due: deque[ObjectKey] = deque()
        self._deleted_task: asyncio.Task[None] | None = None
        self._drop_logged_at: float | None = None
        self._closed = False

    def succeeded(self, event: AnyEvent) -> None:
        """Record that the handler mapped a new event: older events do not fail because of an outage."""
        if (retries := self.pending.get(event.view.key)) is not None:
            if retries.last_success is None:
                retries.waits.reset()
            retries.last_success = event

    def close(self) -> None:
        """Try nothing again. The owner of the tasks ends them."""
        self._closed = True
        for timer in self._deleted.values():
            timer.cancel()

    def add(self, event: AnyEvent) -> None:
        """Keep a failed event, and try it again later. Deleted objects wait without a task."""
        if self._closed:
            return
        key = event.view.key
        retries = self.pending.get(key)
        if retries is None:
            retries = self.pending[key] = _PendingRetries()
        retries.events.append(_PendingEvent(event))
        retries.last_success = None
        retries.failures = 0
        if (timer := self._deleted.pop(key, None)) is not None:
            timer.cancel()
        if retries.deleted:
            if retries.task is not None:
                retries.task.cancel()
                retries.task = None
            retries.waits.reset()
            self._wait_deleted(key, retries)
            if len(self._deleted) > _MAX_DELETED:
                self._drop_deleted(next(iter(self._deleted)))
        elif retries.task is None:
            retries.task = self._tasks.start(self._retry(key, retries), name=f"retry {key}")
        if len(retries.events) > _MAX_PENDING:
            self._give_up(retries, retries.events[_MAX_PENDING // 2], "too many of its events wait for another try")

    async def _retry(self, key: ObjectKey, retries: _PendingRetries) -> None:
        while retries.events:
            await asyncio.sleep(retries.waits.next(monotonic()))
            await self._attempt(retries)
        # No await since the last check of the events, so none is lost.
        del self.pending[key]

    async def _attempt(self, retries: _PendingRetries) -> None:
        """Try the newest pending state of an object, and after it the events in between."""
        pending = list(retries.events)
        handled = await self._try_newest(retries)
        if handled is None:
            retries.failures += 1
            return
        for item in pending:
            if item not in retries.events:
                continue
            succeeded = item.event is handled or await self._try(item.event)
            if item not in retries.events:
                continue  # more events than are kept have failed in the meantime
            if succeeded:
                retries.events.remove(item)
                continue
            item.failures += 1
            if item.failures >= _MAX_FAILURES:
                self._give_up(retries, item, "it failed repeatedly, and newer events were handled")
        if retries.events and retries.events[-1] not in pending:
            retries.last_success = None  # an event added in the meantime has failed as well
        elif retries.last_success is None:
            retries.last_success = handled

    async def _try_newest(self, retries: _PendingRetries) -> AnyEvent | None:
        """Try the merged event, then its last step. Returns the event that succeeded, or None."""
        if retries.last_success is not None:
            return retries.last_success if await self._try(retries.last_success) else None
        merged, last = retries.merged(), retries.events[-1].event
        for event in (merged,) if merged is last else (merged, last):
            if await self._try(event):
                retries.waits.reset()
                return event
        return None

    def _give_up(self, retries: _PendingRetries, item: _PendingEvent, reason: str) -> None:
        retries.events.remove(item)
        self._counts["given_up"] += 1
        log.error("source %s drops %s: %s", self._name, item.event.view, reason)

    # -------------------------------------------------------------- failed events of deleted objects
    def _wait_deleted(self, key: ObjectKey, retries: _PendingRetries) -> None:
        wait = retries.waits.next(monotonic())
        self._deleted[key] = asyncio.get_running_loop().call_later(wait, lambda: self._on_due(key))

    def _on_due(self, key: ObjectKey) -> None:
        self._due.append(key)
        if self._deleted_task is None and not self._closed:
            self._deleted_task = self._tasks.start(self._retry_deleted(), name="retry deleted objects")

    async def _retry_deleted(self) -> None:
        """Try the events of the deleted objects that are due, one object after the other."""
        while self._due:
            key = self._due.popleft()
            retries = self.pending.get(key)
            if key not in self._deleted or retries is None:
                continue
            timer = self._deleted[key]
            await self._attempt(retries)
            if self._deleted.get(key) is not timer:
                continue  # a newer event of the object has failed in the meantime, and waits for its own time
            if not retries.events:
                del self.pending[key], self._deleted[key]
            elif retries.failures >= _MAX_DELETE_FAILURES:
                self._drop_deleted(key)
            else:
                self._wait_deleted(key, retries)
        self._deleted_task = None

    def _drop_deleted(self, key: ObjectKey) -> None:
        """Retry the events of a deleted object no longer."""
        retries = self.pending.pop(key)
        self._deleted.pop(key).cancel()
        self._counts["given_up"] += len(retries.events)
        self._forget(key)
        now = monotonic()
        if self._drop_logged_at is None or now - self._drop_logged_at >= _LOG_EVERY:
            self._drop_logged_at = now
            log.error("source %s drops the deletion of %s: %s still raises for it", self._name, key, self._handler_name)
