"""The time of the running event loop. Under `opsdk.testing.loop.VirtualLoop` it is virtual."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from datetime import UTC, datetime

THREAD_LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("opsdk_thread_loop", default=None)
"""In a thread of `opsdk.aio.blocking`, the loop that waits for it."""


def monotonic() -> float:
    """Return the running loop's time in seconds. Only differences between two values are meaningful."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        if (loop := THREAD_LOOP.get()) is None:
            raise
        return loop.time()


def utc_now() -> datetime:
    """Return the wall time as an aware datetime: the virtual loop's, on other loops and without one the system's."""
    # asyncio has no public function that returns None without a running loop.
    virtual = getattr(asyncio._get_running_loop() or THREAD_LOOP.get(), "wall", None)  # noqa: SLF001
    return virtual() if virtual is not None else datetime.now(UTC)
