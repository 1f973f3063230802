"""Equality of JSON trees."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from opsdk.structured_merge.equality import deep_equal, strict_equal
from tests.structured_merge.json_values import trees


@given(trees())
def test_a_copy_is_equal(tree: Any) -> None:
    """Equality does not depend on identity."""
    assert deep_equal(tree, copy.deepcopy(tree))


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        ([1], [True], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": None}, {}, False),
        ([1, 2], [2, 1], False),
        ("1", 1, False),
        (None, False, False),
        ({}, [], False),
    ],
)
def test_equality_is_that_of_json(a: Any, b: Any, same: bool) -> None:
    """Numbers are equal by value, and booleans are not numbers."""
    assert deep_equal(a, b) is same
    assert deep_equal(b, a) is same


@given(trees())
def test_a_copy_is_written_alike(tree: Any) -> None:
    """Being written alike does not depend on identity, and is more than being equal."""
    other = copy.deepcopy(tree)
    assert strict_equal(tree, other)


@pytest.mark.parametrize(
    ("a", "b"), [(1, 1.0), (1, True), ({"a": [1]}, {"a": [1.0]}), ({}, {"a": None}), ([0], [False])]
)
def test_numbers_of_another_type_are_not_written_alike(a: Any, b: Any) -> None:
    """An int and a float of the same value differ at any depth."""
    assert not strict_equal(a, b)
    assert not strict_equal(b, a)
