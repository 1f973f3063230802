"""Event sources that follow the clock: timers, and polls of systems that send no events.

Upstream: none; Java Operator SDK has a PollingEventSource.
"""

from __future__ import annotations

import asyncio
import copy
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import Any

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import monotonic, utc_now
from opsdk.aio.containment import cancellations, contain
from opsdk.aio.named_sleep import named_sleep
from opsdk.aio.randomness import loop_random
from opsdk.aio.tasks import TaskOwner
from opsdk.base.cause import ReconcileCause
from opsdk.base.durations import as_seconds
from opsdk.base.place import caller_place
from opsdk.errors import CacheSyncError, UsageError
from opsdk.event.cron import CronSchedule
from opsdk.event.handlers import is_async
from opsdk.event.sources import EventSource
from opsdk.queue.work_queue import WorkQueue
from opsdk.telemetry.failures import FunctionFailure, FunctionFailures
from opsdk.telemetry.safe_logger import SafeLogger

__all__ = ["CronSource", "PollSource", "TimerSource"]

log = SafeLogger(__name__)

# The longest wait of a schedule before it looks at the clock again, and between retries, in seconds.
_CRON_STEP = 300.0
_CRON_RETRY = 300.0
# Seconds for which a standby replica keeps a tick: the former leader lived at earlier ones.
_KEEP_TICK = 60.0

Requests = Iterable[Hashable]
RequestsFunction = Callable[[], Requests] | Callable[[], Awaitable[Requests]]
PollFunction = Callable[[], Awaitable[Mapping[Any, object]]]


class _ClockSource(EventSource):
    """Calls `_tick` after each `_wait`. A failure is retried with a backoff."""

    def __init__(self, name: str, *, timeout: float, retry_cap: float) -> None:
        self.name = name
        self._timeout = timeout
        self._retry_cap = retry_cap
        self._failures = FunctionFailures(name)
        self._tasks = TaskOwner(name, on_error=self._on_crash)
        self._first_success = asyncio.Event()
        self._crash: BaseException | None = None

    @abstractmethod
    async def _tick(self, queue: WorkQueue[Any]) -> None:
        """Queue the requests that are due."""

    @abstractmethod
    async def _wait(self) -> None:
        """Return when the next tick is due."""

    async def start(self, queue: WorkQueue[Any]) -> None:
        """Start the timer."""
        self._tasks.start(self._run(queue), name="run")

    async def _run(self, queue: WorkQueue[Any]) -> None:
        """Call the function at each tick. A failure is retried with a backoff."""
        base = min(1.0, self._retry_cap)
        retries = Backoff(base=base, cap=self._retry_cap, jitter=0.1, reset_after=0).start()
        task = asyncio.current_task()
        await self._wait()
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
            await self._wait()

    def _on_crash(self, task: str, error: BaseException) -> None:
        log.critical("%s ended: %r", task, error, exc_info=error)
        self._crash = error

    def problem(self) -> str:
        """Return why the source ended; empty if it has not failed."""
        return f"{self!r} ended: {self._crash!r}" if self._crash is not None else ""

    def failing_functions(self) -> list[FunctionFailure]:
        """Return the function if its last call raised."""
        return self._failures.failing()

    async def wait_synced(self, timeout: float) -> None:
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


class _Periodic(_ClockSource):
    """Calls `_tick` at once, then every `interval` seconds. A failure is retried sooner."""

    def __init__(self, name: str, interval: float | timedelta, *, jitter: float, timeout: float) -> None:
        seconds = as_seconds(interval)
        if not seconds:
            raise UsageError(f"{caller_place()}: the interval of {name} is {interval!r}: pass more than 0 seconds")
        super().__init__(name, timeout=timeout, retry_cap=seconds)
        self.interval = seconds
        self._jitter = jitter
        self._is_first = True

    async def _wait(self) -> None:
        if self._is_first:
            self._is_first = False
        else:
            await named_sleep(f"timer {self.name}", self.interval * (1 + self._jitter * loop_random().random()))

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
        for request in await _current(self._requests):
            queue.add(request, cause=ReconcileCause(self.name))


class CronSource(_ClockSource):
    """Queues requests at the times of a cron schedule. Needs the extra ``cron``.

    The times are in the schedule's time zone, even if the clock of the process is changed. A time that passes while no
    replica leads is skipped, unless it was within the last minute.

    Args:
        schedule: see `CronSchedule`.
        requests: the requests, or a function that returns them; it may be ``async``. A failed call is retried.
        timezone: see `CronSchedule`.
        name: for logs and causes.
        timeout: seconds for one call of the function.

    Raises:
        UsageError: schedule or time zone is wrong, or the schedule matches no time.
        ConfigError: the extra is not installed.

    >>> from opsdk.event.request import Request
    >>> CronSource("0 3 * * *", [Request("default", "report")], timezone="Europe/Berlin", name="nightly")
    <CronSource nightly at 0 3 * * *, Europe/Berlin>
    """

    def __init__(
        self,
        schedule: str,
        requests: Requests | RequestsFunction,
        *,
        timezone: str | tzinfo = "UTC",
        name: str = "cron",
        timeout: float = 60.0,
    ) -> None:
        super().__init__(name, timeout=timeout, retry_cap=_CRON_RETRY)
        self.schedule = CronSchedule(schedule, timezone=timezone)
        self._requests = requests if callable(requests) else list(requests)
        self._last: datetime | None = None
        self._standby_tick: float | None = None
        self.schedule.next(utc_now())  # raises if it matches no time

    async def start(self, queue: WorkQueue[Any]) -> None:
        """Start the timer. A standby replica queues nothing, except what is due shortly before it leads."""
        if queue.standby:
            queue.on_activate(partial(self._activate, queue))
        self._first_success.set()  # the first time of the schedule may be months away
        await super().start(queue)

    def _activate(self, queue: WorkQueue[Any]) -> None:
        if self._standby_tick is not None and monotonic() - self._standby_tick < _KEEP_TICK:
            self._tasks.start(self._tick(queue), name="missed tick")

    async def _wait(self) -> None:
        now = utc_now()
        self._last = due = self.schedule.next(max(now, self._last) if self._last is not None else now)
        # In steps: the clock may be set, or the machine suspended, in which the loop's time stands still.
        while (remaining := (due - utc_now()).total_seconds()) > 0:  # noqa: ASYNC110 - nothing announces a new time
            await asyncio.sleep(min(remaining, _CRON_STEP))

    async def _tick(self, queue: WorkQueue[Any]) -> None:
        if queue.standby:
            self._standby_tick = monotonic()
            return
        for request in await _current(self._requests):
            queue.add(request, cause=ReconcileCause(self.name, detail=self.schedule.text))

    def __repr__(self) -> str:
        return f"<CronSource {self.name} at {self.schedule.text}, {self.schedule.zone}>"


async def _current(requests: Requests | RequestsFunction) -> list[Hashable]:
    """Return requests, or those that a function returns now."""
    current: Any = requests() if callable(requests) else requests
    return list(await current if isinstance(current, Awaitable) else current)


class PollSource(_Periodic):
    """Polls a system without events, and queues the requests whose state has changed.

    The first poll queues every request. A failed poll changes nothing: it is retried, counted, and shown by readiness.
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
            raise UsageError(f"{caller_place()}: {poll!r} is not async: declare it with `async def`")
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
