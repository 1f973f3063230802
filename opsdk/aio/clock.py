"""The time of the running event loop. Under `opsdk.testing.loop.VirtualLoop` it is virtual."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime

_MAX_SOURCE_DIFFERENCE = 5.0
"""Seconds between a loop's time and the system's that have another reason than a callback that blocks."""
THREAD_LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("opsdk_thread_loop", default=None)
"""In a thread of `opsdk.aio.blocking`, the loop that waits for it."""


_SYSTEM_TIME = asyncio.BaseEventLoop.time
"""What asyncio's own loops have as `time`: a call of `time.monotonic`, which is made here without that method."""


def monotonic() -> float:
    """Return the running loop's time in seconds. Only differences between two values are meaningful."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        if (waiting := THREAD_LOOP.get()) is None:
            raise
        return waiting.time()
    return time.monotonic() if type(loop).time is _SYSTEM_TIME else loop.time()


def loop_time() -> Callable[[], float]:
    """Return `monotonic` of the running loop, for what reads it often in one loop: one call, not three."""
    loop = asyncio.get_running_loop()
    return time.monotonic if type(loop).time is _SYSTEM_TIME else loop.time


def time_source() -> Callable[[], float]:
    """Return the running loop's time as a function that works in any thread, and while the loop is blocked.

    What must not happen too late compares it: a write of a former leader.
    """
    loop = asyncio.get_running_loop()
    fresh: Callable[[], float] | None = getattr(loop, "fresh_time", None)
    if fresh is not None:
        return fresh
    # uvloop's time stands still while a callback runs, so it is replaced by its source. Virtual time has another one.
    follows_system = abs(loop.time() - time.monotonic()) < _MAX_SOURCE_DIFFERENCE
    return time.monotonic if follows_system and not is_virtual() else loop.time


def is_virtual() -> bool:
    """Whether the running loop has virtual time, which stands still while threads work."""
    return bool(getattr(asyncio.get_running_loop(), "is_virtual", False))


def utc_now() -> datetime:
    """Return the wall time as an aware datetime: the virtual loop's, on other loops and without one the system's."""
    # asyncio has no public function that returns None without a running loop.
    virtual = getattr(asyncio._get_running_loop() or THREAD_LOOP.get(), "wall", None)
    return virtual() if virtual is not None else datetime.now(UTC)
