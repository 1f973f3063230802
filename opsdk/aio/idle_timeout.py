"""A timeout for many waits, one after the other, with one timer.

`asyncio.timeout` sets a timer for each wait: 16 of the 331 calls of functions that an event cost.
"""

from __future__ import annotations

import asyncio

from opsdk.aio.clock import loop_time


class IdleTimeout:
    """Limits each wait of one task at a time. Enter it for a wait; close it after the last one.

    >>> async def main():
    ...     idle, never = IdleTimeout(30.0), asyncio.Event()
    ...     try:
    ...         with idle:
    ...             await never.wait()
    ...     finally:
    ...         idle.close()

    Make it in the loop that runs. Leaving the block raises `TimeoutError` if the wait took too long. A cancellation by
    others stays one.

    Args:
        seconds: of one wait; None for no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._clock = loop_time()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[object] | None = None
        self._since = 0.0
        self._cancelling = 0
        self._expired = False

    def __enter__(self) -> None:
        if self.seconds is None:
            return
        self._waiting = task = asyncio.current_task(self._loop)
        assert task is not None
        self._cancelling = task.cancelling()
        self._since = self._clock()
        if self._timer is None:
            self._set_timer(self._since + self.seconds)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        task, self._waiting = self._waiting, None
        if not self._expired or task is None:
            return
        self._expired = False
        # As in `asyncio.timeout`: another cancellation may have come in the same moment, and wins.
        if task.uncancel() <= self._cancelling and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise TimeoutError

    def close(self) -> None:
        """Remove the timer. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, when: float) -> None:
        self._timer = self._loop.call_at(when, self._check)

    def _check(self) -> None:
        """Cancel the current wait if it took too long. For a wait that began later, set the timer again."""
        self._timer = None
        if self._waiting is None or self.seconds is None:
            return
        until = self._since + self.seconds
        if until > self._clock():
            self._set_timer(until)
            return
        self._expired = True
        self._waiting.cancel()
