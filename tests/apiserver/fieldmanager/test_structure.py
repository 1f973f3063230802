"""Objects with equal structure set the same fields."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.fieldmanager.field_manager import FieldManager
from opsdk.apiserver.fieldmanager.structure import UnboundedStructureError, structure_of
from opsdk.structured_merge.value import JsonObject
from tests.structured_merge.json_values import trees
from tests.structured_merge.schemas import WORK

VALUES = st.none() | st.sampled_from(["", "x", "y", 0, 0.0, 1, 2, False, True]) | trees()
ITEMS = st.lists(st.dictionaries(st.sampled_from(["name", "image", "args"]), VALUES, max_size=3), max_size=3)
SPECS = st.dictionaries(
    st.sampled_from(["replicas", "paused", "selector", "nodeSelector", "containers", "volumes", "anything", "raw"]),
    VALUES | ITEMS,
    max_size=4,
)
METADATA = st.fixed_dictionaries(
    {"name": st.just("a")},
    optional={"labels": VALUES, "creationTimestamp": st.none(), "finalizers": st.lists(st.sampled_from("ab"))},
)
OBJECTS = st.fixed_dictionaries(
    {"apiVersion": st.just("example.com/v1"), "kind": st.just("Work"), "metadata": METADATA},
    optional={"spec": SPECS | VALUES, "data": VALUES},
)


def manager() -> FieldManager:
    """Return a manager that remembers nothing."""
    return FieldManager(shape=WORK, api_version="example.com/v1")


@pytest.mark.slow
@given(st.lists(OBJECTS, max_size=12))
def test_remembered_fields_are_those_of_a_comparison(objects: list[JsonObject]) -> None:
    """A manager that has seen other objects gives a new one the same owners as a manager that has seen none."""
    remembering = manager()
    for obj in [*objects, *objects]:
        alone = manager().update(None, obj, manager="m", now="2026-01-01T00:00:00Z")
        assert remembering.update(None, obj, manager="m", now="2026-01-01T00:00:00Z") == alone


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": "x", "b": 1}, {"a": "y", "b": 2}, True),
        ({"a": "x"}, {"a": ""}, False),
        ({"a": ""}, {"a": None}, False),
        ({"a": 0}, {"a": False}, False),
        ({"a": {}}, {"a": []}, False),
        ({"a": ["x"]}, {"a": ["y"]}, False),
        ({"a": [1]}, {"a": [True]}, False),
        ({"a": [{"name": "x"}]}, {"a": [{"name": "y"}]}, False),
        ({"a": {"b": "x"}}, {"a": "x"}, False),
    ],
)
def test_a_structure_has_all_that_fields_depend_on(one: Any, other: Any, *, same: bool) -> None:
    """A structure has keys, emptiness and list elements of an object, but no other value."""
    assert (structure_of(one) == structure_of(other)) == same


@pytest.mark.parametrize("value", [["x"] * 65, ["x" * 257], {"a": [{"b": "x" * 257}]}])
def test_large_structures_are_not_remembered(value: Any) -> None:
    """A structure holds the contents of lists, so a large one has none."""
    with pytest.raises(UnboundedStructureError):
        structure_of(value)
    assert structure_of({"a": "x" * 10_000}) == structure_of({"a": "x"})
