"""Cron schedules: five fields, or a descriptor such as ``@daily``. Pure.

Upstream: github.com/robfig/cron/v3 (parser.go, spec.go). No library speaks its syntax and its error messages: see
docs/dependencies.md.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from opsdk.base.cron_macros import MACROS

_MONTHS = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6,
    "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
}  # fmt: skip
_DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
# A search starts at the first digit of a number only; otherwise each digit of a long number starts a scan.
_EVERY = re.compile(r"(?<![\d.])(\d++(?:\.\d++)?+)(h|m|s|ms)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_HORIZON = timedelta(days=5 * 366)


class ScheduleError(ValueError):
    """The schedule does not parse; the text is the message of robfig/cron."""


class _Bounds(NamedTuple):
    low: int
    high: int
    names: dict[str, int]


_FIELDS = (
    _Bounds(0, 59, {}),
    _Bounds(0, 23, {}),
    _Bounds(1, 31, {}),
    _Bounds(1, 12, _MONTHS),
    _Bounds(0, 6, _DAYS),
)


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed schedule: minutes, hours, days, months and weekdays (Sunday is 0), or a period in seconds.

    If both sorts of days are restricted, either is enough. `any_day` and `any_weekday` are robfig's star bits.
    """

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    any_day: bool = False
    any_weekday: bool = False
    period: float = 0.0

    def next(self, after: datetime) -> datetime | None:
        """Return the first time after `after`, in its time zone; None without one in the next five years."""
        if self.period:
            return (after + timedelta(seconds=self.period)).replace(microsecond=0)
        timestamp = after.replace(second=0, microsecond=0) + timedelta(minutes=1)
        end = after + _HORIZON
        while timestamp < end:
            if timestamp.month not in self.months or not self._matches_day(timestamp):
                timestamp = (timestamp + timedelta(days=1)).replace(hour=0, minute=0)
            elif timestamp.hour not in self.hours:
                timestamp = (timestamp + timedelta(hours=1)).replace(minute=0)
            elif timestamp.minute not in self.minutes:
                timestamp += timedelta(minutes=1)
            else:
                return timestamp
        return None

    def _matches_day(self, at: datetime) -> bool:
        day, weekday = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        return day and weekday if self.any_day or self.any_weekday else day or weekday


def parse(text: str) -> Schedule:
    """Parse a schedule; `ScheduleError` if it does not parse.

    >>> parse("*/15 0 1,15 * MON-FRI").minutes == {0, 15, 30, 45}
    True
    """
    if not text.strip():
        raise ScheduleError("empty spec string")
    if text.startswith("@"):
        if text in MACROS:
            return parse(MACROS[text])
        if text.startswith("@every "):
            raw = text.removeprefix("@every ")
            parts = _EVERY.findall(raw)
            if not parts or "".join(a + b for a, b in parts) != raw:
                raise ScheduleError(f'failed to parse duration {text}: time: invalid duration "{raw}"')
            return Schedule(period=max(1.0, sum(float(amount) * _UNITS[unit] for amount, unit in parts)))
        raise ScheduleError(f"unrecognized descriptor: {text}")
    fields = text.split()
    if len(fields) != 5:
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minutes, hours, days, months, weekdays = (
        frozenset().union(*(_range(part, b) for part in f.split(",") if part))
        for f, b in zip(fields, _FIELDS, strict=True)
    )
    return Schedule(
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=weekdays,
        any_day=_has_star(fields[2]),
        any_weekday=_has_star(fields[4]),
    )


def _has_star(text: str) -> bool:
    """Return whether a part of a valid field is a star. A step above one makes it a restriction, as in getRange."""
    parts = (part.partition("/") for part in text.split(","))
    return any(span.split("-")[0] in ("*", "?") and int(step or "1") <= 1 for span, _, step in parts)


def _range(text: str, bounds: _Bounds) -> frozenset[int]:
    """Return the numbers of a range with a step. Raises `ScheduleError` in upstream's words."""
    span, *steps = text.split("/")
    low_text, *highs = span.split("-")
    if low_text in ("*", "?"):
        low, high = bounds.low, bounds.high
    else:
        low = _number(low_text, bounds)
        if len(highs) > 1:
            raise ScheduleError(f"too many hyphens: {text}")
        high = _number(highs[0], bounds) if highs else low
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {text}")
    step = _number(steps[0], _Bounds(0, 0, {})) if steps else 1
    if steps and not highs:
        high = bounds.high
    if low < bounds.low:
        raise ScheduleError(f"beginning of range ({low}) below minimum ({bounds.low}): {text}")
    if high > bounds.high:
        raise ScheduleError(f"end of range ({high}) above maximum ({bounds.high}): {text}")
    if low > high:
        raise ScheduleError(f"beginning of range ({low}) beyond end of range ({high}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")
    return frozenset(range(low, high + 1, step))


def _number(text: str, bounds: _Bounds) -> int:
    index = bounds.names.get(text.lower())
    if index is not None:
        return index
    if not re.fullmatch(r"[-+]?[0-9]{1,9}", text):
        raise ScheduleError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    number = int(text)
    if number < 0:
        raise ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number
