"""Passes events through predicates and a handler into a work queue.

What a handler could not map is retried, see `opsdk.event.handler_retries`.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Sequence
from typing import Any

from opsdk.aio.containment import cancellations, contain
from opsdk.aio.tasks import TaskOwner
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.errors import UsageError
from opsdk.event.event import AnyEvent, EventType, cause_of
from opsdk.event.handler_retries import HandlerRetries
from opsdk.event.handlers import Enqueue, EventHandler, Mapped
from opsdk.event.predicates import PredicateFunc, test_of
from opsdk.queue.core import LOW_PRIORITY
from opsdk.queue.work_queue import WorkQueue
from opsdk.telemetry.failures import FunctionFailures
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Seconds after which calls for other objects overtake an async handler's call, and after which the call fails.
_SLOW_CALL = 5.0
_MAP_TIMEOUT = 60.0
# Concurrent calls, once calls are slow.
_MAX_CONCURRENT = 16
# How `FunctionFailures` names the predicates of a source.
_PREDICATE_FUNCTION = "a predicate (its event passes)"


class EventDispatcher:
    """Feeds one queue with the requests for events, in the order of each object's events."""

    def __init__(self, name: str, handler: EventHandler, predicates: Sequence[PredicateFunc]) -> None:
        self.name = name
        self.handler = handler
        self._handler_name = repr(handler)
        self._tests = tuple(map(test_of, predicates))
        self.counts: Counter[str] = Counter()
        """Counters: event, dropped, predicate_error, handler_error, given_up."""
        self._queue: WorkQueue[Any] | None = None
        self.failures = FunctionFailures(f"source {name}")
        """The predicates and handlers that raise."""
        self._tasks = TaskOwner(f"source {name}", on_error=self._on_crash)
        self._waiting: deque[tuple[Awaitable[Mapped], AnyEvent]] = deque()
        self._in_flight: set[ObjectKey] = set()
        self._drainers: set[asyncio.Task[None]] = set()
        self._slow: set[asyncio.Task[None]] = set()
        """Those whose present call takes long."""
        self._retries = HandlerRetries(
            name,
            self._handler_name,
            tasks=self._tasks,
            try_event=self._try_map,
            forget=self.failures.forget,
            counts=self.counts,
        )
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
            self._failed(event, error)
            return
        # Awaited one after the other, so that a burst of events is not a burst of requests to the server. While a call
        # is slow, calls for other objects run too: a call that hangs must not stop them.
        self._waiting.append((mapped, event))
        if len(self._drainers) == len(self._slow):
            self._start_drainer()

    def _passes(self, event: AnyEvent) -> bool:
        """Whether all predicates pass an event. One that raises passes it."""
        passes = True
        try:
            for test in self._tests:
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
        """Record that the handler mapped a new event."""
        if self.failures.by_function:
            self._record_handled(event)
        if self._retries.pending:
            self._retries.succeeded(event)

    def _record_handled(self, event: AnyEvent) -> None:
        if event.type is EventType.DELETE:
            self.failures.forget(event.view.key)
        else:
            self.failures.succeeded(self._handler_name, event.view.key)

    def _start_drainer(self) -> None:
        if self._waiting and len(self._drainers) < _MAX_CONCURRENT:
            drainer = self._tasks.start(self._drain(), name="map")
            self._drainers.add(drainer)
            # It leaves the set itself, unless it is cancelled before its first step.
            drainer.add_done_callback(self._drainers.discard)

    async def _drain(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            while (item := self._next_waiting()) is not None:
                mapped, event = item
                self._in_flight.add(event.view.key)
                slow = asyncio.get_running_loop().call_later(_SLOW_CALL, self._note_slow, task)
                try:
                    await self._await_mapped(mapped, event)
                finally:
                    slow.cancel()
                    self._slow.discard(task)
                    self._in_flight.discard(event.view.key)
        finally:
            self._drainers.discard(task)

    def _note_slow(self, drainer: asyncio.Task[None]) -> None:
        """Let another task take the events that wait, and those that come: a call may hang."""
        self._slow.add(drainer)
        self._start_drainer()

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
            self._failed(event, error)

    # -------------------------------------------------------------- failed events
    def _failed(self, event: AnyEvent, error: BaseException) -> None:
        """Report a failed event, and try it again later."""
        self._report_failure(event, error)
        self._retries.add(event)

    def _report_failure(self, event: AnyEvent, error: BaseException) -> None:
        self.counts["handler_error"] += 1
        self.failures.failed(self._handler_name, event.view.key, error)

    @property
    def retries_events(self) -> bool:
        """Whether an event is waiting for another try."""
        return bool(self._retries.pending)

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
        self._retries.close()
        await self._tasks.aclose()

    def _on_crash(self, task: str, error: BaseException) -> None:
        log.critical("%s ended: %r", task, error, exc_info=error)
