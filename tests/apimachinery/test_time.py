"""The two times of the API."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.time import MicroTime, whole_seconds

moments = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001


@given(moments, st.integers(-14, 14))
def test_the_wire_form(moment: datetime, hours: int) -> None:
    """Always UTC with four digits of year and six decimals, whatever zone the moment was in; and it reads back."""
    there = moment.astimezone(timezone(timedelta(hours=hours))) if 2 < moment.year < 9998 else moment
    text = MicroTime.of(there).wire()
    assert len(text) == len("2026-01-01T00:00:00.000000Z")
    assert MicroTime.parse(text) == moment
    assert MicroTime.parse(text).wire() == text


def test_other_forms_are_read() -> None:
    """Times with nanoseconds, without decimals or with an offset are read; those without a zone are refused."""
    assert MicroTime.parse("2026-01-01T00:00:00Z").wire() == "2026-01-01T00:00:00.000000Z"
    assert MicroTime.parse("2026-01-01T00:00:00.123456789Z").wire() == "2026-01-01T00:00:00.123456Z"
    assert MicroTime.parse("2026-01-01T02:00:00.5+02:00").wire() == "2026-01-01T00:00:00.500000Z"
    for wrong in ("", "yesterday", "2026-01-01T00:00:00"):
        with pytest.raises(ValueError, match=r"time zone|isoformat"):
            MicroTime.parse(wrong)


def test_copies_stay_what_they_are() -> None:
    """A copy or a pickled MicroTime still has its six decimals."""
    moment = MicroTime.of(datetime(2026, 1, 1, tzinfo=UTC))
    for twin in (
        copy.copy(moment),
        copy.deepcopy(moment),
        pickle.loads(pickle.dumps(moment)),
        moment.replace(year=2027),
    ):
        assert isinstance(twin, MicroTime)


def test_whole_seconds() -> None:
    """Times are cut to whole seconds in UTC."""
    east = timezone(timedelta(hours=2))
    assert whole_seconds(datetime(2026, 1, 1, 2, 0, 0, 999_999, tzinfo=east)) == datetime(2026, 1, 1, tzinfo=UTC)
