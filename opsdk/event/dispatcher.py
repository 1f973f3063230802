"""Passes events through predicates and a handler into a work queue.

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
from collections.abc import Awaitable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from opsdk.aio.backoff import Backoff, BackoffState
from opsdk.aio.clock import monotonic
from opsdk.aio.containment import cancellations, contain
from opsdk.aio.tasks import TaskOwner
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.errors import UsageError
from opsdk.event.event import AnyEvent, EventType, cause_of
from opsdk.event.handlers import Enqueue, EventHandler, Mapped
from opsdk.event.predicates import PredicateFunc
from opsdk.queue.core import LOW_PRIORITY
from opsdk.queue.work_queue import WorkQueue
from opsdk.telemetry.failures import FunctionFailures
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Delays of retries: short at first, then five minutes.
_RETRY_BACKOFF = Backoff(base=0.1, factor=2.0, cap=300.0, jitter=0.1, reset_after=0)
# Seconds after which calls for other objects overtake an async handler's call, and after which the call fails.
_SLOW_CALL = 5.0
_MAP_TIMEOUT = 60.0
# Concurrent calls, once calls are slow.
_MAX_CONCURRENT = 16
# Pending events of one object while its handler fails. Above this, events in the middle are dropped.
_MAX_PENDING = 64
# Failures of one event while newer ones succeed (about half a minute) before it is dropped.
_MAX_FAILURES = 8
# Retries of a deletion, and deleted objects with retries; above this the oldest one is dropped.
_MAX_DELETE_FAILURES = 12
_MAX_DELETED = 10_000
# Seconds between two messages about dropped events.
_LOG_EVERY = 60.0
# How `FunctionFailures` names the predicates of a source.
_PREDICATE_FUNCTION = "a predicate (its event passes)"


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


class EventDispatcher:
    """Feeds one queue with the requests for events, in the order of each object's events."""

    def __init__(self, name: str, handler: EventHandler, predicates: Sequence[PredicateFunc]) -> None:
        self.name = name
        self.handler = handler
        self._handler_name = repr(handler)
        self.predicates = tuple(predicates)
        self.counts: Counter[str] = Counter()
        """Counters: event, dropped, predicate_error, handler_error, given_up."""
        self._queue: WorkQueue[Any] | None = None
        self.failures = FunctionFailures(f"source {name}")
        """The predicates and handlers that raise."""
        self._tasks = TaskOwner(f"source {name}", on_error=self._on_crash)
        self._waiting: deque[tuple[Awaitable[Mapped], AnyEvent]] = deque()
        self._in_flight: set[ObjectKey] = set()
        self._drainers: set[asyncio.Task[None]] = set()
        self._pending_retries: dict[ObjectKey, _PendingRetries] = {}
        self._deleted: dict[ObjectKey, asyncio.TimerHandle] = {}
        """Keys of `_pending_retries` whose object is deleted, the oldest first, each with the timer of its next try."""
        self._due: deque[ObjectKey] = deque()
        self._deleted_task: asyncio.Task[None] | None = None
        self._drop_logged_at: float | None = None
        self._closed = False

    def bind(self, queue: WorkQueue[Any]) -> None:
        """Set the queue. Raises `UsageError` on a second call."""
        if self._queue is not None:
            raise UsageError(f"the source {self.name} is already started: create one source for each controller")
        self._queue = queue

    # -------------------------------------------------------------- new events
    def dispatch(self, event: AnyEvent) -> None:
        """Handle one event."""
        if self._closed:
            return
        self.counts["event"] += 1
        if not self._passes(event):
            self.counts["dropped"] += 1
            if event.type is EventType.DELETE and self.failures.by_function:
                self.failures.forget(event.view.key)
            return
        try:
            mapped = self.handler.requests(event)
            if isinstance(mapped, tuple) or not isinstance(mapped, Awaitable):  # nearly all are tuples
                self._enqueue(mapped, event)
                self._record_success(event)
                return
        except BaseException as error:  # noqa: BLE001 - a user function may raise anything
            contain(error)
            self._schedule_retry(event, error)
            return
        # Awaited one after the other, so that a burst of events is not a burst of requests to the server. While a call
        # is slow, calls for other objects run too: a call that hangs must not stop them.
        self._waiting.append((mapped, event))
        if not self._drainers:
            self._start_drainer()

    def _passes(self, event: AnyEvent) -> bool:
        """Whether all predicates pass an event. One that raises passes it."""
        passes = True
        try:
            for test in self.predicates:
                if not test(event):
                    passes = False
                    break
        except BaseException as error:  # noqa: BLE001 - a user function may raise anything
            contain(error)
            # A superfluous event is harmless, a lost one is not.
            self.counts["predicate_error"] += 1
            self.failures.failed(_PREDICATE_FUNCTION, event.view.key, error)
            return True
        if self.failures.by_function:
            self.failures.succeeded(_PREDICATE_FUNCTION, event.view.key)
        return passes

    def _enqueue(self, mapped: Mapped, event: AnyEvent) -> None:
        """Queue what the handler returned. Raises `UsageError`, and queues nothing, if one is not a request."""
        assert self._queue is not None
        # As a list first: a lazy result raises here, inside the error handling.
        requests = [item if isinstance(item, Enqueue) else Enqueue(request=item) for item in mapped or ()]
        for item in requests:
            if not isinstance(item.request, self._queue.item_type):
                raise UsageError(
                    f"a handler returned {item.request!r}: return {self._queue.item_type.__name__}s, such as "
                    "Request(namespace, name)"
                )
        if not requests:
            return
        default = LOW_PRIORITY if event.initial or event.resync else 0
        cause = cause_of(event, traced=self._queue.keeps_traces)
        for item in requests:
            priority = default if item.priority is None else item.priority
            if item.rate_limited:
                self._queue.add_rate_limited(item.request, priority=priority, cause=cause)
            else:
                self._queue.add(item.request, after=item.after, priority=priority, cause=cause)

    def _record_success(self, event: AnyEvent) -> None:
        """Record that the handler succeeded for a new event: older events do not fail because of an outage."""
        if self.failures.by_function:
            self._record_handled(event)
        if self._pending_retries and (retries := self._pending_retries.get(event.view.key)) is not None:
            if retries.last_success is None:
                retries.waits.reset()
            retries.last_success = event

    def _record_handled(self, event: AnyEvent) -> None:
        if event.type is EventType.DELETE:
            self.failures.forget(event.view.key)
        else:
            self.failures.succeeded(self._handler_name, event.view.key)

    def _start_drainer(self) -> None:
        if self._waiting and len(self._drainers) < _MAX_CONCURRENT:
            self._drainers.add(self._tasks.start(self._drain(), name="map"))

    async def _drain(self) -> None:
        try:
            while (item := self._next_waiting()) is not None:
                mapped, event = item
                self._in_flight.add(event.view.key)
                overtake = asyncio.get_running_loop().call_later(_SLOW_CALL, self._start_drainer)
                try:
                    await self._await_mapped(mapped, event)
                finally:
                    overtake.cancel()
                    self._in_flight.discard(event.view.key)
        finally:
            self._drainers.discard(asyncio.current_task())

    def _next_waiting(self) -> tuple[Awaitable[Mapped], AnyEvent] | None:
        """Return the first event whose object has no earlier one in flight."""
        for number, item in enumerate(self._waiting):
            if item[1].view.key not in self._in_flight:
                del self._waiting[number]
                return item
        return None

    async def _await_mapped(self, mapped: Awaitable[Mapped], event: AnyEvent) -> None:
        task = asyncio.current_task()
        before = cancellations(task)
        try:
            async with asyncio.timeout(_MAP_TIMEOUT):
                requests = await mapped
            self._enqueue(requests, event)
            self._record_success(event)
        except BaseException as error:  # noqa: BLE001 - as in dispatch
            contain(error, task=task, cancelling=before)
            self._schedule_retry(event, error)

    # -------------------------------------------------------------- failed events
    def _schedule_retry(self, event: AnyEvent, error: BaseException) -> None:
        """Keep a failed event, and call the function again later. Deleted objects wait without a task."""
        self._report_failure(event, error)
        if self._closed:
            return
        key = event.view.key
        retries = self._pending_retries.get(key)
        if retries is None:
            retries = self._pending_retries[key] = _PendingRetries()
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
            self._give_up(retries, retries.events[_MAX_PENDING // 2])

    def _report_failure(self, event: AnyEvent, error: BaseException) -> None:
        self.counts["handler_error"] += 1
        self.failures.failed(self._handler_name, event.view.key, error)

    async def _retry(self, key: ObjectKey, retries: _PendingRetries) -> None:
        while retries.events:
            await asyncio.sleep(retries.waits.next(monotonic()))
            await self._attempt(retries)
        # No await since the last check of the events, so none is lost.
        del self._pending_retries[key]

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
            if item.event is handled or await self._try_map(item.event):
                retries.events.remove(item)
                continue
            item.failures += 1
            if item.failures >= _MAX_FAILURES:
                self._give_up(retries, item)
        if retries.events and retries.events[-1] not in pending:
            retries.last_success = None  # an event added in the meantime has failed as well
        elif retries.last_success is None:
            retries.last_success = handled

    @property
    def retries_events(self) -> bool:
        """Whether an event is waiting for another try."""
        return bool(self._pending_retries)

    # -------------------------------------------------------------- failed events of deleted objects
    def _wait_deleted(self, key: ObjectKey, retries: _PendingRetries) -> None:
        wait = retries.waits.next(monotonic())
        self._deleted[key] = asyncio.get_running_loop().call_later(wait, lambda: self._on_due(key))

    def _on_due(self, key: ObjectKey) -> None:
        self._due.append(key)
        if self._deleted_task is None and not self._closed:
            self._deleted_task = self._tasks.start(self._retry_deleted(), name="retry deleted objects")

    async def _retry_deleted(self) -> None:
        """Call the function again for the deleted objects that are due, one after the other."""
        while self._due:
            key = self._due.popleft()
            retries = self._pending_retries.get(key)
            if key not in self._deleted or retries is None:
                continue
            timer = self._deleted[key]
            await self._attempt(retries)
            if self._deleted.get(key) is not timer:
                continue  # a newer event of the object has failed in the meantime, and waits for its own time
            if not retries.events:
                del self._pending_retries[key], self._deleted[key]
            elif retries.failures >= _MAX_DELETE_FAILURES:
                self._drop_deleted(key)
            else:
                self._wait_deleted(key, retries)
        self._deleted_task = None

    async def _try_newest(self, retries: _PendingRetries) -> AnyEvent | None:
        """Try the merged event, then its last step. Returns the event that succeeded, or None."""
        if retries.last_success is not None:
            return retries.last_success if await self._try_map(retries.last_success) else None
        merged, last = retries.merged(), retries.events[-1].event
        for event in (merged,) if merged is last else (merged, last):
            if await self._try_map(event):
                retries.waits.reset()
                return event
        return None

    def _give_up(self, retries: _PendingRetries, item: _PendingEvent) -> None:
        retries.events.remove(item)
        self.counts["given_up"] += 1
        log.error("source %s drops %s after repeated failures; newer events were handled", self.name, item.event.view)

    def _drop_deleted(self, key: ObjectKey) -> None:
        """Retry the events of a deleted object no longer."""
        retries = self._pending_retries.pop(key)
        self._deleted.pop(key).cancel()
        self.counts["given_up"] += len(retries.events)
        self.failures.forget(key)
        now = monotonic()
        if self._drop_logged_at is None or now - self._drop_logged_at >= _LOG_EVERY:
            self._drop_logged_at = now
            log.error("source %s drops the deletion of %s: %s still raises for it", self.name, key, self._handler_name)

    async def _try_map(self, event: AnyEvent) -> bool:
        task = asyncio.current_task()
        before = cancellations(task)
        try:
            async with asyncio.timeout(_MAP_TIMEOUT):
                mapped = self.handler.requests(event)
                requests = await mapped if isinstance(mapped, Awaitable) else mapped
            self._enqueue(requests, event)
            self._record_handled(event)
        except BaseException as error:  # noqa: BLE001 - as in dispatch
            contain(error, task=task, cancelling=before)
            self._report_failure(event, error)
            return False
        return True

    # -------------------------------------------------------------- closing
    async def wait_mapped(self) -> None:
        """Return when every event so far is mapped, or waits for a retry."""
        while self._drainers:
            await asyncio.wait(tuple(self._drainers))

    async def aclose(self) -> None:
        """Handle no more events. Idempotent."""
        self._closed = True
        for mapped, _ in self._waiting:
            if asyncio.iscoroutine(mapped):
                mapped.close()
        self._waiting.clear()
        for timer in self._deleted.values():
            timer.cancel()
        await self._tasks.aclose()

    def _on_crash(self, task: str, error: BaseException) -> None:
        log.critical("%s ended: %r", task, error, exc_info=error)
