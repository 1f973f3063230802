"""A timeout on a clock. ``asyncio.timeout`` follows the event loop, which a test's clock need not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from opsdk.aio.clock import Clock


@asynccontextmanager
async def timeout(clock: Clock, seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
    """Cancel the block after `seconds` of `clock` and raise ``TimeoutError``; None sets no limit.

    The yielded scope's ``expired()`` tells this timeout from a ``TimeoutError`` of the block itself.

    >>> async def main():
    ...     async with timeout(LOOP_CLOCK, 1.0) as scope:
    ...         await asyncio.sleep(0)
    ...     return scope.expired()
    >>> from opsdk.aio.clock import LOOP_CLOCK
    >>> asyncio.run(main())
    False
    """
    async with asyncio.timeout(None) as scope:
        # asyncio handles the cancellation; only the moment comes from the clock.
        timer = None if seconds is None else clock.call_later(seconds, lambda: scope.reschedule(0.0))
        try:
            yield scope
        finally:
            if timer is not None:
                timer.cancel()
