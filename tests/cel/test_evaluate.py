"""Laws of evaluation, against Python and against the specification."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.cel.environment import CelEnvironment
from opsdk.cel.errors import CelBudgetError, CelCompileError, CelEvaluationError
from opsdk.cel.library.lists import KUBERNETES_LISTS, LISTS_LIBRARY, SETS_LIBRARY
from opsdk.cel.library.optionals import OPTIONALS_LIBRARY
from opsdk.cel.library.standard import STANDARD_LIBRARY
from opsdk.cel.library.strings import STRINGS_LIBRARY
from opsdk.cel.library.texts import BINDINGS_LIBRARY, REGEX_LIBRARY, TWO_VARIABLES_LIBRARY
from opsdk.cel.types import BOOL, BYTES, DOUBLE, DYN, INT, STRING, UINT, list_of, map_of
from opsdk.cel.values import Optional, UInt

LIBRARIES = [
    STANDARD_LIBRARY,
    OPTIONALS_LIBRARY,
    STRINGS_LIBRARY,
    KUBERNETES_LISTS,
    LISTS_LIBRARY,
    SETS_LIBRARY,
    REGEX_LIBRARY,
    TWO_VARIABLES_LIBRARY,
    BINDINGS_LIBRARY,
]
VARIABLES = {
    "a": INT,
    "b": INT,
    "u": UINT,
    "v": UINT,
    "x": DOUBLE,
    "s": STRING,
    "t": STRING,
    "y": BYTES,
    "p": BOOL,
    "d": DYN,
    "l": list_of(INT),
    "m": map_of(STRING, INT),
}
ENVIRONMENT = CelEnvironment(LIBRARIES, variables=VARIABLES)


def value(text: str, **variables: Any) -> Any:
    """The value of an expression."""
    return ENVIRONMENT.compile(text).evaluate(variables)


def failure(text: str, **variables: Any) -> str:
    """The error of an expression."""
    with pytest.raises(CelEvaluationError) as caught:
        value(text, **variables)
    return str(caught.value)


INTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-10, 10)
UINTS = st.integers(0, 2**64 - 1) | st.integers(0, 10)
ARITHMETIC = {op: ENVIRONMENT.compile(f"a {op} b") for op in "+-*/%"}
UNSIGNED = {op: ENVIRONMENT.compile(f"u {op} v") for op in "+-*/%"}


def _exact(op: str, a: int, b: int) -> int:
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if op in "/%" else 0
    return {"+": a + b, "-": a - b, "*": a * b, "/": quotient, "%": a - b * quotient}[op]


@given(st.sampled_from("+-*/%"), INTS, INTS)
def test_integers_are_exact_or_refused(op: str, a: int, b: int) -> None:
    """Signed arithmetic is Python's with division toward zero; what needs more than 64 bits is an error."""
    outcome = ARITHMETIC[op].run({"a": a, "b": b})
    if op in "/%" and b == 0:
        assert str(outcome.error) == ("division by zero" if op == "/" else "modulus by zero")
    elif -(2**63) <= _exact(op, a, b) < 2**63:
        assert outcome.value == _exact(op, a, b)
    else:
        assert str(outcome.error) == "integer overflow"


@given(st.sampled_from("+-*/%"), UINTS, UINTS)
def test_unsigned_integers_stay_unsigned(op: str, u: int, v: int) -> None:
    """Unsigned arithmetic never leaves its range."""
    outcome = UNSIGNED[op].run({"u": UInt(u), "v": UInt(v)})
    if op in "/%" and v == 0:
        assert outcome.error is not None
    elif 0 <= _exact(op, u, v) < 2**64:
        assert outcome.value == _exact(op, u, v)
        assert isinstance(outcome.value, UInt)
    else:
        assert str(outcome.error) == "unsigned integer overflow"


OPERANDS = {"true": True, "false": False, "1 / 0 > 0": None}


@pytest.mark.parametrize("left", OPERANDS)
@pytest.mark.parametrize("right", OPERANDS)
def test_logic_absorbs_errors_from_both_sides(left: str, right: str) -> None:
    """One false operand decides ``&&`` and one true operand ``||``, even if the other one fails."""
    sides = (OPERANDS[left], OPERANDS[right])
    for operator, decisive in (("&&", False), ("||", True)):
        outcome = ENVIRONMENT.compile(f"({left}) {operator} ({right})").run({})
        if decisive in sides:
            assert outcome.value is decisive
        elif None in sides:
            assert str(outcome.error) == "division by zero"
        else:
            assert outcome.value is not decisive


@given(st.lists(st.integers(0, 3), max_size=5))
def test_quantifiers_absorb_errors_in_any_order(elements: list[int]) -> None:
    """One false element decides ``all`` and one true element ``exists``, even after an element that fails."""
    every = ENVIRONMENT.compile("l.all(i, 2 / i > 1)").run({"l": elements})
    some = ENVIRONMENT.compile("l.exists(i, 2 / i > 1)").run({"l": elements})
    verdicts = [None if i == 0 else 2 // i > 1 for i in elements]
    assert every.value is (False if False in verdicts else None if None in verdicts else True)
    assert some.value is (True if True in verdicts else None if None in verdicts else False)


@given(st.lists(INTS, max_size=6), st.integers(-3, 3))
def test_folds_are_comprehensions(elements: list[int], a: int) -> None:
    """Macros mean what Python's comprehensions mean."""
    bound = {"l": elements, "a": a}
    assert value("l.filter(i, i > a)", **bound) == [i for i in elements if i > a]
    assert value("l.map(i, i == a)", **bound) == [i == a for i in elements]
    assert value("l.map(i, i > a, [i])", **bound) == [[i] for i in elements if i > a]
    assert value("l.exists_one(i, i == a)", **bound) is (elements.count(a) == 1)
    assert value("l.existsOne(i, i == a)", **bound) is (elements.count(a) == 1)
    assert value("l.all(i, e, l[i] == e)", **bound) is True
    assert value("l.exists(i, e, i == a && e == a)", **bound) is ((a, a) in enumerate(elements))
    assert value("l.transformList(i, e, i > a, i)", **bound) == [i for i in range(len(elements)) if i > a]
    assert value("l.transformMap(i, e, e)", **bound) == dict(enumerate(elements))
    assert value("l.map(i, [i].map(j, j)[0])", **bound) == elements
    assert bound["l"] == elements


def test_folds_over_maps_see_keys() -> None:
    """A macro over a map binds the key to one variable, or key and value to two."""
    entries = {"a": 1, "b": 2}
    assert value("m.map(k, k)", m=entries) == ["a", "b"]
    assert value("m.all(k, e, m[k] == e)", m=entries) is True
    assert value("m.transformMapEntry(k, e, {e: k})", m=entries) == {1: "a", 2: "b"}
    assert "already exists" in failure("m.transformMapEntry(k, e, {1: k})", m=entries)


@given(st.lists(st.integers(-5, 5), max_size=6))
def test_lists_like_python(elements: list[int]) -> None:
    """Sorting, reversing, counting and searching agree with Python."""
    bound = {"l": elements}
    assert value("l.sort()", **bound) == sorted(elements)
    assert value("l.sortBy(i, -i)", **bound) == sorted(elements, key=lambda i: -i)
    assert value("l.reverse()", **bound) == elements[::-1]
    assert value("l.distinct()", **bound) == list(dict.fromkeys(elements))
    assert value("l.isSorted()", **bound) is (elements == sorted(elements))
    assert value("l.sum()", **bound) == sum(elements)
    assert value("l.indexOf(1)", **bound) == (elements.index(1) if 1 in elements else -1)
    assert value("[l, l].flatten()", **bound) == elements * 2
    assert value("l.slice(0, size(l))", **bound) == elements
    assert value("sets.equivalent(l, l.distinct())", **bound) is True
    assert value("sets.intersects(l, [0])", **bound) is (0 in elements)
    assert value("sets.contains(l, [0, 1])", **bound) is ({0, 1} <= set(elements))
    if elements:
        assert value("l.min()", **bound) == min(elements)
        assert value("l.max()", **bound) == max(elements)
        assert value("l.first().value()", **bound) == elements[0]
        assert value("l.last().value()", **bound) == elements[-1]
    else:
        assert failure("l.min()", **bound) == "min called on empty list"
        assert value("l.first()", **bound).has_value is False


TEXTS = st.text(st.sampled_from("abAB äß👑\t"), max_size=8)


@given(TEXTS, TEXTS)
def test_strings_like_python(s: str, t: str) -> None:
    """The strings library agrees with Python, character by character."""
    bound = {"s": s, "t": t}
    assert value("s.contains(t)", **bound) is (t in s)
    assert value("s.startsWith(t)", **bound) is s.startswith(t)
    assert value("s.endsWith(t)", **bound) is s.endswith(t)
    assert value("size(s) == s.size()", **bound) is True
    assert value("s.replace(t, 'x')", **bound) == s.replace(t, "x")
    assert value("s.split('')", **bound) == list(s)
    assert value("s.upperAscii().lowerAscii()", **bound) == "".join(c.lower() if c.isascii() else c for c in s)
    assert value("[s, t].join('-')", **bound) == f"{s}-{t}"
    assert value("s < t", **bound) is (s < t)
    assert value("s + t", **bound) == s + t
    assert value("s.trim()", **bound) == s.strip()
    if t:
        assert value("s.split(t)", **bound) == s.split(t)
        assert value("s.lastIndexOf(t)", **bound) == s.rfind(t)
        assert value("s.split(t, 2)", **bound) == s.split(t, 1)
    for index in range(len(s)):
        assert value("s.charAt(a) + s.substring(a + 1)", a=index, **bound) == s[index:]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'abc'.substring(4)", "index out of range: 4"),
        ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
        ("'abc'.charAt(4)", "index out of range: 4"),
        ("'abc'.indexOf('a', -9)", "index out of range: -9"),
        ("[1, 2][2]", "index out of bounds: 2"),
        ("[1, 2][-1]", "index out of bounds: -1"),
        ("{'a': 1}['b']", "no such key: b"),
        ("{'a': 1}.b", "no such key: b"),
        ("optional.none().value()", "optional.none() dereference"),
        ("dyn('a') + dyn(1)", "no such overload"),
        ("dyn(1).contains('a')", "no such overload"),
        ("dyn('a') > dyn(1)", "no such overload"),
        ("dyn(1) ? 1 : 2", "no such overload"),
        ("!dyn(1)", "no such overload"),
        ("a + 1", "no such attribute(s): a"),
        ("-(-9223372036854775807 - 1)", "integer overflow"),
        ("[1, 2].slice(1, 5)", "cannot slice(1, 5), list is length 2"),
        ("[dyn(1), dyn('a')].sort()", "list elements must have the same type"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1s')", "timestamp overflow"),
        (
            "'%d'.format([dyn('x')])",
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("('%' + 'q').format([1])", 'could not parse formatting clause: unrecognized formatting clause "q"'),
        ("('%' + 's').format([])", "index 0 out of range"),
    ],
)
def test_evaluation_errors_have_cel_gos_text(text: str, expected: str) -> None:
    """An evaluation error has cel-go's message."""
    assert failure(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        # numbers, and what equals what
        "1 < 1.5 && 2u > 1 && 1u < 1.5",
        "dyn(1) == dyn(1.0) && dyn(1u) == dyn(1) && dyn(1) != dyn('1') && dyn(1) != dyn(true)",
        "[1, 2] == [1, 2] && [1] != [1, 2] && {'a': [1]} == {'a': [1]} && null == null",
        "dyn({1: 'a'})[1.0] == 'a' && dyn({1: 'a'})[1u] == 'a' && !(true in dyn({1: 'a'}))",
        "0.0 / 0.0 != 0.0 / 0.0 && 1.0 / 0.0 > 1e308",
        "7 / -2 == -3 && 7 % -2 == 1 && -7 % 2 == -1",
        # conversions
        "int('-7') == -7 && int(3.99) == 3 && int(-3.99) == -3",
        "int(5u) == 5 && uint('7') == 7u && double('1e3') == 1000.0",
        "string(1.5) == '1.5' && string(1e6) == '1e+06'",
        "string(b'abc') == 'abc' && string(true) == 'true' && bool('True')",
        "bytes('ä') == b'\\xc3\\xa4' && size(b'abc') == 3",
        "type(1) == int && type('') == string && type(type(1)) == type",
        "string(duration('1h30m')) == '5400s'",
        "string(timestamp('2020-02-29T12:00:00.5+01:00')) == '2020-02-29T12:00:00.5+01:00'",
        "string(timestamp('2020-02-29T23:30:00-01:30') + duration('1h')) == '2020-03-01T00:30:00-01:30'",
        "timestamp('2020-02-29T12:00:00+01:00').getHours() == 11",
        "timestamp('2020-02-29T12:00:00+01:00') == timestamp('2020-02-29T11:00:00Z')",
        "int(timestamp('1970-01-01T00:01:00Z')) == 60 && timestamp(60) == timestamp('1970-01-01T00:01:00Z')",
        # dates and durations
        "timestamp('2024-12-31T23:30:00Z').getFullYear() == 2024",
        "timestamp('2024-12-31T23:30:00Z').getDayOfYear() == 365",
        "timestamp('2024-12-31T23:30:00Z').getFullYear('+01:00') == 2025",
        "timestamp('2024-03-10T12:00:00Z').getHours('America/New_York') == 8",
        "timestamp('2024-12-29T00:00:00Z').getDayOfWeek() == 0",
        "timestamp('2024-12-29T00:00:00Z').getDayOfMonth() == 28",
        "duration('-90s').getMinutes() == -1 && duration('1.5s').getMilliseconds() == 1500",
        "timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z') == duration('24h')",
        # optionals
        "{'a': 1}.?a == optional.of(1) && {'a': 1}.?b == optional.none() && [1][?3].orValue(9) == 9",
        "{'a': {'b': 1}}.?a.b.orValue(0) == 1 && {'a': {'b': 1}}.?c.b.orValue(0) == 0",
        "[?optional.of(1), ?optional.none(), 2] == [1, 2] && {?'a': optional.none(), 'b': 1} == {'b': 1}",
        "optional.of(1).optMap(i, i + 1) == optional.of(2) && !optional.none().optMap(i, i).hasValue()",
        "{'a': 1}.?a.optFlatMap(i, optional.of(i + 1)).value() == 2",
        "optional.ofNonZeroValue('') == optional.none() && optional.none().or(optional.of(1)).value() == 1",
        "[optional.of(1), optional.none()].unwrapOpt() == [1] && has({'a': {'b': 1}}.?a.b)",
        # formats
        "'%s %d %x %X %o %b %%'.format(['a', 1, 255, 255, 8, 5]) == 'a 1 ff FF 10 101 %'",
        "'%.3f %e'.format([1.23456, 1234.5]) == '1.235 1.234500\u00d710\u2070\u00b3'",
        "'%s'.format([[1, 'a', {'k': 1.5, 'b': true}]]) == '[1, \"a\", {\"b\":true, \"k\":1.500000}]'",
        "'%s %s'.format([duration('1s'), timestamp('2020-01-01T00:00:00Z')]) == '1s 2020-01-01T00:00:00Z'",
        "'%x'.format(['hi']) == '6869' && '%s'.format([null]) == 'null' && '%s'.format([int]) == 'int'",
        # regular expressions
        "'abc123'.find('[0-9]+') == '123' && 'a1b2c3'.findAll('[0-9]', 2) == ['1', '2'] && 'x'.find('y') == ''",
        "'hello'.matches('ell') && !'hello'.matches('^ell') && matches('a\\nb', 'a$') == false",
        # names
        "cel.bind(z, [1, 2], z + z) == [1, 2, 1, 2]",
        "[1, 2].exists(i, [3].exists(i, i == 3))",
        "{'if': 1}['if'] == 1 && has({'in': 1}.`in`)",
        'strings.quote(\'a\\n"b"\') == \'"a\\\\n\\\\"b\\\\""\'',
        "lists.range(3) == [0, 1, 2] && [[[1], [2]], [[3]]].flatten(2) == [1, 2, 3]",
    ],
)
def test_the_specification_by_examples(text: str) -> None:
    """Each of these is true."""
    assert value(text) is True


def test_an_exceeded_budget_stops_the_evaluation() -> None:
    """An evaluation above its budget stops with its cost, and no operator absorbs the error."""
    program = ENVIRONMENT.compile("l.all(i, l.all(j, i + j >= 0)) || true")
    outcome = program.run({"l": list(range(1000))}, limit=1000)
    assert isinstance(outcome.error, CelBudgetError)
    assert 1000 < outcome.cost < 1100
    assert program.run({"l": [1]}, limit=1000).value is True


@pytest.mark.parametrize(
    "text", ["'aaaa'.replace('', s)", "lists.range(1000000000)", "[s, s].join(s)", "l.map(i, s + s).join(s)"]
)
def test_memory_is_bounded(text: str) -> None:
    """No expression makes values far larger than what it was given."""
    outcome = ENVIRONMENT.compile(text).run({"s": "x" * 60_000_000, "l": [1] * 50}, limit=10_000_000)
    assert isinstance(outcome.error, CelBudgetError)


def test_regular_expressions_are_linear() -> None:
    """A pattern that takes backtracking engines ages is not an attack."""
    assert value("('a' + s).matches('^(a+)+$')", s="a" * 5000 + "b") is False


def test_invalid_constant_conversions_fail_at_compile_time() -> None:
    """A constant conversion that fails is a compile error."""
    with pytest.raises(CelCompileError, match="program instantiation failed: type conversion error from 'string' to"):
        ENVIRONMENT.compile("int('x') == 1")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_survive_their_texts(number: float) -> None:
    """A number is the same after it was a text."""
    assert value("double(string(x))", x=number) == number
    assert not math.isnan(value("x + 0.0", x=number))


def test_values_of_unknown_kinds_are_refused() -> None:
    """A Python value without CEL type is an evaluation error."""
    assert "unsupported value" in failure("d == 1", d=object())
    assert value("d == 1", d=Optional.none()) is False


@pytest.mark.parametrize("call", ["'a'.find(')')", "'a'.findAll('(', 1)", "'a'.find('[')"])
def test_searches_for_what_is_no_expression_cannot_begin(call: str) -> None:
    """A constant is read before anything is evaluated."""
    with pytest.raises(CelCompileError, match="program instantiation failed: error parsing regexp: "):
        value(call)
