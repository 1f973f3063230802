"""Canonical texts: this implementation against the server's."""

from __future__ import annotations

import base64
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from envtest.codec.quantities import canonical
from envtest.codec.timestamps import read_micro_time, read_time
from opsdk.apimachinery.quantity import Quantity
from opsdk.children.canonical import canonical_base64, canonical_micro_time, canonical_quantity, canonical_time
from opsdk.errors import DecodeError

_SUFFIXES = (
    "",
    "n",
    "u",
    "m",
    "k",
    "M",
    "G",
    "T",
    "P",
    "E",
    "Ki",
    "Mi",
    "Gi",
    "Ti",
    "Pi",
    "Ei",
    "e3",
    "E-2",
    "e0",
    "e-12",
)
QUANTITIES = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(("", "+", "-")),
        st.text("0123456789", min_size=1, max_size=22),
        st.sampled_from(("", ".", ".0", ".5", ".500", ".125", ".0001", ".000000000001")),
        st.sampled_from(_SUFFIXES),
    ),
)


@given(QUANTITIES)
def test_quantities_are_written_as_the_server_writes_them(text: str) -> None:
    """Digit for digit, also for signs, zeros, rounding and large numbers."""
    assert canonical_quantity(text) == canonical(text)


@given(st.sampled_from(("1", "12", "1000", "1024", "0.5", "1.5")), st.sampled_from(_SUFFIXES[3:16]))
def test_the_value_stays(number: str, suffix: str) -> None:
    """Quantities of usual sizes keep their exact value, unless it has more than 63 bits."""
    text = f"{number}{suffix}"
    if Quantity(text).value < 2**63:
        assert Quantity(canonical_quantity(text) or "") == Quantity(text)


@given(st.text("0123456789.+-eEKmi x", max_size=8))
def test_what_is_no_quantity_has_no_form(text: str) -> None:
    """Texts that the server rejects give None."""
    assume(not re.search(r"[eE][+]?\d{4}", text))  # upstream has no limit of exponents, and envtest one of 1,000
    try:
        canonical(text)
    except DecodeError:
        assert canonical_quantity(text) is None


def test_a_number_without_end_has_no_form() -> None:
    """The comparison does not fail because of it."""
    assert canonical_quantity("9" * 5000) is None


@pytest.mark.parametrize(
    "text",
    ["2024-01-02T03:04:05Z", "2024-01-02T03:04:05.999Z", "2024-01-02T03:04:05+01:00", "0001-01-01T00:00:00Z"],
)
def test_times_are_in_utc_with_whole_seconds(text: str) -> None:
    """The canonical form of a Time is UTC with whole seconds, as the server writes it."""
    assert canonical_time(text) == read_time(text)


@pytest.mark.parametrize("text", ["2024-01-02T03:04:05.000001Z", "2024-01-02T03:04:05.123456-07:30"])
def test_micro_times_have_six_decimals(text: str) -> None:
    """The canonical form of a MicroTime has six decimals, as the server writes it."""
    assert canonical_micro_time(text) == read_micro_time(text)


@pytest.mark.parametrize("text", ["", "yesterday", "2024-01-02", "2024-01-02T03:04:05", "2024-13-02T03:04:05Z"])
def test_what_is_no_time_has_no_form(text: str) -> None:
    """A time needs a date, a time and a zone."""
    assert canonical_time(text) is None
    assert canonical_micro_time(text) is None


@given(st.binary())
def test_line_ends_in_base64_mean_nothing(data: bytes) -> None:
    """Base64 with and without line ends has one canonical form."""
    plain = base64.b64encode(data).decode()
    assert canonical_base64(base64.encodebytes(data).decode()) == plain == canonical_base64(plain)


def test_what_is_no_base64_has_no_form() -> None:
    """Other characters and wrong lengths give None."""
    assert [canonical_base64(text) for text in ("!", "YQ", "Y Q==")] == [None, None, None]
