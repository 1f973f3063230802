"""Durations in Go's form."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.duration import Duration

_YEARS = timedelta(days=365 * 290)


@given(st.timedeltas(-_YEARS, _YEARS))
def test_each_duration_goes_round(value: timedelta) -> None:
    """Parsing the JSON form gives the value again."""
    duration = Duration(microseconds=value // timedelta(microseconds=1))
    assert Duration.parse(duration.wire()) == value


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("0", "0s"),
        ("90s", "1m30s"),
        ("1.5h", "1h30m0s"),
        ("-2m", "-2m0s"),
        ("+1s", "1s"),
        ("250ms", "250ms"),
        ("1500us", "1.5ms"),
        (".5s", "500ms"),
        ("7µs", "7µs"),
        ("999ns", "0s"),
    ],
)
def test_durations_are_written_as_go_writes_them(text: str, form: str) -> None:
    """Every form of a duration that Go parses is written in Go's canonical form."""
    assert Duration.parse(text).wire() == form


@pytest.mark.parametrize("text", ["", "s", "1", "1d", "1h ", "1 h", "--1s", "PT1H", "9999999h", "."])
def test_texts_that_are_not_durations(text: str) -> None:
    """A string that is not a duration raises an error that names it."""
    with pytest.raises(ValueError, match="is not a duration"):
        Duration.parse(text)
