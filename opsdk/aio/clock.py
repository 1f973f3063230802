"""The clock Protocol. opsdk reads the time only through it, so tests can run in virtual time.

Upstream: k8s.io/utils/clock
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call. Idempotent."""
        ...


class Clock(Protocol):
    """Source of time for the whole SDK."""

    def now(self) -> float:
        """Return monotonic seconds. Only differences between two values are meaningful."""
        ...

    def wall(self) -> datetime:
        """Return the current UTC time as an aware datetime."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait `seconds`. Zero or less yields to other tasks once."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` from the event loop after `seconds`."""
        ...


class LoopClock:
    """Uses the running event loop's time and the system's wall clock.

    Under `opsdk.testing.loop.VirtualLoop` all methods use virtual time.
    """

    def __init__(self) -> None:
        # The loop that read the time last, and its clock.
        self._bound: tuple[object, Callable[[], float]] = (None, time.monotonic)

    def now(self) -> float:
        """Return the running loop's time in seconds."""
        bound, read = self._bound
        loop = asyncio.get_running_loop()
        if bound is not loop:
            read = _time_source(loop)
            self._bound = (loop, read)
        return read()

    def wall(self) -> datetime:
        """Return the loop's own wall time if it has one (virtual loop), else the system's."""
        virtual = getattr(asyncio.get_running_loop(), "wall", None)
        return virtual() if virtual is not None else datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Call ``asyncio.sleep``."""
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call the loop's ``call_later``."""
        return asyncio.get_running_loop().call_later(seconds, callback)


class SingleLoopClock(LoopClock):
    """A `LoopClock` for the event loop that runs when it is made. Reading it takes a fifth of the time.

    A reconcile with one write reads the time twenty times.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = _time_source(asyncio.get_running_loop())  # type: ignore[method-assign]  # a method would add a call


def _time_source(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """Return the loop's clock. The `time` of asyncio's own loops only calls `time.monotonic`."""
    return time.monotonic if type(loop).time is asyncio.BaseEventLoop.time else loop.time


# Seconds by which a loop's time may differ from the system's monotonic clock, and still follow it.
_MAX_SOURCE_DIFFERENCE = 5.0

LOOP_CLOCK: Clock = LoopClock()
"""The default clock."""


def now_in_threads(clock: Clock) -> Callable[[], float]:
    """Return ``clock.now`` as a function that works in any thread, and while the event loop is blocked.

    Call it inside the running event loop.
    """
    # `LoopClock.now` keeps the time of a loop that is not asyncio's, such as uvloop's: timers of that loop fire by its
    # time, so ends of timeouts must too. A thread that watches the loop needs the time that goes on.
    if not isinstance(clock, LoopClock):
        return clock.now
    loop = asyncio.get_running_loop()
    # uvloop's time stands still while a callback runs, so it is replaced by its source. Virtual time has another one.
    ordinary = not hasattr(loop, "wall") and abs(loop.time() - time.monotonic()) < _MAX_SOURCE_DIFFERENCE
    return time.monotonic if ordinary else loop.time
