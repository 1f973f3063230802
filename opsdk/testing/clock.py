"""A clock that advances only when the test advances it, on any event loop."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_TURNS = 10_000
"""Loop iterations after which `settle` gives up on tasks that never wait."""
_BLIND_TURNS = 200
"""Loop iterations on a loop that does not expose its ready queue."""


async def settle() -> None:
    """Return when every task waits for a timer, a socket or a thread."""
    ready = getattr(asyncio.get_running_loop(), "_ready", None)
    quiet = 0
    for _ in range(_BLIND_TURNS if ready is None else _TURNS):
        await asyncio.sleep(0)
        quiet = quiet + 1 if ready is not None and not ready else 0
        if quiet > 1:
            return


class ManualTimer:
    """A scheduled call of a `ManualClock`."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def __repr__(self) -> str:
        return f"<ManualTimer {self.callback or 'cancelled'}>"

    def fire(self) -> None:
        """Call the callback once, unless it was cancelled."""
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()

    def cancel(self) -> None:
        """See `opsdk.aio.clock.Timer`."""
        self.callback = None


class ManualClock:
    """A `Clock` that `advance` moves.

    >>> async def main():
    ...     clock = ManualClock()
    ...     nap = asyncio.ensure_future(clock.sleep(3600))
    ...     await clock.advance(3599)
    ...     before = nap.done()
    ...     await clock.advance(1)
    ...     return before, nap.done()
    >>> asyncio.run(main())
    (False, True)
    """

    def __init__(self, start: datetime = _EPOCH) -> None:
        self._start = start
        self._now = 0.0
        self._timers: list[tuple[float, int, ManualTimer]] = []
        self._order = count()

    def __repr__(self) -> str:
        return f"<ManualClock at {self.wall():%Y-%m-%d %H:%M:%S}, {len(self._timers)} timers>"

    def now(self) -> float:
        """Return the seconds since the clock was created."""
        return self._now

    def wall(self) -> datetime:
        """Return the clock's UTC time."""
        return self._start + timedelta(seconds=self._now)

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has moved by `seconds`."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, lambda: None if done.done() else done.set_result(None))
        try:
            await done
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> ManualTimer:
        """See `opsdk.aio.clock.Clock`."""
        timer = ManualTimer(callback)
        if seconds <= 0:
            asyncio.get_running_loop().call_soon(timer.fire)
        else:
            heapq.heappush(self._timers, (self._now + seconds, next(self._order), timer))
        return timer

    async def advance(self, seconds: float) -> None:
        """Move the clock by `seconds`. Timers fire in order, and `settle` runs after each."""
        if seconds < 0:
            raise ValueError(f"time does not go back: {seconds} s")
        end = self._now + seconds
        await settle()
        while self._timers and self._timers[0][0] <= end:
            due, _, timer = heapq.heappop(self._timers)
            if timer.callback is None:
                continue
            self._now = max(self._now, due)
            timer.fire()
            await settle()
        self._now = end
        await settle()
