"""The event loop of a recorded operator: it counts its iterations, and all callbacks of one see the same time."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from opsdk.aio.repeatable_loop import RepeatableLoop

__all__ = ["CLOCK_RESOLUTION", "EPOCH", "RecordingLoop"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
CLOCK_RESOLUTION: Final = 1e-9
"""Seconds by which timers are early. A constant: a replay has the same timers ready in an iteration on any system."""
_WALL_STEP: Final = 50_000
"""Microseconds between the system's clock and the loop's from which on the clock counts as set."""
_IDLE_SECONDS: Final = 1e-5
"""A timer that is due sooner may be due now: times are rounded."""
_WALL_CHECK: Final = 1_000_000
"""Microseconds between two looks at the system's clock."""


class _CountingSelector(selectors.DefaultSelector):
    """A selector that notes number and time of each iteration. The loop selects once in each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.iteration = 0
        self.origin = time.monotonic()
        self.micros = 0
        self.time = 0.0
        self.wall = time.time_ns() // 1000
        self.on_iteration: Callable[[int], None] | None = None
        self.on_wall: Callable[[int, int], None] | None = None
        self.on_idle: Callable[[], None] | None = None
        self.has_arrivals: Callable[[], bool] = bool
        self._next_check = _WALL_CHECK

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.on_idle is not None and (timeout is None or timeout > _IDLE_SECONDS) and not self.has_arrivals():
            self.on_idle()
        if timeout:
            # The loop has computed the timeout from the time at which this iteration began.
            timeout = max(timeout - (time.monotonic() - self.origin - self.time), 0.0)
        ready = super().select(timeout)
        before = self.micros
        self.micros = max(int((time.monotonic() - self.origin) * 1e6), before)
        self.time = self.micros / 1e6
        self.iteration += 1
        if self.on_iteration is not None:
            self.on_iteration(self.micros - before)
        if self.micros >= self._next_check:
            self._check_wall()
        return ready

    def _check_wall(self) -> None:
        self._next_check = self.micros + _WALL_CHECK
        wall = time.time_ns() // 1000 - self.micros
        if abs(wall - self.wall) > _WALL_STEP:
            self.wall = wall
            if self.on_wall is not None:
                self.on_wall(self.iteration, wall)


class RecordingLoop(RepeatableLoop):
    """An event loop whose run can be repeated from a recording.

    Its time stands still during an iteration, as that of libuv does, and has microseconds. So all that a callback
    learns from the clock is one number for each iteration.

    Attributes:
        on_iteration: called in each iteration, with the microseconds since the one before.
    """

    def __init__(self) -> None:
        self._counting = _CountingSelector()
        super().__init__(self._counting)
        self._counting.has_arrivals = lambda: bool(self._arrivals)

    @property
    def iteration(self) -> int:
        """The number of the loop's iteration."""
        return self._counting.iteration

    @property
    def wall_origin(self) -> int:
        """The UTC time at time 0 of the loop, in microseconds since 1970."""
        return self._counting.wall

    def observe(
        self,
        on_iteration: Callable[[int], None],
        on_wall: Callable[[int, int], None],
        on_idle: Callable[[], None] | None = None,
    ) -> None:
        """Report iterations and steps of the system's clock from now on.

        Args:
            on_iteration: called with the microseconds since the iteration before.
            on_wall: called with the iteration, and the new UTC time at time 0 of the loop.
            on_idle: called before the loop waits: all tasks wait, and this iteration is over.
        """
        self._counting.on_iteration, self._counting.on_wall = on_iteration, on_wall
        self._counting.on_idle = on_idle

    @property
    def _clock_resolution(self) -> float:
        return CLOCK_RESOLUTION

    @_clock_resolution.setter
    def _clock_resolution(self, value: float) -> None:
        """Ignore the base class's value."""

    def time(self) -> float:
        """Return the seconds since the loop was created, as of the begin of this iteration."""
        return self._counting.time

    def fresh_time(self) -> float:
        """Return the seconds since the loop was created, also while a callback runs. A replay has the others only."""
        return time.monotonic() - self._counting.origin

    def wall(self) -> datetime:
        """Return the UTC time, as of the begin of this iteration."""
        return EPOCH + timedelta(microseconds=self._counting.wall + self._counting.micros)

    def __repr__(self) -> str:
        return f"<RecordingLoop in iteration {self.iteration}>"
