"""Time as a parameter: nothing in opsdk asks the operating system for the time except through this port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Timer(Protocol):
    """A call that is yet to come."""

    def cancel(self) -> None:
        """It shall not come; idempotent."""
        ...


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> float:
        """Seconds on a clock that never goes back; only differences mean anything."""
        ...

    def wall(self) -> datetime:
        """The time of day, aware, in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; zero or less yields to other tasks once."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` in so many seconds, from the event loop."""
        ...


class LoopClock:
    """The running event loop's time, and the system's time of day.

    Under ``opsdk.testing.VirtualLoop`` both waiting and `now` are virtual.
    """

    def now(self) -> float:
        """Seconds of the running loop."""
        return asyncio.get_running_loop().time()

    def wall(self) -> datetime:
        """The loop's own time of day where it has one (a virtual loop), else the system's."""
        virtual = getattr(asyncio.get_running_loop(), "wall", None)
        return virtual() if virtual is not None else datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """``asyncio.sleep``."""
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """The loop's own ``call_later``."""
        return asyncio.get_running_loop().call_later(seconds, callback)


LOOP_CLOCK: Clock = LoopClock()
"""The clock used wherever none is passed."""
