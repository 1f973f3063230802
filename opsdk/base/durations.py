"""Times that users write, in seconds or as a timedelta."""

from __future__ import annotations

import math
from datetime import timedelta


def as_seconds(value: object) -> float | None:
    """Return a time in seconds, or None for a negative or infinite one, and for anything else.

    >>> as_seconds(timedelta(minutes=2)), as_seconds(0.5), as_seconds(-1), as_seconds("1h")
    (120.0, 0.5, None, None)
    """
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        return None
    return float(seconds)
