"""Event sources that follow the clock: timers, and polls of systems that send no events.

Upstream: none; Java Operator SDK has a PollingEventSource.
"""

from __future__ import annotations

import asyncio
import copy
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import monotonic
from opsdk.aio.containment import cancellations, contain
from opsdk.aio.randomness import loop_random
from opsdk.aio.tasks import TaskOwner
from opsdk.base.cause import ReconcileCause
from opsdk.base.durations import as_seconds
from opsdk.errors import CacheSyncError, UsageError
from opsdk.event.handlers import is_async
from opsdk.event.sources import EventSource
from opsdk.queue.work_queue import WorkQueue
from opsdk.telemetry.failures import FunctionFailure, FunctionFailures
from opsdk.telemetry.safe_logger import SafeLogger

__all__ = ["PollSource", "TimerSource"]

log = SafeLogger(__name__)

Requests = Iterable[Hashable]
RequestsFunction = Callable[[], Requests] | Callable[[], Awaitable[Requests]]
PollFunction = Callable[[], Awaitable[Mapping[Any, object]]]


class _Periodic(EventSource):
    """Calls `_tick` at once, then every `interval` seconds. A failure is retried with backoff, at most `interval`."""

    def __init__(self, name: str, interval: float | timedelta, *, jitter: float, timeout: float) -> None:
        seconds = as_seconds(interval)
        if not seconds:
            raise UsageError(f"the interval of {name} is {interval}: pass more than 0 seconds")
        self.name = name
        self.interval = seconds
        self._jitter = jitter
        self._timeout = timeout
        self._failures = FunctionFailures(name)
        self._tasks = TaskOwner(name, on_error=self._on_crash)
        self._first_success = asyncio.Event()
        self._crash: BaseException | None = None

    @abstractmethod
    async def _tick(self, queue: WorkQueue[Any]) -> None:
        """Queue the requests that are due."""

    async def start(self, queue: WorkQueue[Any]) -> None:
        """Start the timer."""
        self._tasks.start(self._run(queue), name="run")

    async def _run(self, queue: WorkQueue[Any]) -> None:
        """Call the function at each interval. A failure is retried with a backoff."""
        retries = Backoff(base=min(1.0, self.interval), cap=self.interval, jitter=0.1, reset_after=0).start()
        task = asyncio.current_task()
        while True:
            before = cancellations(task)
            try:
                async with asyncio.timeout(self._timeout):
                    await self._tick(queue)
            except BaseException as error:  # noqa: BLE001 - a user function may raise anything
                contain(error, task=task, cancelling=before)
                self._failures.failed(self.name, "", error)
                await asyncio.sleep(retries.next(monotonic()))
                continue
            self._failures.succeeded(self.name, "")
            self._first_success.set()
            retries.reset()
            await asyncio.sleep(self.interval * (1 + self._jitter * loop_random().random()))

    def _on_crash(self, task: str, error: BaseException) -> None:
        log.critical("%s ended: %r", task, error, exc_info=error)
        self._crash = error

    def problem(self) -> str:
        """Return why the source ended; empty if it has not failed."""
        return f"{self!r} ended: {self._crash!r}" if self._crash is not None else ""

    def failing_functions(self) -> list[FunctionFailure]:
        """Return the function if its last call raised."""
        return self._failures.failing()

    async def wait_synced(self, timeout: float) -> None:  # noqa: ASYNC109 - the error says why
        """Return after the first successful call. Raises `CacheSyncError` after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._first_success.wait()
        except TimeoutError:
            failing = self._failures.failing()
            reason = failing[0].last_error if failing else None
            raise CacheSyncError(f"{self!r} has not succeeded within {timeout:g} s: {reason}") from reason

    async def aclose(self) -> None:
        """Stop the timer."""
        await self._tasks.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} every {self.interval:g} s>"


class TimerSource(_Periodic):
    """Queues requests at the start and then at an interval.

    Args:
        interval: seconds, or a timedelta.
        requests: the requests, or a function that returns them; it may be ``async``.
        name: for logs and causes.
        jitter: adds a random share of the interval, between 0 and this share.
        timeout: seconds for one call of the function.

    >>> from opsdk.event.request import Request
    >>> TimerSource(timedelta(hours=1), [Request("default", "report")], name="hourly")
    <TimerSource hourly every 3600 s>
    """

    def __init__(
        self,
        interval: float | timedelta,
        requests: Requests | RequestsFunction,
        *,
        name: str = "timer",
        jitter: float = 0.0,
        timeout: float = 60.0,
    ) -> None:
        super().__init__(name, interval, jitter=jitter, timeout=timeout)
        self._requests = requests if callable(requests) else list(requests)

    async def _tick(self, queue: WorkQueue[Any]) -> None:
        requests: Any = self._requests() if callable(self._requests) else self._requests
        if isinstance(requests, Awaitable):
            requests = await requests
        for request in list(requests):
            queue.add(request, cause=ReconcileCause(self.name))


class PollSource(_Periodic):
    """Polls a system without events, and queues the requests whose state has changed.

    The first poll queues every request. A failed poll changes nothing: it is retried, counted, and readiness says so.
    A change that is undone before the next poll is not seen: if that matters, let the reconciler return
    ``Result(requeue_after=...)`` too.

    Args:
        poll: an async function that returns the state of the system: a value for each request. Copies of the
            values are compared with ``==``. A request that is missing from the next result is queued as well.
        interval: seconds between two polls, or a timedelta.
        name: for logs and causes.
        jitter: adds a random share of the interval, between 0 and this share.
        timeout: seconds for one poll.
    """

    def __init__(
        self,
        poll: PollFunction,
        interval: float | timedelta,
        *,
        name: str = "poll",
        jitter: float = 0.1,
        timeout: float = 60.0,
    ) -> None:
        if not is_async(poll):
            raise UsageError(f"{poll!r} is not async: declare it with `async def`")
        super().__init__(name, interval, jitter=jitter, timeout=timeout)
        self._poll = poll
        self._state: Mapping[Hashable, object] = {}

    async def _tick(self, queue: WorkQueue[Any]) -> None:
        state = dict(await self._poll())
        for request in {**self._state, **state}:
            if request not in state:
                change = "delete"
            elif request not in self._state:
                change = "create"
            elif _differs(self._state[request], state[request]):
                change = "update"
            else:
                continue
            queue.add(request, cause=ReconcileCause(self.name, change))
        self._state = {request: _snapshot(value) for request, value in state.items()}


def _snapshot(value: object) -> object:
    """Return a copy, so that a value that is changed in place differs; the value itself if it has no equal copy."""
    try:
        copied = copy.deepcopy(value)
        is_equal = bool(copied == value)
    except BaseException as error:  # noqa: BLE001 - a class of the user may raise anything
        contain(error)
        return value
    return copied if is_equal else value


def _differs(before: object, after: object) -> bool:
    """Whether two values differ; True for values that cannot be compared."""
    try:
        return bool(before != after)
    except BaseException as error:  # noqa: BLE001 - as above
        contain(error)
        return True
