"""Quantities: exact, ordered, canonical."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opsdk.apimachinery.model import decode_hook
from opsdk.apimachinery.quantity import Quantity

DECIMALS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARIES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

numbers = st.integers(-(2**63), 2**63 - 1)


@st.composite
def quantities(draw: st.DrawFn) -> tuple[Quantity, int]:
    """A quantity, and its amount in billionths by plain integer arithmetic."""
    number = draw(st.integers(-(10**15), 10**15))
    if draw(st.booleans()):
        suffix, power = draw(st.sampled_from(sorted(DECIMALS.items())))
        return Quantity(f"{number}{suffix}"), number * 10 ** (9 + power)
    suffix, power = draw(st.sampled_from(sorted(BINARIES.items())))
    return Quantity(f"{number}{suffix}"), number * 2**power * 10**9


def nano(quantity: Quantity) -> int:
    """The amount in billionths."""
    scaled = Fraction(quantity.value) * 10**9
    assert scaled.denominator == 1
    return scaled.numerator


@given(quantities(), quantities())
def test_arithmetic_is_that_of_integers(a: tuple[Quantity, int], b: tuple[Quantity, int]) -> None:
    """Sums, differences, products and comparisons are exact, however large."""
    (one, m), (two, n) = a, b
    assert nano(one) == m
    assert nano(one + two) == m + n
    assert nano(one - two) == m - n
    assert nano(one * 3) == 3 * m
    assert (one < two, one == two, one >= two) == (m < n, m == n, m >= n)
    if m == n:
        assert hash(one) == hash(two)


@given(quantities(), quantities())
@example((Quantity("0Ei"), 0), (Quantity("1G"), 10**18))
@example((Quantity("0"), 0), (Quantity("1Ki"), 1024 * 10**9))
@example((Quantity("1000Ki"), 1_024_000 * 10**9), (Quantity("-1023k"), -1_023_000 * 10**9))
def test_results_are_canonical(a: tuple[Quantity, int], b: tuple[Quantity, int]) -> None:
    """No fraction, the largest suffix that allows it, in the family of the first that is not zero; it reads back."""
    first = a[0] if a[1] else b[0]
    total = a[0] + b[0]
    text = str(total)
    assert "." not in text
    assert Quantity(text) == total
    # The sum keeps its family: without a suffix, its text does not tell it.
    assert str(total + Quantity("0")) == text
    number = text.rstrip("numkKMGTPEi")
    suffix = text[len(number) :]
    if suffix.endswith("i"):
        assert str(first).endswith("i")
        assert suffix == "Ei" or int(number) % 1024
    elif suffix or not str(first).endswith("i"):
        assert int(number) == 0 or suffix == "E" or int(number) % 1000


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"), ("0.000", "0"), ("-0", "0"), ("1000m", "1"), ("1500m", "1500m"), ("0.5", "500m"), (".5", "500m"),
        ("5.", "5"), ("+5", "5"), ("1000", "1k"), ("1024", "1024"), ("1024Ki", "1Mi"), ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"), ("0.1Ki", "102400m"), ("1e3", "1e3"), ("1E3", "1e3"),
        ("1000e3", "1e6"), ("1500e-3", "1500e-3"),
        ("12e1", "120e0"), ("-1Mi", "-1Mi"), ("100E", "100E"), ("9223372036854775807", "9223372036854775807"),
        ("0.0000000001", "1n"), ("-0.0000000001", "-1n"),
        ("1234567890123456789012345678901", "1234567890123456789012345678901"),
    ],
)  # fmt: skip
def test_canonical_forms(text: str, canonical: str) -> None:
    """A parsed quantity keeps its text; a computed one is canonical, and rounds up below a nano."""
    assert str(Quantity(text)) == text
    assert str(Quantity(text) + Quantity("0")) == canonical.replace("e0", "")


@pytest.mark.parametrize(
    "text",
    ["", "x", "1 ", " 1", "1\n", "1KI", "1ki", "1K", "1mi", "--1", "1e", "e3", "1.2.3", "1e3Ki", "1_0", "\u0661",
     "1e99999", "NaN", "Infinity", "0x10", "9" * 2000],
)  # fmt: skip
def test_what_is_no_quantity(text: str) -> None:
    """A ValueError, from text and from the wire, and never an endless computation."""
    with pytest.raises(ValueError, match="is not a quantity"):
        Quantity(text)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(text, Quantity, dec_hook=decode_hook)


def test_a_quantity_accepts_finite_numbers() -> None:
    """A quantity accepts integers, floats and decimals; booleans, NaN and infinities are errors."""
    assert str(Quantity(5)) == "5"
    assert str(Quantity(0.1)) == "0.1"
    assert str(Quantity(Decimal("1e-7"))) == "0.0000001"
    assert str(Quantity(1e21)) == "1000000000000000000000"
    for wrong in (True, float("nan"), float("inf"), Decimal("NaN")):
        with pytest.raises(ValueError, match="is not a quantity"):
            Quantity(wrong)


def test_rounding_to_integers_is_away_from_zero() -> None:
    """Rounding to an integer is away from zero, so the result is never below the request."""
    assert [int(Quantity(t)) for t in ("1.1", "-1.1", "1", "1n", "0")] == [2, -2, 1, 1, 0]
    assert float(Quantity("250m")) == 0.25


def test_equality_with_other_things() -> None:
    """A quantity is neither a number nor a text; ordering with them is a TypeError."""
    assert Quantity("1") != 1
    assert Quantity("1") != "1"
    with pytest.raises(TypeError):
        _ = Quantity("1") < 1  # type: ignore[operator]
