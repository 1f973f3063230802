"""The queue that tasks wait on: a thin asyncio shell around `QueueCore`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from opsdk.aio.clock import LOOP_CLOCK, Clock, Timer
from opsdk.queue.core import QueueCore, QueueItem, QueueState
from opsdk.queue.rate_limiters import ItemExponentialFailureRateLimiter, RateLimiter

K = TypeVar("K", bound=Hashable)


class QueueHooks(Protocol):
    """What happens in a queue, for metrics; see `opsdk.telemetry`."""

    def added(self) -> None:
        """An item was queued."""
        ...

    def taken(self, waited: float) -> None:
        """An item was handed out after so many seconds of being ready."""
        ...

    def finished(self, worked: float) -> None:
        """A worker was done after so many seconds."""
        ...

    def retried(self) -> None:
        """An item was queued again after a failure."""
        ...


class ShutDownError(Exception):
    """The queue hands out nothing any more. Raised by `get`; not an error to report."""


class WorkQueue(Generic[K]):
    """Items for workers, deduplicated, by priority, delayed and rate-limited.

    `add` and its kin are synchronous and may be called from callbacks; `get` waits. All from one event loop.

    Args:
        name: for logs and metrics.
        rate_limiter: how long `add_rate_limited` waits; per item from 5 ms to 1000 s by default.
    """

    def __init__(
        self,
        name: str = "",
        *,
        rate_limiter: RateLimiter[K] | None = None,
        clock: Clock = LOOP_CLOCK,
        hooks: QueueHooks | None = None,
    ) -> None:
        self.name = name
        self.rate_limiter: RateLimiter[K] = (
            rate_limiter if rate_limiter is not None else ItemExponentialFailureRateLimiter()
        )
        self.core: QueueCore[K] = QueueCore()
        self._clock = clock
        self._hooks = hooks
        self._getters: deque[asyncio.Future[None]] = deque()
        self._timer: Timer | None = None
        self._timer_at: float | None = None
        self._idle: list[asyncio.Future[None]] = []

    # -------------------------------------------------------------- adding
    def add(self, item: K, *, after: float = 0.0, priority: int = 0) -> None:
        """Queue `item` for `after` seconds from now; see `QueueCore.add`. Ignored after shutdown."""
        if self.core.add(item, now=self._clock.now(), after=after, priority=priority) and self._hooks:
            self._hooks.added()
        self._wake()

    def add_rate_limited(self, item: K, *, priority: int = 0) -> float:
        """Queue `item` after the wait its failures call for; returns that wait in seconds."""
        wait = self.rate_limiter.when(item, now=self._clock.now())
        if self._hooks:
            self._hooks.retried()
        self.add(item, after=wait, priority=priority)
        return wait

    def forget(self, item: K) -> None:
        """The item succeeded: its next failure waits the shortest time again."""
        self.rate_limiter.forget(item)

    # -------------------------------------------------------------- taking
    def get_nowait(self) -> QueueItem[K] | None:
        """The next item, or None if none is ready."""
        queue_item = self.core.take(self._clock.now())
        if queue_item is not None and self._hooks:
            self._hooks.taken(queue_item.waited)
        return queue_item

    async def get(self) -> QueueItem[K]:
        """The next item, waiting for one; raises `ShutDownError` when there will be none.

        Call `done` for every item taken. Cancelling the wait loses nothing.
        """
        while True:
            if (queue_item := self.get_nowait()) is not None:
                return queue_item
            if self.core.state is not QueueState.OPEN:
                raise ShutDownError(self.name)
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(waiter)
            self._wake()
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake()  # the wake-up was meant for a worker that is gone: pass it on
                raise
            finally:
                if waiter in self._getters:
                    self._getters.remove(waiter)

    def done(self, item: K) -> None:
        """The worker has finished `item`."""
        worked = self.core.done(item, now=self._clock.now())
        if self._hooks:
            self._hooks.finished(worked)
        self._wake()
        self._tell_idle()

    def _wake(self) -> None:
        """Wake as many waiting workers as there are ready items, and set the timer for the next delayed one."""
        now = self._clock.now()
        ready = len(self.core) if self.core.has_ready(now) else 0
        while ready and self._getters:
            waiter = self._getters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                ready -= 1
        self._set_timer(now)

    def _set_timer(self, now: float) -> None:
        next_time = self.core.next_ready_at()
        if next_time == self._timer_at and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._timer_at = None
        if next_time is not None:
            self._timer = self._clock.call_later(max(next_time - now, 0.0), self._on_timer)
            self._timer_at = next_time

    def _on_timer(self) -> None:
        self._timer = self._timer_at = None
        self._wake()

    # -------------------------------------------------------------- ending
    def shut_down(self, *, drain: bool = False) -> None:
        """Take nothing more and wake every waiting worker; with `drain`, hand out what is ready first. Idempotent."""
        self.core.shut_down(drain=drain)
        while self._getters:
            waiter = self._getters.popleft()
            if not waiter.done():
                waiter.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._timer_at = None
        self._tell_idle()

    async def wait_idle(self) -> None:
        """Return when nothing is ready and nothing is at work."""
        while not self._is_idle():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(future)
            await future

    def _is_idle(self) -> bool:
        return not len(self.core) and not self.core.processing()

    def _tell_idle(self) -> None:
        if self._is_idle():
            waiting, self._idle = self._idle, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    def __len__(self) -> int:
        """How many items are ready."""
        return len(self.core)

    def __repr__(self) -> str:
        return f"<WorkQueue {self.name} {self.core!r}>"


Factory = Callable[[str], WorkQueue[K]]
"""Makes the queue of a controller from its name."""
