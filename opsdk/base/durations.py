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


def shown_seconds(seconds: float) -> str:
    """Return a time for a sentence, in the unit that a reader counts in.

    >>> [shown_seconds(seconds) for seconds in (0.005, 81.92, 119.0, 1000.0, 10_000.0, 200_000.0)]
    ['0.005 s', '81.9 s', '119 s', '17 min', '3 h', '2 days']
    """
    text = f"{seconds:.3g} s"
    for limit, unit, name in ((120.0, 60.0, "min"), (7200.0, 3600.0, "h"), (172_800.0, 86_400.0, "days")):
        if seconds < limit:
            return text
        text = f"{seconds / unit:.0f} {name}"
    return text
