"""``format``: what a real server makes of the same forms and arguments."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.library.formatting import format_string
from opsdk.cel.values import Duration, Timestamp, UInt

ONLY = "error during formatting: {}, was given "
DECIMAL = ONLY.format("decimal clause can only be used on integers")
SCIENTIFIC = ONLY.format("scientific clause can only be used on doubles")
FIXED = ONLY.format("fixed-point clause can only be used on doubles")
HEX = ONLY.format("only integers, byte buffers, and strings can be formatted as hex")
PRECISION = "could not parse formatting clause: error while parsing precision: "
NO_NUMBER = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'


@pytest.mark.parametrize(
    ("form", "value", "shown"),
    [
        ("%e", 12345.678, "1.234568×10⁰⁴"),  # noqa: RUF001 - as people write it
        ("%e", 0.000012345, "1.234500×10⁻⁰⁵"),  # noqa: RUF001
        ("%e", 1e100, "1.000000×10¹⁰⁰"),  # noqa: RUF001
        ("%.2e", -5.5, "-5.500000×10⁰⁰"),  # noqa: RUF001
        ("%e", -0.0, "0.000000×10⁰⁰"),  # noqa: RUF001
        ("%f", 1234567.891, "1,234,567.891000"),
        ("%f", -1234.5, "-1,234.500000"),
        ("%.2f", 1e21, "1,000,000,000,000,000,000,000.00"),
        ("%.20f", 0.1, "0.10000000000000000555"),
        ("%.0f", 2.5, "2"),
        ("%.0f", -3.5, "-4"),
        ("%.3f", -0.0, "0.000"),
        ("%f", math.inf, "∞"),
        ("%e", -math.inf, "-∞"),
        ("%f", "NaN", "NaN"),
        ("%s", math.inf, "+Inf"),
        ("%s", [math.inf, 1e10], '["+Inf", 10000000000.000000]'),
        ("%s", 1234567.5, "1.2345675e+06"),
        ("%s", {"b": {"c": [True]}, "a": 1}, '{"a":1, "b":{"c":[true]}}'),
        ("%s", [Duration(5 * 10**9), Timestamp(0), b"x", 'q"', UInt(1), None],
         '[duration("5s"), timestamp("1970-01-01T00:00:00Z"), b"x", "q\\"", 1, null]'),
        ("%d", 1234567, "1234567"),
        ("%b", -5, "-101"),
        ("%x", -255, "-ff"),
        ("%X", "hé", "68C3A9"),
        ("%o", UInt(8), "10"),
        ("%.3s", "abcdef", "abcdef"),
    ],
)  # fmt: skip
def test_values_are_shown(form: str, value: Any, shown: str) -> None:
    """``format`` writes a value by its verb, and lists and maps in the notation of expressions."""
    assert format_string(form, [value]) == shown


@pytest.mark.parametrize(
    ("form", "args", "why"),
    [
        ("%d", [1.5], DECIMAL + "double"),
        ("%f", [1], FIXED + "int"),
        ("%e", ["zz"], SCIENTIFIC + "string"),
        ("%x", [1.5], HEX + "double"),
        ("%s %s", ["a"], "index 1 out of range"),
        ("%", [1], "unexpected end of string"),
        ("%.", [1], PRECISION + "could not find end of precision specifier"),
        ("%.f", [1.0], PRECISION + NO_NUMBER),
        ("%5d", [1], 'could not parse formatting clause: unrecognized formatting clause "5"'),
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_refused(form: str, args: list[Any], why: str) -> None:
    """When the expression is evaluated."""
    with pytest.raises(CelEvaluationError) as caught:
        format_string(form, args)
    assert str(caught.value) == why


@given(st.text(), st.lists(st.one_of(st.integers(), st.floats(), st.text(), st.none(), st.booleans(), st.binary())))
def test_any_format_string_returns_or_raises_an_evaluation_error(form: str, args: list[Any]) -> None:
    """Any format string is filled or raises CelEvaluationError."""
    try:
        format_string(form, args)
    except CelEvaluationError:
        return
