"""Durations, sizes, rates and places as short texts. Pure."""

from __future__ import annotations

import re
from pathlib import PurePath

# How the journal begins the detail of a failed reconcile; the console has a column for the time.
_RETRY = re.compile(r"retry in \S+ (?:s|min|h|days): ")

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
_KILO = 1000.0
_MANY = 10.0


def duration(seconds: float | None) -> str:
    """Return a duration in at most five characters; ``-`` for none.

    >>> [duration(seconds) for seconds in (0.0042, 1.234, 42, 90, 5400, 150_000, None)]
    ['4ms', '1.2s', '42s', '90s', '90m', '42h', '-']
    """
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * _KILO:.0f}ms"
    if seconds < _MANY:
        return f"{seconds:.1f}s"
    for limit, unit, name in ((2 * _MINUTE, 1.0, "s"), (2 * _HOUR, _MINUTE, "m"), (2 * _DAY, _HOUR, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f}{name}"
    return f"{seconds / _DAY:.0f}d"


def size(number: float) -> str:
    """Return a number of bytes in at most six characters.

    >>> [size(number) for number in (0, 628, 54_849_536, 2_100_000_000)]
    ['0B', '628B', '55MB', '2.1GB']
    """
    amount, unit = float(number), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if amount < _KILO:
            break
        amount, unit = amount / _KILO, larger
    return f"{amount:.1f}{unit}" if unit != "B" and amount < _MANY else f"{amount:.0f}{unit}"


def count(number: float) -> str:
    """Return a number in at most five characters.

    >>> [count(number) for number in (0, 9999, 12_345, 3_400_000)]
    ['0', '9999', '12k', '3.4M']
    """
    if abs(number) < _MANY * _KILO:
        return f"{number:.0f}"
    amount, unit = float(number), ""
    for larger in ("k", "M", "G", "T"):
        if abs(amount) < _KILO:
            break
        amount, unit = amount / _KILO, larger
    return f"{amount:.1f}{unit}" if abs(amount) < _MANY else f"{amount:.0f}{unit}"


def rate(number: float | None) -> str:
    """Return events in a second; ``-`` for none.

    >>> [rate(number) for number in (0.0, 0.25, 12.0, 4200.0, None)]
    ['0', '0.2', '12', '4200', '-']
    """
    if number is None:
        return "-"
    return count(number) if number >= _MANY or not number else f"{number:.1f}"


def short_place(place: str) -> str:
    """Return a frame without its folders.

    >>> short_place("/app/website/reconciler.py:31 Website.reconcile")
    'reconciler.py:31 Website.reconcile'
    """
    path, _, function = place.partition(" ")
    return f"{PurePath(path).name} {function}".strip()


def error_text(detail: str) -> str:
    """Return the error of a failed reconcile without the delay of its retry.

    >>> error_text("retry in 0.005 s: ValueError('no luck')")
    "ValueError('no luck')"
    >>> error_text("retry in 17 min: ValueError('no luck')")
    "ValueError('no luck')"
    """
    return _RETRY.sub("", detail, count=1) if detail.startswith("retry in ") else detail
