"""Durations and timestamps as text, in Go's formats.

Upstream: Go time/format.go.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import zoneinfo
from fractions import Fraction
from typing import Final

from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.values import Duration, Timestamp

_SECOND: Final = 10**9
_LONGEST: Final = 1000
"""Most characters of a duration."""
_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_DURATION: Final = re.compile(r"(?a:(?<![0-9.])([0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(ns|us|µs|μs|ms|s|m|h))")
_WHOLE: Final = re.compile(r"(?a:[-+]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")


def parse_duration(text: str) -> Duration | None:
    """Parse a duration such as ``1h30m`` or ``-1.5s``; None if it is invalid or exceeds int64 nanoseconds.

    >>> parse_duration("1h0.5s")
    Duration(nanoseconds=3600500000000)
    """
    if text in ("0", "+0", "-0"):
        return Duration(0)
    if len(text) > _LONGEST or not _WHOLE.fullmatch(text):
        return None
    total = 0
    for number, unit in _DURATION.findall(text):
        # Fraction does not accept ".5" and "1.".
        digits = f"0{number}" if number.startswith(".") else number.rstrip(".")
        total += math.trunc(Fraction(digits) * _UNITS[unit])
    signed = -total if text[0] == "-" else total
    return Duration(signed) if -(2**63) <= signed < 2**63 else None


def show_duration(duration: Duration) -> str:
    """Format a duration in seconds.

    >>> show_duration(Duration(3723004000000))
    '3723.004s'
    """
    sign = "-" if duration.nanoseconds < 0 else ""
    seconds, rest = divmod(abs(duration.nanoseconds), _SECOND)
    return f"{sign}{seconds}{_fraction(rest)}s"


def _fraction(nanoseconds: int) -> str:
    return f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""


# ------------------------------------------------------------------ timestamps
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_RFC3339: Final = re.compile(r"(?a:(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d)))")
_FIRST: Final = -62135596800
_LAST: Final = 253402300799
_ERA: Final = 146097 * 86400
"""Seconds of 400 years."""


def parse_timestamp(text: str) -> Timestamp | None:
    """Parse an RFC 3339 timestamp; None if it is invalid or outside the years 1 to 9999.

    >>> parse_timestamp("1970-01-01T01:00:00.5+01:00")
    Timestamp(nanoseconds=500000000)
    """
    timestamp = read_moment(text)
    if timestamp is None or not _FIRST <= timestamp // _SECOND <= _LAST:
        return None
    return Timestamp(timestamp, read_offset(text))


def read_offset(text: str) -> int:
    """Return the UTC offset in seconds of a valid timestamp."""
    if text.endswith("Z"):
        return 0
    seconds = int(text[-5:-3]) * 3600 + int(text[-2:]) * 60
    return -seconds if text[-6] == "-" else seconds


def read_moment(text: str) -> int | None:
    """Return the Unix time in nanoseconds of an RFC 3339 timestamp in any year; None if it is invalid."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    offset = 0
    if match[8]:
        hours, minutes = int(match[9]), int(match[10])
        if hours > 24 or minutes > 60:  # Go accepts an offset of 24 hours or 60 minutes
            return None
        offset = (hours * 3600 + minutes * 60) * (1 if match[8] == "+" else -1)
    try:
        # The calendar repeats every 400 years; Python's starts at year 1.
        moment = dt.datetime(year or 400, month, day, hour, minute, second, tzinfo=dt.UTC)
    except ValueError:
        return None
    seconds = (moment - _EPOCH) // dt.timedelta(seconds=1) - offset - (0 if year else _ERA)
    return seconds * _SECOND + int(((match[7] or "") + "0" * 9)[:9])


def is_moment(seconds: int) -> bool:
    """Report whether a Unix time is within the years 1 to 9999."""
    return _FIRST <= seconds <= _LAST


def checked_timestamp(nanoseconds: int, offset: int = 0) -> Timestamp:
    """Return a timestamp within the years 1 to 9999.

    Raises:
        CelEvaluationError: the time is outside these years.
    """
    if not _FIRST <= nanoseconds // _SECOND <= _LAST:
        raise CelEvaluationError("timestamp overflow")
    return Timestamp(nanoseconds, offset)


def show_timestamp(timestamp: Timestamp) -> str:
    """Format a timestamp in its original time zone.

    >>> show_timestamp(Timestamp(1_500_000_000)), show_timestamp(Timestamp(0, 5400))
    ('1970-01-01T00:00:01.5Z', '1970-01-01T01:30:00+01:30')
    """
    seconds = timestamp.nanoseconds // _SECOND
    offset = timestamp.offset if _FIRST <= seconds + timestamp.offset <= _LAST else 0
    local = _EPOCH + dt.timedelta(seconds=seconds + offset)
    hours, minutes = divmod(abs(timestamp.offset) // 60, 60)
    zone = f"{'-' if timestamp.offset < 0 else '+'}{hours:02}:{minutes:02}" if timestamp.offset else "Z"
    return f"{local:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + f"{_fraction(timestamp.nanoseconds % _SECOND)}{zone}"


_OFFSET: Final = re.compile(r"(?a:([+-]?)(\d+):(\d+))")


def in_zone(timestamp: Timestamp, zone: str) -> dt.datetime:
    """Return the date and time in a time zone (``Europe/Berlin``, ``+02:00``), to the microsecond.

    Raises:
        CelEvaluationError: the time zone is unknown.
    """
    moment = _EPOCH + dt.timedelta(microseconds=timestamp.nanoseconds // 1000)
    return moment.astimezone(_zone(zone))


def _zone(name: str) -> dt.tzinfo:
    """Return the time zone of a name or an offset. Raises `CelEvaluationError`."""
    if ":" in name:
        match = _OFFSET.fullmatch(name)
        if match is None or len(name) > _LONGEST:
            raise CelEvaluationError(f'strconv.Atoi: parsing "{name.partition(":")[0]}": invalid syntax')
        minutes = (int(match[2]) * 60 + int(match[3])) * (-1 if match[1] == "-" else 1)
        if abs(minutes) >= 24 * 60:
            raise CelEvaluationError(f"unknown time zone {name}")
        return dt.timezone(dt.timedelta(minutes=minutes))
    if name in ("", "UTC"):
        return dt.UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise CelEvaluationError(f"unknown time zone {name}") from error
