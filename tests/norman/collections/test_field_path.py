"""Field paths, and the values of objects at them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from opsdk.norman.collections.field_path import cell_at, order_text


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
