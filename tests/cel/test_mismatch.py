"""Values that turn out, at run time, to be what an operation does not take: the errors of a real server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.cel.environment import CelEnvironment
from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.library.lists import KUBERNETES_LISTS
from opsdk.cel.library.standard import STANDARD_LIBRARY
from opsdk.cel.library.strings import STRINGS_LIBRARY
from opsdk.cel.mismatch import mismatch
from opsdk.cel.types import DYN

ENVIRONMENT = CelEnvironment(libraries=(STANDARD_LIBRARY, STRINGS_LIBRARY, KUBERNETES_LISTS), variables={"x": DYN})
SAMPLES = {"null": None, "int": 1, "string": "a", "bool": True, "double": 1.5, "list": [1], "map": {"k": 1}}


def failure(text: str, x: object) -> str:
    """The error of an expression about ``x``, or its value."""
    try:
        return f"is {ENVIRONMENT.compile(text).evaluate({'x': x})}"
    except CelEvaluationError as error:
        return str(error)


@pytest.mark.parametrize(
    ("text", "named", "plain"),
    [
        ("x + 1", "null bool map", "string"),
        ("x / 1", "null bool list map", "string"),
        ("x % 2", "null bool double list map", "string"),
        ("x < 1", "null list map", "string bool"),
        ("x >= 'b'", "null list map", "int bool double"),
        ("-x == 1", "null list map", "string bool"),
        ("x.size() == 1", "null int bool double", ""),
    ],
)
def test_operators_are_named_where_the_first_value_never_has_them(text: str, named: str, plain: str) -> None:
    """Values that have the operator, but not for the other value, and those with methods, do not name it."""
    name = {"+": "_+_", "/": "_/_", "%": "_%_", "<": "_<_", ">=": "_>=_"}.get(text.split()[1], "size")
    name = "-_" if text.startswith("-") else name
    assert {failure(text, SAMPLES[one]) for one in named.split()} == {f"no such overload: {name}"}
    assert {failure(text, SAMPLES[one]) for one in plain.split()} <= {"no such overload"}


@pytest.mark.parametrize("kind", ["null", "int", "bool", "double", "list", "map"])
@pytest.mark.parametrize("text", ["x.startsWith('a')", "x.endsWith('a')", "x.contains('a')", "x.matches('a')"])
def test_what_asks_for_texts_names_nothing(text: str, kind: str) -> None:
    """The four methods that strings have had from the beginning."""
    assert failure(text, SAMPLES[kind]) == "no such overload"


@pytest.mark.parametrize("kind", ["null", "int", "bool", "double", "string"])
def test_values_without_fields_have_none(kind: str) -> None:
    """A field of a scalar is absent for ``has``, and an error when it is read."""
    sample = SAMPLES[kind]
    assert failure("has(x.q)", sample) == "is False"
    assert failure("x.q", sample) == failure("x['q']", sample) == "no such key: q"
    assert failure("x[0]", sample) == "no such key: 0"


def test_lists_have_no_fields_and_say_so() -> None:
    """A field of a list is an error about the index type."""
    assert failure("x.q", [1]) == failure("has(x.q)", [1]) == "unsupported index type 'string' in list"


@pytest.mark.parametrize(
    ("kind", "name"), [("null", "Null"), ("int", "Int"), ("bool", "Bool"), ("double", "Double"), ("string", "String")]
)
@pytest.mark.parametrize("text", ["x.all(y, y)", "x.exists(y, y)", "x.map(y, y)", "x.exists_one(y, y)"])
def test_what_has_no_elements_cannot_be_gone_over(text: str, kind: str, name: str) -> None:
    """The type is the one of the real server's language."""
    assert failure(text, SAMPLES[kind]) == f"got 'types.{name}', expected iterable type"


@pytest.mark.parametrize("element", [None, "a", True, [1], {"k": 1}])
def test_only_numbers_and_durations_are_summed(element: object) -> None:
    """Summing other elements than numbers and durations is an evaluation error."""
    assert failure("x.sum()", [element]) == "no such overload: sum(list)"
    assert failure("x.sum()", [1, element]) == "no such overload"


def test_only_texts_are_joined() -> None:
    """With or without a separator."""
    assert failure("x.join(',')", ["a", 1]) == "no such overload: join(list, string)"
    assert failure("x.join()", [None]) == "no such overload: join(list)"


def test_seconds_are_no_duration() -> None:
    """Only text converts to a duration."""
    assert failure("duration(x)", 5) == "no such overload: duration(int)"


def test_times_beyond_the_years_of_the_protocol_are_errors() -> None:
    """A timestamp outside the years 1 to 9999 in UTC is an error."""
    for text in ("0000-06-01T00:00:00Z", "9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00"):
        assert failure("timestamp(x)", text) == "timestamp overflow"
    assert failure("timestamp(x)", "then") == "type conversion error from 'string' to 'google.protobuf.Timestamp'"


@given(
    st.sampled_from(["_+_", "_-_", "_*_", "_/_", "_%_", "_<_", "_>=_", "-_", "!_", "size", "contains", "join"]),
    st.lists(st.sampled_from(list(SAMPLES.values())), min_size=1, max_size=3),
)
def test_every_mismatch_has_a_message(name: str, values: list[object]) -> None:
    """Each mismatch of types has one of three messages."""
    text = str(mismatch(name, values))
    assert text == "no such overload" or text.startswith(f"no such overload: {name}")
