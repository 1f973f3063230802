"""A timeout on a clock. ``asyncio.timeout`` follows the event loop, which a test's clock need not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from opsdk.aio.clock import Clock, Timer


class ClockTimeoutError(TimeoutError):
    """A `timeout` has passed. Tells it from a ``TimeoutError`` of the block itself."""


class ClockTimeout:
    """A running timeout."""

    def __init__(self, clock: Clock, scope: asyncio.Timeout) -> None:
        self._clock = clock
        self._scope = scope
        self._timer: Timer | None = None

    def restart(self, seconds: float | None) -> None:
        """Let the timeout pass `seconds` from now; None: never."""
        if self._timer is not None:
            self._timer.cancel()
        # asyncio handles the cancellation; only the moment comes from the clock.
        self._timer = None if seconds is None else self._clock.call_later(seconds, self._expire)

    def _expire(self) -> None:
        self._scope.reschedule(0.0)

    def expired(self) -> bool:
        """Whether this timeout has passed."""
        return self._scope.expired()


@asynccontextmanager
async def timeout(clock: Clock, seconds: float | None) -> AsyncIterator[ClockTimeout]:
    """Cancel the block after `seconds` of `clock` and raise `ClockTimeoutError`; None sets no limit.

    >>> async def main():
    ...     async with timeout(LOOP_CLOCK, 1.0) as running:
    ...         await asyncio.sleep(0)
    ...     return running.expired()
    >>> from opsdk.aio.clock import LOOP_CLOCK
    >>> asyncio.run(main())
    False
    """
    scope = asyncio.timeout(None)
    running = ClockTimeout(clock, scope)
    try:
        async with scope:
            running.restart(seconds)
            try:
                yield running
            finally:
                running.restart(None)
    except TimeoutError as error:
        if not scope.expired():
            raise
        raise ClockTimeoutError(f"{seconds:g} s have passed" if seconds is not None else "timed out") from error
