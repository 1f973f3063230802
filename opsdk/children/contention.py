"""Slows an apply that another writer undoes repeatedly. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

_FREE: Final = 5
"""Writes of an unchanged desired object without a delay: repairs of single changes."""
_FIRST_DELAY: Final = 1.0
_MAX_DELAY: Final = 300.0
_CALM: Final = 60.0
"""Seconds after the end of a delay without such a write, after which counting starts again."""


class Contention(msgspec.Struct):
    """The writes of one unchanged desired object.

    >>> contention = Contention()
    >>> for second in range(5):
    ...     assert contention.wait(now=second) == 0.0
    ...     contention.written(now=second)
    >>> contention.wait(now=4.5)
    0.5
    """

    count: int = 0
    written_at: float = 0.0

    @property
    def delay(self) -> float:
        """Seconds between the last write and the next one."""
        if self.count < _FREE:
            return 0.0
        return min(_FIRST_DELAY * 2.0 ** min(self.count - _FREE, 20), _MAX_DELAY)

    @property
    def calm_at(self) -> float:
        """When counting starts again, if no write comes before."""
        return self.written_at + self.delay + _CALM

    def wait(self, *, now: float) -> float:
        """Return the seconds until the next write may be sent."""
        if self.count and now > self.calm_at:
            self.count = 0
        return max(self.written_at + self.delay - now, 0.0) if self.count else 0.0

    def written(self, *, now: float) -> None:
        """Count a write."""
        self.count += 1
        self.written_at = now
