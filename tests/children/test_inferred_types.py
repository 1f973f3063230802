"""Types of unstructured custom resources, inferred from what an earlier apply owns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.children.field_types import FieldType, custom_type
from opsdk.children.inferred_types import inferred_type
from opsdk.children.ownership import fields_to_own
from opsdk.structured_merge.fieldpath import EMPTY

TEXT = {"type": "string"}
KEYED = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"]}
ITEM = {"type": "object", "properties": {"name": TEXT, "port": {"type": "integer", "default": 80}, "note": TEXT}}
SCHEMA = {
    "type": "object",
    "properties": {
        "struct": {"type": "object", "properties": {"a": TEXT, "b": {"type": "object", "properties": {"c": TEXT}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": TEXT}}},
        "atom": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": TEXT}},
        "list": {"type": "array", "items": ITEM},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
        "keyed": {**KEYED, "items": ITEM},
        "text": TEXT,
    },
}
LETTERS = st.sampled_from("xyz")
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "struct": st.fixed_dictionaries(
            {}, optional={"a": LETTERS, "b": st.fixed_dictionaries({}, optional={"c": LETTERS})}
        ),
        "map": st.dictionaries(LETTERS, st.fixed_dictionaries({}, optional={"a": LETTERS}), max_size=2),
        "atom": st.fixed_dictionaries({}, optional={"a": LETTERS}),
        "list": st.lists(st.fixed_dictionaries({"name": LETTERS}), max_size=2),
        "set": st.lists(LETTERS, unique=True, max_size=2),
        "keyed": st.lists(LETTERS, unique=True, max_size=2).map(
            lambda names: [{"name": name, "note": "n"} for name in names]
        ),
        "text": LETTERS,
    },
)


@given(OBJECTS)
def test_an_object_that_was_applied_owns_the_same_again(obj: Any) -> None:
    """For any schema, the type that owned fields imply yields the same owned fields."""
    owned = fields_to_own(obj, custom_type(SCHEMA).schema)
    assert fields_to_own(obj, inferred_type(owned, obj).schema) == owned


@given(OBJECTS, OBJECTS)
def test_another_desired_object_never_owns_the_same(first: Any, second: Any) -> None:
    """If an apply of the second object would own other fields, the inferred type shows a difference of owned fields.

    An empty value cannot tell whether it is atomic, so objects with empty values are left out.
    """
    if _has_empty(first) or _has_empty(second):
        return
    schema = custom_type(SCHEMA).schema
    owned = fields_to_own(first, schema)
    if fields_to_own(second, schema) != owned:
        assert fields_to_own(second, inferred_type(owned, second).schema) != owned


def _has_empty(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value in ({}, []) or any(map(_has_empty, parts))


@pytest.mark.parametrize(("items", "defaulted"), [([{"name": "a"}], True), ([{"name": "a", "port": 1}], False)])
def test_keys_that_items_leave_out_have_their_default(items: Any, defaulted: bool) -> None:
    """The owned elements have the defaults of keys."""
    desired = {"keyed": items}
    owned = fields_to_own(desired, custom_type(SCHEMA).schema)
    keyed: FieldType = inferred_type(owned, desired).field("keyed")
    assert keyed.schema.list_keys == ("name", "port")
    assert (keyed.schema.key_defaults == {"port": 80}) is defaulted


def test_what_was_never_applied_is_untyped() -> None:
    """Objects are granular, lists are atomic."""
    desired = {"a": {"b": [1]}}
    assert fields_to_own(desired, inferred_type(EMPTY, desired).schema) == fields_to_own(
        desired, custom_type({"type": "object", "x-kubernetes-preserve-unknown-fields": True}).schema
    )
