"""The work queue for asyncio tasks, around `QueueCore`.

Upstream: k8s.io/client-go/util/workqueue/queue.go, rate_limiting_queue.go (v1.36)
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from opsdk.aio.clock import loop_time, monotonic
from opsdk.base.cause import ReconcileCause
from opsdk.queue.core import MAX_WAIT, QueueCore, QueueItem, QueueState, SavedItem
from opsdk.queue.fairness import Fairness
from opsdk.queue.flows import fair_order
from opsdk.queue.rate_limiters import ItemExponentialFailureRateLimiter, RateLimiter
from opsdk.telemetry.records import QueueHooks
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

K = TypeVar("K", bound=Hashable)

# Items that the queue of a standby replica keeps for sources that cannot list their requests again: 10,000 take 4 MB.
_STANDBY_LIMIT = 10_000


class ShutDownError(Exception):
    """Raised by `WorkQueue.get` after shutdown. Not an error to report."""


class WorkQueue(Generic[K]):
    """A queue of unique items with priorities, delays and rate limiting.

    `add` and similar methods are synchronous, for use in callbacks; `get` waits. Use it from one event loop.

    Args:
        name: for logs and metrics.
        rate_limiter: delays of `add_rate_limited`; default: per item from 5 ms to 1000 s.
        hooks: called for each event.
        item_type: class of the items; `EventDispatcher` refuses others.
        fairness: shares the workers between groups of items; None returns them in the order they became ready.
        max_wait: seconds that items wait for items of higher priorities, see `opsdk.queue.core`; 0 for no limit.

    Attributes:
        hooks: see above; may be set before the first event.
        keeps_traces: causes of events name the trace contexts of the writes that the events show.
    """

    def __init__(
        self,
        name: str = "",
        *,
        rate_limiter: RateLimiter[K] | None = None,
        hooks: QueueHooks | None = None,
        item_type: type[K] | None = None,
        fairness: Fairness | None = None,
        max_wait: float = MAX_WAIT,
    ) -> None:
        self.name = name
        self.item_type: type = item_type or object
        self.rate_limiter: RateLimiter[K] = (
            rate_limiter if rate_limiter is not None else ItemExponentialFailureRateLimiter()
        )
        order = fair_order(name, fairness, self.item_type) if fairness is not None else None
        self.core: QueueCore[K] = QueueCore(order, max_wait=max_wait)
        self.hooks = hooks
        self.keeps_traces = False
        self._clock: Callable[[], float] = monotonic
        self._getters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._standby = False
        self._on_activate: list[Callable[[], None]] = []

    # -------------------------------------------------------------- standby
    @property
    def standby(self) -> bool:
        """Whether no worker takes items yet, because this replica is not the leader."""
        return self._standby

    def stand_by(self) -> None:
        """Keep few items until `activate`: nothing takes them.

        A source that can list its requests adds none while `standby`, and all of them from `on_activate`. Of the items
        that other sources add, the newest 10,000 are kept.
        """
        self._standby = True
        self.core.limit = _STANDBY_LIMIT

    def activate(self) -> None:
        """End the standby. Idempotent."""
        if not self._standby:
            return
        self._standby = False
        self.core.limit = sys.maxsize
        if self.core.dropped:
            log.warning("queue %s dropped %d requests while this replica was a standby", self.name, self.core.dropped)
        callbacks, self._on_activate = self._on_activate, []
        for callback in callbacks:
            callback()

    def on_activate(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when the standby ends. It must not raise."""
        self._on_activate.append(callback)

    # -------------------------------------------------------------- pausing
    def pause(self) -> None:
        """Return no item until `resume`. Items may be added; workers finish those that they have. Idempotent."""
        self.core.paused = True

    def resume(self) -> None:
        """Return items again. Idempotent."""
        self.core.paused = False
        self._wake(monotonic())

    # -------------------------------------------------------------- checkpoints
    def hold(self) -> None:
        """Accept and return no items until `restore`. For an empty queue."""
        self.core.state = QueueState.HELD

    def restore(self, items: Iterable[SavedItem[K]]) -> None:
        """Open the queue with the items that `QueueCore.save` has returned."""
        now = monotonic()
        self.core.restore(items, now=now)
        self._wake(now)

    # -------------------------------------------------------------- adding
    def add(
        self,
        item: K,
        *,
        after: float = 0.0,
        priority: int = 0,
        cause: ReconcileCause | None = None,
        timer: bool = False,
    ) -> None:
        """Queue `item` for `after` seconds from now (see `QueueCore.add`). Does nothing after shutdown."""
        now = self._clock()
        if self.core.add(item, now=now, after=after, priority=priority, cause=cause, timer=timer) and self.hooks:
            self.hooks.added()
        self._wake(now)

    def add_rate_limited(self, item: K, *, priority: int = 0, cause: ReconcileCause | None = None) -> float:
        """Queue `item` after the rate limiter's delay. Returns the delay in seconds."""
        wait = self.next_delay(item)
        self.add(item, after=wait, priority=priority, cause=cause)
        return wait

    def next_delay(self, item: K, requested: float | None = None) -> float:
        """Count a failure of `item`. Returns the seconds until its next attempt: `requested`, or the rate limiter's."""
        wait = self.rate_limiter.when(item, now=monotonic())
        if self.hooks:
            self.hooks.retried()
        return wait if requested is None else requested

    def forget(self, item: K) -> None:
        """Reset the rate limiter for `item`, because it succeeded."""
        self.rate_limiter.forget(item)

    # -------------------------------------------------------------- taking
    def get_nowait(self) -> QueueItem[K] | None:
        """Return the next item, or None if none is ready."""
        return self._take(monotonic())

    def _take(self, now: float) -> QueueItem[K] | None:
        queue_item = self.core.take(now)
        if queue_item is not None and self.hooks:
            self.hooks.taken(queue_item.waited)
        return queue_item

    async def get(self) -> QueueItem[K]:
        """Wait for the next item and return it. Raises `ShutDownError` after shutdown.

        Call `done` for every item. Cancelling the wait loses no item.
        """
        if self._clock is monotonic:
            self._clock = loop_time()  # the queue belongs to the loop of its workers
        while True:
            now = self._clock()
            if (queue_item := self._take(now)) is not None:
                return queue_item
            if self.core.ended:
                raise ShutDownError(self.name)
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(waiter)
            self._wake(now)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake(monotonic())  # pass the wake-up to another worker
                raise
            finally:
                if waiter in self._getters:
                    self._getters.remove(waiter)

    def done(self, item: K) -> None:
        """Mark `item` as processed."""
        now = self._clock()
        worked = self.core.done(item, now=now)
        if self.hooks:
            self.hooks.finished(worked)
        self._wake(now)
        if self.core.ended:
            self._wake_workers(len(self._getters))
        if self._idle_waiters:
            self._notify_idle()

    def recover(self, item: K, *, after: float) -> None:
        """Mark `item` as processed, and queue it, after an exception of `add` or `done` (see `QueueCore.recover`)."""
        now = self._clock()
        self.core.recover(item, now=now, after=after)
        self._wake_workers(len(self._getters))
        self._arm_timer(now)
        self._notify_idle()

    def _wake(self, now: float) -> None:
        """Make due items ready, wake one waiting worker for each ready item, and set the timer for the next one."""
        if self.core.delayed:
            # Due items become ready also while no worker waits: else the timer below would be due repeatedly.
            self.core.advance(now)
        if self._getters and self.core.has_ready(now):
            self._wake_workers(len(self.core))
        if self.core.delayed or self._timer is not None:
            self._arm_timer(now)

    def _wake_workers(self, count: int) -> None:
        """Wake `count` of the waiting workers, or all if there are fewer."""
        while count and self._getters:
            waiter = self._getters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

    def _arm_timer(self, now: float) -> None:
        """Set the timer to the time of the next delayed item; remove it if there is none."""
        next_time = self.core.next_ready_at()
        if next_time == self._timer_at and self._timer is not None:
            return
        self._stop_timer()
        if next_time is not None:
            self._timer = asyncio.get_running_loop().call_later(max(next_time - now, 0.0), self._on_timer)
            self._timer_at = next_time

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._timer_at = None

    def _on_timer(self) -> None:
        self._timer = self._timer_at = None
        self._wake(monotonic())

    # -------------------------------------------------------------- ending
    def shut_down(self, *, drain: bool = False) -> None:
        """Accept no more items and wake all waiting workers. With `drain`, return the ready items first. Idempotent."""
        self.core.shut_down(drain=drain)
        self._wake_workers(len(self._getters))
        self._stop_timer()
        self._notify_idle()

    async def wait_idle(self) -> None:
        """Return when no item is ready or being processed."""
        while not self._is_idle():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(future)
            await future

    def _is_idle(self) -> bool:
        return not len(self.core) and not self.core.processing()

    def _notify_idle(self) -> None:
        if not self._idle_waiters or not self._is_idle():
            return
        waiting, self._idle_waiters = self._idle_waiters, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def __len__(self) -> int:
        """Return the number of ready items."""
        return len(self.core)

    def __repr__(self) -> str:
        return f"<WorkQueue {self.name} {self.core!r}>"
