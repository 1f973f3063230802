"""Changes of trees: what a change holds, and what its merge does not touch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.engine.tree_changes import TreeChange, change_between, merged, without_fields

NAMES = st.sampled_from(["a", "b", "c"])
LEAVES = st.integers(0, 3) | st.sampled_from(["x", "y"]) | st.lists(st.integers(0, 3), max_size=3)
ITEMS = st.lists(st.fixed_dictionaries({"name": NAMES}, optional={"value": st.integers(0, 3)}), max_size=3)
UNIQUE_ITEMS = ITEMS.map(lambda items: list({item["name"]: item for item in items}.values()))
TREES = st.dictionaries(
    NAMES, LEAVES | UNIQUE_ITEMS | st.dictionaries(NAMES, LEAVES, min_size=1, max_size=3), max_size=3
)


def unordered(tree: Any) -> Any:
    """Return a tree with named items in the order of their names."""
    if isinstance(tree, dict):
        return {name: unordered(value) for name, value in tree.items()}
    if isinstance(tree, list) and all(isinstance(item, dict) for item in tree):
        return sorted(map(unordered, tree), key=lambda item: str(item["name"]))
    return tree


@given(TREES, TREES)
def test_a_change_leads_from_one_tree_to_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Up to the order of named items."""
    assert unordered(merged(before, change_between(before, after))) == unordered(after)


@given(TREES, TREES)
def test_equal_trees_have_no_change(tree: dict[str, Any], other: dict[str, Any]) -> None:
    """And a change of nothing changes nothing."""
    assert not change_between(tree, tree)
    assert merged(other, TreeChange({}, {})) == other


@given(TREES, TREES, st.integers())
def test_other_fields_stay(before: dict[str, Any], after: dict[str, Any], value: int) -> None:
    """A field that the change does not touch keeps the value of the other tree."""
    current = {**before, "own": value, "owned": {"x": value}}
    remaining = merged(current, change_between(before, after))
    assert (remaining["own"], remaining["owned"]) == (value, {"x": value})


@given(TREES, TREES)
def test_without_the_fields_of_its_result_a_change_has_only_removals(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    """What another writer set is not a part of it."""
    remaining = without_fields(change_between(before, after), {}, after)
    assert not remaining.after


@pytest.mark.parametrize(
    ("before", "after", "current", "expected"),
    [
        # Conditions of two writers.
        (
            {"conditions": [{"type": "Ready", "status": "False"}]},
            {"conditions": [{"type": "Ready", "status": "True"}]},
            {"conditions": [{"type": "Own", "status": "x"}, {"type": "Ready", "status": "False"}]},
            {"conditions": [{"type": "Own", "status": "x"}, {"type": "Ready", "status": "True"}]},
        ),
        # A finalizer of one, and that of another.
        ({"finalizers": ["a", "b"]}, {"finalizers": ["b"]}, {"finalizers": ["own", "a"]}, {"finalizers": ["own"]}),
        # A map that goes takes only its own members along.
        ({"labels": {"a": "1"}}, {}, {"labels": {"a": "1", "own": "2"}}, {"labels": {"own": "2"}}),
        # A map that comes joins the one that is there.
        ({}, {"labels": {"a": "1"}}, {"labels": {"own": "2"}}, {"labels": {"own": "2", "a": "1"}}),
        # A list without names is replaced.
        ({"args": ["a"]}, {"args": ["b"]}, {"args": ["own"]}, {"args": ["b"]}),
        # An item that is gone stays gone, and a field of one that is not there comes with its name.
        (
            {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 1}]},
            {"ports": [{"name": "b", "port": 2}]},
            {"ports": [{"name": "own", "port": 3}]},
            {"ports": [{"name": "own", "port": 3}, {"name": "b", "port": 2}]},
        ),
    ],
)
def test_fields_of_two_writers(before: Any, after: Any, current: Any, expected: Any) -> None:
    """Each keeps its own."""
    assert merged(current, change_between(before, after)) == expected
