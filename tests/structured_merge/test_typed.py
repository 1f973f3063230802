"""Structured merge: fields, comparison, merging, removing."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.errors import PatchError
from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.fieldpath import EMPTY, FieldSet, format_path
from opsdk.structured_merge.schema import UNKNOWN, structural_schema
from opsdk.structured_merge.typed import (
    Comparison,
    check_typed,
    compare,
    ensure_named_fields_are_members,
    merge,
    remove_items,
    to_field_set,
)
from tests.structured_merge.schemas import WIDGET_SCHEMA, WORK

WIDGET = structural_schema(WIDGET_SCHEMA)
UNKEYED = "associative list without keys has an element that's"
KEYED = "associative list with keys may not have"
NO_NUMBER = "expected numeric (int or float), got string"
NO_STRING = "expected string, got &value.valueUnstructured{Value:1}"
STRINGS = st.sampled_from("xyz")
PORTS = st.lists(
    st.fixed_dictionaries({"port": st.integers(1, 3)}, optional={"name": STRINGS, "protocol": st.just("UDP")}),
    max_size=3,
    unique_by=lambda port: (port["port"], port.get("protocol")),
)
WIDGETS = st.fixed_dictionaries(
    {},
    optional={
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "size": st.integers(0, 2),
                "plain": st.lists(STRINGS, max_size=2),
                "tags": st.lists(STRINGS, unique=True, max_size=3),
                "free": st.dictionaries(STRINGS, STRINGS, max_size=2),
                "solid": st.dictionaries(st.sampled_from("ab"), STRINGS, max_size=2),
                "ports": PORTS,
                "any": st.recursive(STRINGS, lambda below: st.dictionaries(STRINGS, below, max_size=2), max_leaves=4),
            },
        )
    },
)


def texts(fields: FieldSet) -> list[str]:
    """The paths, readable."""
    return [format_path(path) for path in fields]


@given(WIDGETS)
def test_a_value_does_not_differ_from_itself(value: Any) -> None:
    """Comparing with a copy finds nothing."""
    assert compare(value, copy.deepcopy(value), WIDGET) == Comparison(EMPTY, EMPTY, EMPTY)


@given(WIDGETS, WIDGETS)
def test_comparison_has_a_direction(old: Any, new: Any) -> None:
    """Swapping the arguments of a comparison swaps added and removed."""
    there, back = compare(old, new, WIDGET), compare(new, old, WIDGET)
    assert (there.added, there.modified, there.removed) == (back.removed, back.modified, back.added)


@given(WIDGETS, WIDGETS)
def test_merging_sets_everything_applied_and_loses_nothing(live: Any, applied: Any) -> None:
    """Afterwards every applied field has its applied value, and every live field is there."""
    before = copy.deepcopy((live, applied))
    merged = merge(live, applied, WIDGET)
    assert before == (live, applied)
    change = compare(merged, applied, WIDGET)
    expected = to_field_set(applied, WIDGET)
    assert not (change.modified & expected)
    assert not change.added
    assert (
        not (to_field_set(live, WIDGET).leaves() - to_field_set(merged, WIDGET).leaves()).leaves() & expected.leaves()
    )


@given(WIDGETS, WIDGETS)
def test_merging_twice_is_merging_once(live: Any, applied: Any) -> None:
    """Merging is idempotent."""
    once = merge(live, applied, WIDGET)
    assert deep_equal(merge(once, applied, WIDGET), once)


@given(WIDGETS)
def test_removing_all_fields_leaves_none(value: Any) -> None:
    """After removing what is owned nothing is owned."""
    fields = ensure_named_fields_are_members(to_field_set(value, WIDGET), WIDGET)
    assert to_field_set(remove_items(value, fields, WIDGET), WIDGET).is_empty


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ({"data": {"x": "1"}}, [".data.x"]),
        ({"data": {}}, [".data"]),
        ({"data": None}, [".data"]),
        ({"metadata": {"finalizers": []}}, []),
        ({"metadata": {"finalizers": ["b", "a"]}}, ['.metadata.finalizers[="a"]', '.metadata.finalizers[="b"]']),
        ({"metadata": {"ownerReferences": [{"uid": "u", "name": "n"}]}}, ['.metadata.ownerReferences[uid="u"]']),
        ({"spec": {"nodeSelector": {"a": "1"}, "replicas": 1}}, [".spec.nodeSelector", ".spec.replicas"]),
        (
            {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}},
            [
                '.spec.containers[name="c"]',
                '.spec.containers[name="c"].name',
                '.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"]',
                '.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"].containerPort',
            ],
        ),
        ({"spec": {"anything": {"k": {"l": 1}}}}, [".spec.anything.k", ".spec.anything.k.l"]),
        ({"spec": {"anything": [1]}}, [".spec.anything"]),
    ],
)
def test_the_fields_of_a_value(value: Any, fields: list[str]) -> None:
    """Named fields count by content, entries and elements also themselves, atomic values as a whole."""
    assert texts(to_field_set(value, WORK)) == fields


@pytest.mark.parametrize(
    ("live", "applied", "order"),
    [
        ("abc", "cd", "abcd"),
        ("abc", "ca", "bca"),
        ("abc", "xa", "xabc"),
        ("", "ba", "ba"),
        ("ab", "", "ab"),
        ("abc", "da", "dabc"),
    ],
)
def test_applied_order_wins_and_the_rest_stays_in_place(live: str, applied: str, order: str) -> None:
    """Shared elements take the applied order; what only the live list has keeps its own."""
    merged = merge({"spec": {"tags": list(live)}}, {"spec": {"tags": list(applied)}}, WIDGET)
    assert "".join(merged["spec"]["tags"]) == order


def test_null_does_not_empty_an_object() -> None:
    """An applied null owns the field, and removes nothing that others put into it."""
    assert merge({"data": {"x": "1"}}, {"data": None}, WORK) == {"data": {"x": "1"}}
    assert merge({"a": {"x": "1"}}, {"a": None}, UNKNOWN) == {"a": {"x": "1"}}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"spec": {"tags": ["x", "x"]}}, '.spec.tags: duplicate entries for key [="x"]'),
        (
            {"spec": {"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]}},
            '.spec.ports: duplicate entries for key [port=80,protocol="TCP"]',
        ),
        ({"spec": {"unknown": 1}}, ".spec.unknown: field not declared in schema"),
        ({"spec": {"size": "x"}}, f".spec.size: {NO_NUMBER}"),
        ({"spec": {"free": {"k": 1}}}, f".spec.free.k: {NO_STRING}"),
        ({"spec": {"plain": {}}}, ".spec.plain: expected list, got &{map[]}"),
        ({"spec": []}, ".spec: expected map, got &{[]}"),
        ({"spec": {"tags": [None]}}, f".spec.tags: element 0: {UNKEYED} an explicit null"),
        ({"spec": {"ports": ["x"]}}, f".spec.ports: element 0: {KEYED} non-map elements"),
        (
            {"spec": {"size": "x", "free": {"k": 1}}},
            f"errors:\n  .spec.size: {NO_NUMBER}\n  .spec.free.k: {NO_STRING}",
        ),
    ],
)
def test_errors_of_types_have_the_words_of_the_server(value: Any, message: str) -> None:
    """Errors name the path and the expected type, in the server's words."""
    with pytest.raises(PatchError) as caught:
        check_typed(value, WIDGET)
    assert str(caught.value) == message


def test_live_duplicates_are_tolerated_and_kept() -> None:
    """An object that got duplicates before must still be writable."""
    live = {"spec": {"tags": ["x", "x", "y"]}}
    check_typed(live, WIDGET, allow_duplicates=True)
    assert merge(live, {"spec": {"tags": ["z"]}}, WIDGET)["spec"]["tags"] == ["x", "x", "y", "z"]
    assert merge(live, {"spec": {"tags": ["x"]}}, WIDGET)["spec"]["tags"] == ["x", "y"]
    assert compare(live, {"spec": {"tags": ["x", "y"]}}, WIDGET).modified
