"""Cron schedules are read as robfig/cron reads them."""

from __future__ import annotations

from datetime import datetime

import pytest

from envtest.groups.batch.cron_schedule import ScheduleError, parse

MONDAY = datetime(2024, 1, 1)  # noqa: DTZ001 - schedules know no zone


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-2 * * * *", "beginning of range (5) beyond end of range (2): 5-2"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("@often", "unrecognized descriptor: @often"),
        ("@every soon", 'failed to parse duration @every soon: time: invalid duration "soon"'),
    ],
)
def test_errors_are_those_of_the_real_parser(text: str, message: str) -> None:
    """An invalid schedule has the error message of robfig/cron."""
    with pytest.raises(ScheduleError) as caught:
        parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("days", "weekdays", "day"),
    [
        ("15", "wed", 3),
        ("*", "wed", 3),
        ("?", "wed", 3),
        ("15", "*", 15),
        ("*/1", "wed", 3),
        ("*,15", "wed", 3),
        ("15", "?/1", 15),
        ("*/14", "sun", 1),
        ("*/20", "*", 1),
    ],
)
def test_either_day_field_matches_if_both_are_restricted(days: str, weekdays: str, day: int) -> None:
    """If day and weekday are restricted, either matches; a star restricts only with a step above one."""
    parsed = parse(f"0 12 {days} * {weekdays}").next(MONDAY)
    assert parsed == MONDAY.replace(day=day, hour=12)
