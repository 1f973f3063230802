"""Events through predicates and a handler into a queue: what every source of events does.

A handler that raises is asked again, with growing waits, until it answers: no event is lost to an outage. If the
object changes meanwhile, the handler is asked about the way from the oldest state it did not see to the newest one;
once it answers that, the states in between are asked about too, a few more times. So a state that the handler can
never map does not block the ones after it, and a state that it can map is not skipped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace

from opsdk.aio.backoff import Backoff, BackoffState
from opsdk.aio.clock import Clock
from opsdk.aio.tasks import TaskOwner
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.errors import UsageError
from opsdk.event.event import AnyEvent, EventType
from opsdk.event.request import Request
from opsdk.handlers import EventHandler, Mapped
from opsdk.predicates import PredicateFunc
from opsdk.queue.core import LOW_PRIORITY
from opsdk.queue.work_queue import WorkQueue

log = logging.getLogger(__name__)

# Soon at first, then every five minutes.
_RETRY = Backoff(base=0.1, factor=2.0, cap=300.0, jitter=0.1, reset_after=0)
# States remembered of one object while its handler fails; beyond, those in the middle are given up.
_MAX_PENDING = 64
# So often a state may fail while newer ones go through, over about half a minute: then it is the state's fault.
_MAX_FAILURES = 8


@dataclass(slots=True)
class _PendingEvent:
    """An event that the handler did not answer for."""

    event: AnyEvent
    failures: int = 0


@dataclass(slots=True)
class _PendingRetries:
    """What the handler still has to answer for one object, oldest first."""

    states: list[_PendingEvent] = field(default_factory=list)
    last_success: AnyEvent | None = None
    """A newer event that the handler answered for: if it does so again, what fails is the state's own fault."""
    waits: BackoffState = field(default_factory=_RETRY.start)

    def merged(self) -> AnyEvent:
        """One event for the way from the first state to the last."""
        first, last = self.states[0].event, self.states[-1].event
        if last.type is EventType.DELETE or first is last:
            return last
        if first.type is EventType.DELETE:  # deleted, and made again
            return replace(last, type=EventType.UPDATE, old=first.old)
        return replace(last, type=EventType.CREATE if first.old is None else EventType.UPDATE, old=first.old)


class EventDispatcher:
    """Feeds one queue with the requests for events, in order."""

    def __init__(self, name: str, handler: EventHandler, predicates: Sequence[PredicateFunc], clock: Clock) -> None:
        self.name = name
        self.handler = handler
        self.predicates = tuple(predicates)
        self.counts: Counter[str] = Counter()
        """How often: event, dropped, predicate_error, handler_error, given_up."""
        self._clock = clock
        self._queue: WorkQueue[Request] | None = None
        self._tasks = TaskOwner(f"source {name}", on_error=self._on_crash)
        self._waiting: deque[tuple[Awaitable[Mapped], AnyEvent]] = deque()
        self._drainer: asyncio.Task[None] | None = None
        self._pending_retries: dict[ObjectKey, _PendingRetries] = {}
        self._closed = False

    def bind(self, queue: WorkQueue[Request]) -> None:
        """Feed `queue`; once."""
        if self._queue is not None:
            raise UsageError(f"the source {self.name} is started already: give each controller its own")
        self._queue = queue

    # -------------------------------------------------------------- new events
    def dispatch(self, event: AnyEvent) -> None:
        """Something happened."""
        if self._closed:
            return
        self.counts["event"] += 1
        if not self._passes(event):
            self.counts["dropped"] += 1
            return
        try:
            mapped = self.handler.requests(event)
            if not isinstance(mapped, Awaitable):
                self._enqueue(_checked(mapped), event)
                self._record_success(event)
                return
        except Exception as error:  # noqa: BLE001 - the user's function: anything may come out of it
            self._schedule_retry(event, error)
            return
        # Asked one after the other, so that a burst of events is not a burst of questions to the server.
        self._waiting.append((mapped, event))
        if self._drainer is None:
            self._drainer = self._tasks.start(self._drain(), name="map")

    def _passes(self, event: AnyEvent) -> bool:
        try:
            return all(test(event) for test in self.predicates)
        except Exception:
            # One event too many does no harm, one too few does.
            self.counts["predicate_error"] += 1
            log.exception("a predicate of source %s raised at %s: the event passes", self.name, event.view)
            return True

    def _enqueue(self, found: Sequence[Request], event: AnyEvent) -> None:
        assert self._queue is not None
        priority = LOW_PRIORITY if event.initial or event.resync else 0
        for request in found:
            self._queue.add(request, priority=priority)

    def _record_success(self, event: AnyEvent) -> None:
        """The handler answered for a new event: it need not answer for the way to older ones first."""
        if (owed := self._pending_retries.get(event.view.key)) is not None:
            if owed.last_success is None:
                owed.waits.reset()
            owed.last_success = event

    async def _drain(self) -> None:
        try:
            while self._waiting:
                mapped, event = self._waiting.popleft()
                try:
                    self._enqueue(_checked(await mapped), event)
                    self._record_success(event)
                except asyncio.CancelledError as error:
                    if _is_cancelled():
                        raise
                    self._schedule_retry(event, error)  # the function let a cancellation of its own escape
                except Exception as error:  # noqa: BLE001 - as in feed
                    self._schedule_retry(event, error)
        finally:
            self._drainer = None

    # -------------------------------------------------------------- failed events
    def _schedule_retry(self, event: AnyEvent, error: BaseException) -> None:
        self._report_failure(event, error)
        if self._closed:
            return
        key = event.view.key
        owed = self._pending_retries.get(key)
        if owed is None:
            owed = self._pending_retries[key] = _PendingRetries()
            self._tasks.start(self._retry(key, owed), name=f"retry {key}")
        owed.states.append(_PendingEvent(event))
        owed.last_success = None
        if len(owed.states) > _MAX_PENDING:
            self._give_up(owed, owed.states[_MAX_PENDING // 2])

    def _report_failure(self, event: AnyEvent, error: BaseException) -> None:
        self.counts["handler_error"] += 1
        log.error(
            "the handler of source %s raised at %s; it will be asked again", self.name, event.view, exc_info=error
        )

    async def _retry(self, key: ObjectKey, owed: _PendingRetries) -> None:
        while owed.states:
            await self._clock.sleep(owed.waits.next(self._clock.now()))
            pending = list(owed.states)
            answered = await self._ask_newest(owed)
            if answered is None:
                continue
            for state in pending:
                if state.event is answered or await self._try(state.event):
                    owed.states.remove(state)
                    continue
                state.failures += 1
                if state.failures >= _MAX_FAILURES:
                    self._give_up(owed, state)
            if owed.states and owed.states[-1] not in pending:
                owed.last_success = None  # what came in meanwhile failed: it has its own way to go
            elif owed.last_success is None:
                owed.last_success = answered
        # Nothing was awaited since the last look at the states: none can be left behind.
        del self._pending_retries[key]

    async def _ask_newest(self, owed: _PendingRetries) -> AnyEvent | None:
        """Ask for the whole way, else for its last step; the event that was answered, or None."""
        if owed.last_success is not None:
            return owed.last_success if await self._try(owed.last_success) else None
        whole, last = owed.merged(), owed.states[-1].event
        for event in (whole,) if whole is last else (whole, last):
            if await self._try(event):
                owed.waits.reset()
                return event
        return None

    def _give_up(self, owed: _PendingRetries, state: _PendingEvent) -> None:
        owed.states.remove(state)
        self.counts["given_up"] += 1
        log.error("source %s gives up %s; newer states go through", self.name, state.event.view)

    async def _try(self, event: AnyEvent) -> bool:
        try:
            mapped = self.handler.requests(event)
            self._enqueue(_checked(await mapped if isinstance(mapped, Awaitable) else mapped), event)
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            self._report_failure(event, error)
            return False
        except Exception as error:  # noqa: BLE001 - as in feed
            self._report_failure(event, error)
            return False
        return True

    # -------------------------------------------------------------- the end
    async def wait_mapped(self) -> None:
        """Return when every event so far is mapped, or waits for a retry."""
        while self._drainer is not None:
            await asyncio.wait([self._drainer])

    async def aclose(self) -> None:
        """Feed nothing more. Idempotent."""
        self._closed = True
        for mapped, _ in self._waiting:
            if asyncio.iscoroutine(mapped):
                mapped.close()
        self._waiting.clear()
        await self._tasks.aclose()

    def _on_crash(self, task: str, error: BaseException) -> None:
        log.critical("%s ended: %r", task, error, exc_info=error)


def _checked(found: Mapped | None) -> list[Request]:
    """The requests as a list, so that a lazy answer fails here, where failures are looked after."""
    requests = list(found or ())
    for request in requests:
        if not isinstance(request, Request):
            raise UsageError(f"a handler answered {request!r}: it must answer Requests, e.g. Request(namespace, name)")
    return requests


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
