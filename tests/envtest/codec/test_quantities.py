"""Quantities as the server writes them."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from envtest.codec.quantities import canonical
from opsdk.apimachinery.quantity import Quantity
from opsdk.errors import DecodeError


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0.5", "500m"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("2048Ki", "2Mi"),
        ("1e3", "1e3"),
        ("-0.25", "-250m"),
        ("0", "0"),
    ],
)
def test_canonical_forms(text: str, shown: str) -> None:
    """A whole number with the largest suffix of its family."""
    assert canonical(text) == shown


@given(st.integers(0, 10**15), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi"]))
def test_the_value_stays(number: int, suffix: str) -> None:
    """Writing a quantity changes its form, and below 1000E never its value; writing it twice changes nothing more."""
    assume(Quantity(f"{number}{suffix}") < Quantity("1000E"))  # there is no larger suffix, and the server forgets it
    assume("i" not in suffix or Quantity(f"{number}{suffix}") <= Quantity(str(2**63 - 1)))  # more is cut off
    canonical_form = canonical(f"{number}{suffix}")
    assert Quantity(canonical_form) == Quantity(f"{number}{suffix}")
    assert canonical(canonical_form) == canonical_form


def test_other_text_is_refused() -> None:
    """Text that is not a quantity raises `DecodeError`."""
    with pytest.raises(DecodeError):
        canonical("many")
