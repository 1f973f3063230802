"""A future that is done at a time of a clock: waits beside other futures, and is set again when it rang."""

from __future__ import annotations

import asyncio

from opsdk.aio.clock import Clock, Timer


class Alarm:
    """Rings at `at`, by ``clock.now()``.

    Attributes:
        future: done when it rang.
    """

    future: asyncio.Future[None]
    _timer: Timer

    def __init__(self, clock: Clock, at: float) -> None:
        self._clock = clock
        self.set(at)

    def __repr__(self) -> str:
        return f"<Alarm{' that rang' if self.fired else ''}>"

    @property
    def fired(self) -> bool:
        """Whether the time has come."""
        return self.future.done()

    def set(self, at: float) -> None:
        """Ring (again) at another time."""
        self.future = asyncio.get_running_loop().create_future()
        self._timer = self._clock.call_later(max(at - self._clock.now(), 0.0), self._ring)

    def _ring(self) -> None:
        if not self.future.done():
            self.future.set_result(None)

    def cancel(self) -> None:
        """It shall not ring any more."""
        self._timer.cancel()
        self.future.cancel()
