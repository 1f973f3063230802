"""When an operator is at rest. Pure: the caller passes the time."""

from __future__ import annotations

import math

__all__ = ["Rest"]


class Rest:
    """Whether an operator has written nothing for a while.

    Args:
        quiet: seconds without a write.
        longest: seconds from the beginning, after which a run goes on in any case.

    Attributes:
        last_write: time of the last write, or of the beginning.

    >>> rest = Rest(quiet=60.0)
    >>> rest.begin(0.0)
    >>> rest.note_write(30.0)
    >>> rest.is_reached(60.0), rest.is_reached(90.0)
    (False, True)
    """

    def __init__(self, *, quiet: float, longest: float = math.inf) -> None:
        self.quiet = quiet
        self._longest = longest
        self._began = self.last_write = 0.0
        self._wrote = False

    def begin(self, now: float) -> None:
        """Begin to wait: the quiet time starts now."""
        self._began = self.last_write = now
        self._wrote = False

    def note_write(self, now: float) -> None:
        """Note a write: the quiet time starts anew."""
        self.last_write, self._wrote = now, True

    def is_reached(self, now: float) -> bool:
        """Whether the quiet time is over."""
        # Not the difference: after a sleep of the quiet time it may be a little less than that.
        return now >= self.last_write + self.quiet

    def is_overdue(self, now: float) -> bool:
        """Whether the longest time is over."""
        return now - self._began >= self._longest

    def due(self, now: float) -> float:
        """Return when to look next: at the end of the quiet time, from now if it is over, or of the longest time."""
        quiet_at = (now if self.is_reached(now) else self.last_write) + self.quiet
        return min(quiet_at, self._began + self._longest)

    def wrote_within(self, seconds: float, now: float) -> bool:
        """Whether there was a write in the last seconds, and after the beginning."""
        return self._wrote and now - self.last_write < seconds
