"""Parse and format timestamps as the server does. Pure.

Upstream: k8s.io/apimachinery/pkg/apis/meta/v1/time.go (v1.36)
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from opsdk.errors import DecodeError

SECONDS: Final = "2006-01-02T15:04:05Z07:00"
"""The layout of metav1.Time."""
MICROS: Final = "2006-01-02T15:04:05.000000Z07:00"
"""The layout of metav1.MicroTime: exactly six fractional digits."""

_USUAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_PARTS = (
    ("2006", r"\d{4}"), ("-", "-"), ("01", r"\d\d"), ("-", "-"), ("02", r"\d\d"), ("T", "T"), ("15", r"\d\d"),
    (":", ":"), ("04", r"\d\d"), (":", ":"), ("05", r"\d\d(?:[.,]\d+)?"),
)  # fmt: skip
_ZONE = re.compile(r"Z|([+-])(\d\d):(\d\d)")
_RANGES = (("month", 2, 1, 12), ("day", 4, 1, 31), ("hour", 6, 0, 23), ("minute", 8, 0, 59), ("second", 10, 0, 59))


def read_time(text: str) -> str:
    """Return a timestamp in the server's format: UTC, whole seconds.

    >>> read_time("2024-01-02T03:04:05.9+01:00")
    '2024-01-02T02:04:05Z'
    """
    if _USUAL.fullmatch(text) and _valid(text):
        return text
    moment, _ = _parse(text, SECONDS)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def read_micro_time(text: str) -> str:
    """Return a timestamp in UTC with six fractional digits.

    >>> read_micro_time("2024-01-02T03:04:05.000001Z")
    '2024-01-02T03:04:05.000001Z'
    """
    moment, fraction = _parse(text, MICROS)
    return f"{moment.strftime('%Y-%m-%dT%H:%M:%S').rjust(19, '0')}.{fraction[1:]}Z"


def _valid(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _fail(text: str, layout: str, rest: str, element: str) -> DecodeError:
    return DecodeError(f'parsing time {_quoted(text)} as "{layout}": cannot parse {_quoted(rest)} as "{element}"')


def _quoted(text: str) -> str:
    """Quote text as Go's package time does: byte by byte."""
    written = (
        f"\\x{b:02x}" if b < 32 or b > 126 else f"\\{chr(b)}" if chr(b) in '"\\' else chr(b) for b in text.encode()
    )
    return f'"{"".join(written)}"'


def _parse(text: str, layout: str) -> tuple[datetime, str]:
    """Return the time of a string, and its fraction. Raises `DecodeError` in Go's words."""
    position, parts = 0, []
    for element, pattern in _PARTS:
        if element == "05" and layout == MICROS:
            pattern = r"\d\d"  # noqa: PLW2901 - the fraction is a separate element in the pattern
        match = re.compile(pattern).match(text, position)
        if match is None:
            raise _fail(text, layout, text[position:], element)
        parts.append(match.group())
        position = match.end()
    fraction = ""
    if layout == MICROS:
        match = re.compile(r"\.\d{6}(?!\d)").match(text, position)
        if match is None:
            raise _fail(text, layout, text[position:], ".000000")
        fraction = match.group()
        position = match.end()
    zone = _ZONE.match(text, position)
    if zone is None:
        raise _fail(text, layout, text[position:], "Z07:00")
    if zone.end() < len(text):
        raise DecodeError(f'parsing time "{text}": extra text: "{text[zone.end() :]}"')
    return _datetime_of(text, parts, zone), fraction


def _datetime_of(text: str, parts: list[str], zone: re.Match[str]) -> datetime:
    for name, index, low, high in _RANGES:
        if not low <= int(parts[index][:2]) <= high:
            raise DecodeError(f'parsing time "{text}": {name} out of range')
    try:
        year, month, day, hour, minute, second = (int(parts[i][: 4 if i == 0 else 2]) for i in (0, 2, 4, 6, 8, 10))
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        if zone.group(1):
            shift = timedelta(hours=int(zone.group(2)), minutes=int(zone.group(3)))
            moment = moment - shift if zone.group(1) == "+" else moment + shift
    except (ValueError, OverflowError):
        raise DecodeError(f'parsing time "{text}": day out of range') from None
    return moment
