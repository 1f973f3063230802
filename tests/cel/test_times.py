"""Laws of durations and timestamps as texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.times import in_zone, parse_duration, parse_timestamp, show_duration, show_timestamp
from opsdk.cel.values import Duration, Timestamp


@given(st.integers(-(2**63), 2**63 - 1).map(Duration))
def test_durations_survive_their_texts(duration: Duration) -> None:
    """A printed duration parses back to the nanosecond."""
    assert parse_duration(show_duration(duration)) == duration


@given(st.integers(-62135596800 * 10**9, 253402300799 * 10**9 + 999_999_999).map(Timestamp))
def test_timestamps_survive_their_texts(timestamp: Timestamp) -> None:
    """A printed timestamp of the years 1 to 9999 parses back."""
    assert parse_timestamp(show_timestamp(timestamp)) == timestamp


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1h2m3s4ms5us6ns", 3723004005006),
        ("1.5h", 5400 * 10**9),
        (".5s", 5 * 10**8),
        ("-1m", -60 * 10**9),
        ("+1m", 60 * 10**9),
        ("0", 0),
        ("1µs", 1000),
        ("", None),
        ("1", None),
        ("1d", None),
        ("s", None),
        ("1 s", None),
        ("300000h", 300000 * 3600 * 10**9 if 300000 * 3600 * 10**9 < 2**63 else None),
        ("3000000h", None),
    ],
)
def test_only_go_durations_parse(text: str, nanoseconds: int | None) -> None:
    """A duration parses only in Go's form and range."""
    parsed = parse_duration(text)
    assert (None if parsed is None else parsed.nanoseconds) == nanoseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2024-01-01",
        "2024-01-01T00:00:00",
        "2024-01-01 00:00:00Z",
        "2024-13-01T00:00:00Z",
        "2024-02-30T00:00:00Z",
        "2024-01-01T24:00:00Z",
        "2024-01-01T00:00:60Z",
        "2024-01-01T00:00:00+25:00",
        "0001-01-01T00:00:00+01:00",
    ],
)
def test_what_is_no_timestamp(text: str) -> None:
    """RFC 3339 within the years 1 to 9999."""
    assert parse_timestamp(text) is None


def test_zones_are_iana_names_or_offsets() -> None:
    """A time zone is an IANA name or an offset; other texts are evaluation errors."""
    noon = parse_timestamp("2024-07-01T12:00:00Z")
    assert noon is not None
    assert [in_zone(noon, zone).hour for zone in ("UTC", "", "Europe/Berlin", "+02:30", "-03:00", "01:00")] == [
        *(12, 12, 14, 14, 9, 13)
    ]
    for wrong in ("Nowhere/Town", "+x:00", "99:00", "../etc/passwd"):
        with pytest.raises(CelEvaluationError):
            in_zone(noon, wrong)
