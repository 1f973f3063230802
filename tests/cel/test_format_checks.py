"""What is said of ``format`` before anything is evaluated."""

from __future__ import annotations

import pytest

from opsdk.apiserver.expressions.environment import kubernetes_environment
from opsdk.cel.errors import CelCompileError
from opsdk.cel.types import DOUBLE, INT, STRING, list_of

ENVIRONMENT = kubernetes_environment().extend(
    variables={"s": STRING, "i": INT, "n": DOUBLE, "l": list_of(STRING)},
)
TEXTS = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"


@pytest.mark.parametrize(
    ("expression", "column", "message"),
    [
        ("'%s %s'.format(['a'])", 15, "index 1 out of range"),
        ("'%s'.format(['a', 'b'])", 12, "too many arguments supplied to string.format (expected 1, got 2)"),
        ("'%q'.format([1])", 12, 'could not parse formatting clause: unrecognized formatting clause "q"'),
        ("'%5d'.format([1])", 13, 'could not parse formatting clause: unrecognized formatting clause "5"'),
        ("'%'.format([])", 11, "unexpected end of string"),
        (
            "'%d'.format([s])",
            14,
            "@ decimal clause can only be used on integers, was given string",
        ),
        (
            "'%d'.format([null])",
            14,
            "@ decimal clause can only be used on integers, was given null_type",
        ),
        (
            "'%f'.format([i])",
            14,
            "@ fixed-point clause can only be used on doubles, was given int",
        ),
        (
            "'%x'.format([n])",
            14,
            "@ only integers, byte buffers, and strings can be formatted as hex, was given double",
        ),
        (
            "'%b'.format([s])",
            14,
            "@ only integers and bools can be formatted as binary, was given string",
        ),
        (
            "'%o'.format([s])",
            14,
            "@ octal clause can only be used on integers, was given string",
        ),
        (
            "'%s'.format([optional.of(1)])",
            25,
            f"@ string clause can only be used on {TEXTS}, was given optional_type",
        ),
    ],
)
def test_what_is_written_out_is_checked(expression: str, column: int, message: str) -> None:
    """Clauses at the call, arguments at their place."""
    with pytest.raises(CelCompileError) as caught:
        ENVIRONMENT.compile(expression)
    message = message.replace("@", "error during formatting:")
    assert str(caught.value).splitlines()[0] == f"ERROR: <input>:1:{column}: {message}"


@pytest.mark.parametrize(
    "expression",
    ["'%d'.format([dyn(s)])", "s.format([1])", "'%s %s'.format(l)", "'%f'.format(['NaN'])", "'100%%'.format([])"],
)
def test_what_is_not_known_is_left_alone(expression: str) -> None:
    """Types and texts that only evaluation shows, and numbers that are words."""
    assert ENVIRONMENT.compile(expression).type == STRING


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("'%e'.format([0.00123])", "1.230000\u00d710⁻⁰³"),
        ("'%.2e'.format([12345.678])", "1.234568\u00d710⁰⁴"),
        ("'%f'.format([1234567.891])", "1,234,567.891000"),
        ("'%f %f'.format([1.0 / 0.0, 'NaN'])", "∞ NaN"),
        ("'%s'.format([{'a': 1, 'b': [2]}])", '{"a":1, "b":[2]}'),
        ("'%s'.format([1.0 / 0.0])", "+Inf"),
        ("string('hello'.indexOf('l', 99))", "-1"),
        ("string('hello'.lastIndexOf('', 99))", "5"),
        ("string({'a': 1, 'a': 2}['a'])", "2"),
    ],
)
def test_how_values_look(expression: str, text: str) -> None:
    """Numbers are written for people; of two equal keys the last one counts."""
    assert ENVIRONMENT.compile(expression).evaluate({}) == text
