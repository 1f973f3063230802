"""Field paths, and the values of objects at them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.norman.collections.field_path import FieldPath, cell_at, format_path, order_text, parse_path

names = st.text(st.characters(codec="utf-8", exclude_characters="[]"), min_size=1, max_size=8)
paths = st.one_of(
    st.lists(st.one_of(names, st.sampled_from(["metadata", "labels", "a-b"])), min_size=1, max_size=5).map(tuple),
    st.lists(names, max_size=3).map(lambda rest: ("metadata", "labels", *rest)),
)


@given(paths)
def test_a_path_is_what_its_text_is_read_as(path: FieldPath) -> None:
    """Parsing a path is the inverse of formatting."""
    assert parse_path(format_path(path)) == path


@pytest.mark.parametrize("text", ["", ".", "a.", "a..b", "a[b", "a[]", "metadata.labels.a[b]"])
def test_a_malformed_path_is_refused_with_its_position(text: str) -> None:
    """Empty names and open brackets are errors."""
    with pytest.raises(ValueError, match=r"at \d+"):
        parse_path(text)


def test_a_label_may_have_dots_and_slashes_without_brackets() -> None:
    """Below metadata.labels and metadata.annotations the rest of the text is one name."""
    assert parse_path("metadata.labels.app.kubernetes.io/name") == ("metadata", "labels", "app.kubernetes.io/name")


def test_a_path_through_a_list_has_the_values_of_all_items_or_of_one() -> None:
    """A number chooses an item, and any other name goes into all of them."""
    tree = {"a": [{"b": 1}, {"b": [2, 3]}, {"c": 4}]}
    assert cell_at(tree, ("a", "b")) == (1, 2, 3)
    assert cell_at(tree, ("a", "1", "b")) == (2, 3)
    assert cell_at(tree, ("a", "7", "b")) is None
    assert cell_at(tree, ("a", "c")) == 4
    assert cell_at(tree, ("a",)) is None


@given(st.lists(st.one_of(st.integers(-(10**9), 10**9), st.floats(-1e9, 1e9).map(lambda f: round(f, 3)))))
def test_numbers_sort_by_value(numbers: list[float]) -> None:
    """The order keys of numbers sort by value."""
    assert sorted(numbers, key=order_text) == sorted(numbers)


def test_what_an_object_holds_cannot_break_a_list() -> None:
    """Hostile values, such as a huge index, deep lists and huge numbers, still have cells."""
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    assert cell_at({"a": deep}, ("a",)) is None
    assert cell_at({"a": ["x"]}, ("a", "9" * 5000)) is None
    numbers = [-(10**400), -1e308, -1, 0, 1e-200, 1, 1e308, 10**400]
    assert sorted(numbers, key=order_text) == numbers
    while isinstance(deep, list):  # freed from the outside: a deep list is freed recursively
        deep = deep.pop()
