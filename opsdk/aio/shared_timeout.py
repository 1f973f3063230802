"""A timeout for the waits of many tasks, with one timer.

`asyncio.timeout` sets a timer for each wait: 4 of the 100 microseconds of a reconcile with a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Self

from opsdk.aio.clock import loop_time, monotonic


class SharedTimeout:
    """Limits waits, each in a block of its own. The timer is that of the wait that ends first.

    >>> async def main():
    ...     timeouts = SharedTimeout()
    ...     with LimitedWait(timeouts, 30.0):
    ...         await asyncio.sleep(0)

    Waits of one time are in one event loop. A second loop, such as that of another `asyncio.run`, gets its own timer.

    Attributes:
        waits: those that have begun.
        timer_at: when the timer is due; infinite without a timer.
        loop: of the waits; None before the first.
        clock: its time.
    """

    def __init__(self) -> None:
        self.waits: dict[LimitedWait, None] = {}
        self.timer_at = inf
        self.loop: asyncio.AbstractEventLoop | None = None
        self.clock: Callable[[], float] = monotonic
        self._timer: asyncio.TimerHandle | None = None

    def move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve the waits of the running loop from now on. A timer of the former loop ends no wait of this one."""
        self.close()
        self.loop, self.clock = loop, loop_time()

    def set_timer(self, until: float) -> None:
        """Let the timer be due at a time of the loop's clock."""
        assert self.loop is not None
        if self._timer is not None:
            self._timer.cancel()
        self.timer_at = until
        self._timer = self.loop.call_at(until, self._end_due)

    def close(self) -> None:
        """Remove the timer. Idempotent.

        It is not removed before: a timer for each request of one worker would take 3 % of a reconcile's CPU.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self.timer_at = None, inf

    def _end_due(self) -> None:
        """End the waits whose time is over, and set the timer for the next one."""
        due, self._timer, self.timer_at = self.timer_at, None, inf
        for wait in [wait for wait in self.waits if wait.until <= due]:
            del self.waits[wait]
            wait.expire()
        if self.waits:
            self.set_timer(min(wait.until for wait in self.waits))

    def __repr__(self) -> str:
        return f"<SharedTimeout of {len(self.waits)} waits>"


class LimitedWait:
    """One wait: a block. Leaving it raises `TimeoutError` if the wait took too long.

    A cancellation by others stays one.

    Args:
        timeouts: of the waits that share a timer.
        seconds: how long the block may last.

    Attributes:
        until: the time of the loop's clock at which the wait ends.
    """

    __slots__ = ("_cancelling", "_expired", "_seconds", "_task", "_timeouts", "until")

    def __init__(self, timeouts: SharedTimeout, seconds: float) -> None:
        self._timeouts, self._seconds = timeouts, seconds
        self._expired = False

    def __enter__(self) -> Self:
        timeouts = self._timeouts
        loop = asyncio.get_running_loop()
        if timeouts.loop is not loop:
            timeouts.move_to(loop)
        task = asyncio.current_task(loop)
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        self.until = timeouts.clock() + self._seconds
        timeouts.waits[self] = None
        if self.until < timeouts.timer_at:
            timeouts.set_timer(self.until)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._expired:
            self._timeouts.waits.pop(self, None)
            return
        # As in `asyncio.timeout`: another cancellation may have come in the same moment, and wins.
        if self._task.uncancel() <= self._cancelling and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise TimeoutError

    def expire(self) -> None:
        """Cancel the wait: its time is over."""
        self._expired = True
        self._task.cancel()

    def __repr__(self) -> str:
        return f"<LimitedWait of {self._seconds:g} s>"
