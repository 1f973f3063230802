"""A timeout for the waits of many tasks, with one timer.

`asyncio.timeout` sets a timer for each wait: 4 of the 100 microseconds of a reconcile with a request.
"""

from __future__ import annotations

import asyncio
from typing import Self


class SharedTimeout:
    """Limits waits, each in a block of its own. The timer is that of the wait that ends first.

    >>> async def main():
    ...     timeouts = SharedTimeout()
    ...     with LimitedWait(timeouts, 30.0):
    ...         await asyncio.sleep(0)
    """

    def __init__(self) -> None:
        self._waits: dict[LimitedWait, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def add(self, wait: LimitedWait, loop: asyncio.AbstractEventLoop) -> None:
        """A wait begins."""
        self._waits[wait] = None
        if self._timer is None or wait.until < self._timer_at:
            self._set_timer(wait.until, loop)

    def remove(self, wait: LimitedWait) -> None:
        """A wait has ended. The last one removes the timer."""
        self._waits.pop(wait, None)
        if not self._waits and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, until: float, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = until
        self._timer = loop.call_at(until, self._end_due)

    def _end_due(self) -> None:
        """End the waits whose time is over, and set the timer for the next one."""
        self._timer = None
        for wait in [wait for wait in self._waits if wait.until <= self._timer_at]:
            del self._waits[wait]
            wait.expire()
        if self._waits:
            self._set_timer(min(wait.until for wait in self._waits), asyncio.get_running_loop())

    def __repr__(self) -> str:
        return f"<SharedTimeout of {len(self._waits)} waits>"


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
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        self.until = loop.time() + self._seconds
        self._timeouts.add(self, loop)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._expired:
            self._timeouts.remove(self)
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
