"""Filters: round trips, and conditions against a naive evaluation."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.norman.collections.field_path import Cell, texts
from opsdk.norman.collections.filter import FilterCondition, FilterOperator, OrFilter
from opsdk.norman.errors import NormanError
from opsdk.norman.steve.filter_language import parse_filter

names = st.text(st.characters(codec="utf-8", exclude_characters="[]"), min_size=1, max_size=6)
paths = st.lists(names, min_size=1, max_size=3).map(tuple)
words = st.text(max_size=6)
numbers = st.one_of(st.integers(-99, 99), st.decimals(-9, 9, places=2)).map(str)
conditions = st.one_of(
    st.builds(FilterCondition, paths, st.sampled_from([FilterOperator.EXISTS, FilterOperator.NOT_EXISTS])),
    st.builds(
        FilterCondition,
        paths,
        st.sampled_from(
            [FilterOperator.EQUALS, FilterOperator.NOT_EQUALS, FilterOperator.CONTAINS, FilterOperator.NOT_CONTAINS]
        ),
        st.tuples(words),
    ),
    st.builds(
        FilterCondition,
        paths,
        st.sampled_from([FilterOperator.IN, FilterOperator.NOT_IN]),
        st.sets(words, min_size=1, max_size=3).map(lambda values: tuple(sorted(values))),
    ),
    st.builds(
        FilterCondition, paths, st.sampled_from([FilterOperator.LESS, FilterOperator.GREATER]), st.tuples(numbers)
    ),
)
filters = st.lists(conditions, min_size=1, max_size=4).map(OrFilter)
scalars = st.one_of(st.text(max_size=3), st.integers(-99, 99), st.booleans())
cells = st.one_of(st.none(), scalars, st.lists(scalars, min_size=2, max_size=3).map(tuple))


@given(filters)
def test_a_filter_is_what_its_text_is_read_as(item: OrFilter) -> None:
    """Parsing a filter is the inverse of formatting."""
    assert parse_filter(str(item)) == item


def plainly(condition: FilterCondition, cell: Cell) -> bool:
    """One condition, word by word."""
    values = texts(cell)
    first = condition.values[0] if condition.values else ""
    match condition.operator:
        case FilterOperator.EQUALS:
            return any(value == first for value in values)
        case FilterOperator.NOT_EQUALS:
            return all(value != first for value in values)
        case FilterOperator.CONTAINS:
            return any(first in value for value in values)
        case FilterOperator.NOT_CONTAINS:
            return all(first not in value for value in values)
        case FilterOperator.IN:
            return any(value in condition.values for value in values)
        case FilterOperator.NOT_IN:
            return all(value not in condition.values for value in values)
        case FilterOperator.EXISTS:
            return bool(values)
        case FilterOperator.NOT_EXISTS:
            return not values
        case _:
            numbers = [float(value) for value in values if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", value)]
            return any(
                n < float(first) if condition.operator is FilterOperator.LESS else n > float(first) for n in numbers
            )


@given(conditions, cells)
def test_a_condition_decides_as_its_words_say(condition: FilterCondition, cell: Cell) -> None:
    """One value of a list satisfies a positive condition; a negative one needs all values."""
    assert condition.test()(cell) == plainly(condition, cell)


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("a=b", FilterCondition(("a",), FilterOperator.EQUALS, ("b",))),
        ("a == 'b, c'", FilterCondition(("a",), FilterOperator.EQUALS, ("b, c",))),
        ("a.b!=c", FilterCondition(("a", "b"), FilterOperator.NOT_EQUALS, ("c",))),
        ("a ~ x", FilterCondition(("a",), FilterOperator.CONTAINS, ("x",))),
        ("a!~x", FilterCondition(("a",), FilterOperator.NOT_CONTAINS, ("x",))),
        ("a IN (c, b,'')", FilterCondition(("a",), FilterOperator.IN, ("", "b", "c"))),
        ("a notin(b)", FilterCondition(("a",), FilterOperator.NOT_IN, ("b",))),
        ("metadata.fields[3]>10", FilterCondition(("metadata", "fields", "3"), FilterOperator.GREATER, ("10",))),
        ("a lt 2", FilterCondition(("a",), FilterOperator.LESS, ("2",))),
        (
            "!metadata.labels[cattle.io/x=y]",
            FilterCondition(("metadata", "labels", "cattle.io/x=y"), FilterOperator.NOT_EXISTS),
        ),
        ("metadata.labels.cattle.io/x", FilterCondition(("metadata", "labels", "cattle.io/x"), FilterOperator.EXISTS)),
        (r'a="b\"c"', FilterCondition(("a",), FilterOperator.EQUALS, ('b"c',))),
        ("a=in", FilterCondition(("a",), FilterOperator.EQUALS, ("in",))),
    ],
)
def test_every_spelling_of_steve_is_read(text: str, condition: FilterCondition) -> None:
    """The parser accepts steve's operators, aliases, quotes, brackets and white space."""
    assert parse_filter(text) == (condition,)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("a=", 2),
        ("a=b c", 4),
        ("a=b,", 4),
        ("a in b", 5),
        ("a in (b", 7),
        ("a>b", 2),
        ("a='b", 2),
        ("a..b=c", 0),
        ("(a)", 0),
    ],
)
def test_a_malformed_filter_is_refused_with_the_parameter_and_the_position(text: str, position: int) -> None:
    """A malformed filter is a 400 with parameter and position."""
    with pytest.raises(NormanError, match=f"'filter', position {position}:") as caught:
        parse_filter(text)
    assert (caught.value.status, caught.value.field_name) == (400, "filter")


@given(st.text(max_size=30))
def test_any_text_is_a_filter_or_a_typed_error(text: str) -> None:
    """Any string is a filter or a `NormanError`."""
    with contextlib.suppress(NormanError):
        item = parse_filter(text)
        assert parse_filter(str(item)) == item
