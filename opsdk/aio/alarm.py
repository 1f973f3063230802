"""An asyncio future that completes at a given time of a clock."""

from __future__ import annotations

import asyncio

from opsdk.aio.clock import Clock, Timer


class Alarm:
    """Completes `future` when ``clock.now()`` reaches `at`. Create it inside a running event loop.

    Attributes:
        future: done after the alarm has fired; wait for it together with other futures.
    """

    future: asyncio.Future[None]
    _timer: Timer

    def __init__(self, clock: Clock, at: float) -> None:
        self._clock = clock
        self.set(at)

    def __repr__(self) -> str:
        return f"<Alarm {'fired' if self.fired else 'set'}>"

    @property
    def fired(self) -> bool:
        """Whether the time has been reached."""
        return self.future.done()

    def set(self, at: float) -> None:
        """Replace `future` and fire at the time `at`."""
        future = self.future = asyncio.get_running_loop().create_future()
        delay = max(at - self._clock.now(), 0.0)
        self._timer = self._clock.call_later(delay, lambda: None if future.done() else future.set_result(None))

    def cancel(self) -> None:
        """Cancel the timer and `future`."""
        self._timer.cancel()
        self.future.cancel()
