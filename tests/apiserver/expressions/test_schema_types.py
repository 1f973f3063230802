"""Laws of the types and values that schemas give to expressions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.expressions.escaping import escape
from opsdk.apiserver.expressions.schema_types import MAX_REQUEST, SchemaDeclarations, declare
from opsdk.apiserver.expressions.schema_values import converter
from opsdk.cel.declarations import Range
from opsdk.cel.values import Timestamp, contains, equal
from opsdk.structured_merge.value import JsonObject

INTEGER, STRING = {"type": "integer"}, {"type": "string"}


def declared(schema: JsonObject) -> SchemaDeclarations:
    """The type of a schema that has one."""
    result = declare(schema, "selfType")
    assert result is not None
    return result


def bound(schema: JsonObject, tree: Any) -> Any:
    """A tree as expressions see it."""
    return converter(schema, declared(schema).type)(tree)


@pytest.mark.parametrize(
    ("schema", "type_", "most"),
    [
        (INTEGER, "int", 0),
        ({"type": "number"}, "double", 0),
        ({"type": "boolean"}, "bool", 0),
        (STRING, "string", MAX_REQUEST - 2),
        ({**STRING, "maxLength": 10}, "string", 40),
        ({**STRING, "enum": ["a", "long"]}, "string", 4),
        ({**STRING, "format": "date-time"}, "timestamp", 32),
        ({**STRING, "format": "date"}, "timestamp", 12),
        ({**STRING, "format": "duration"}, "duration", 32),
        ({**STRING, "format": "byte", "maxLength": 10}, "bytes", 10),
        ({**STRING, "format": "uuid"}, "string", MAX_REQUEST - 2),
        ({"x-kubernetes-int-or-string": True}, "dyn", MAX_REQUEST - 2),
        ({"x-kubernetes-int-or-string": True, "maxLength": 5}, "dyn", 20),
        ({"type": "array", "items": INTEGER}, "list(int)", (MAX_REQUEST - 2) // 2),
        ({"type": "array", "items": STRING, "maxItems": 7}, "list(string)", 7),
        ({"type": "object", "additionalProperties": STRING}, "map(string, string)", (MAX_REQUEST - 2) // 8),
        ({"type": "object", "additionalProperties": INTEGER, "maxProperties": 3}, "map(string, int)", 3),
        ({"type": "object", "properties": {"a": INTEGER}}, "selfType", 0),
    ],
)
def test_types_and_sizes(schema: JsonObject, type_: str, most: int) -> None:
    """Each kind of schema has a type and a bound."""
    result = declared(schema)
    assert (str(result.type), result.max_elements) == (type_, most)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "array"},
        {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}},
        {"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True}},
    ],
)
def test_what_has_no_type_is_not_seen(schema: JsonObject) -> None:
    """Expressions cannot use fields without a declared type."""
    assert declare(schema, "selfType") is None
    assert list(declared({"type": "object", "properties": {"a": schema, "b": INTEGER}}).fields) == ["b"]


def test_required_fields_make_objects_longer() -> None:
    """The shortest JSON counts what must be there and has no default; so fewer fit into a request."""
    inner = {
        "type": "object",
        "properties": {"name": STRING, "n": {**INTEGER, "default": 1}},
        "required": ["name", "n"],
    }
    result = declared({"type": "array", "items": inner})
    assert result.element is not None
    assert result.element.min_serialized_size == 2 + len("name") + 2 + 4
    assert result.max_elements == (MAX_REQUEST - 2) // (result.element.min_serialized_size + 1)


def test_paths_lead_to_sizes() -> None:
    """The size of a value is found by its path."""
    element = {"type": "object", "properties": {"a": {**STRING, "maxLength": 3}}}
    result = declared({"type": "object", "properties": {"l": {"type": "array", "maxItems": 9, "items": element}}})
    assert result.size(("self", "l")) == Range(0, 9)
    assert result.size(("oldSelf", "l", "@items", "a")) == Range(0, 12)
    assert result.size(("self", "l", "@keys")) == Range(0, 0)
    assert result.size(("self", "nope")) is None
    assert result.size(("self", "l", "@items", "a", "@items")) is None


@given(st.text(st.sampled_from("ab_-./1 "), max_size=6), st.text(st.sampled_from("ab_-./1 "), max_size=6))
def test_escaped_names_are_identifiers_and_tell_apart(one: str, other: str) -> None:
    """Escaped names are identifiers, and different names have different escapes."""
    first, second = escape(one), escape(other)
    assert first is None or first.isidentifier()
    assert first is None or (first == second) == (one == other)


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("a.b", "a__dot__b"),
        ("a-b", "a__dash__b"),
        ("a/b", "a__slash__b"),
        ("a__b", "a__underscores__b"),
        ("namespace", "__namespace__"),
        ("self", "self"),
        ("1a", None),
        ("ä", None),
        ("", None),
    ],
)
def test_property_names_are_escaped_for_cel(name: str, escaped: str | None) -> None:
    """Property names are escaped as in k8s.io/apiserver; names that no escape can express give None."""
    assert escape(name) == escaped


def test_values_are_converted_where_they_are_looked_at() -> None:
    """Nested values get the type of their format; undeclared fields are absent."""
    schema = {
        "type": "object",
        "properties": {
            "times": {"type": "array", "items": {**STRING, "format": "date"}},
            "by": {"type": "object", "additionalProperties": {"type": "number"}},
        },
    }
    value = bound(schema, {"times": ["1970-01-02"], "by": {"a": 1}, "hidden": 1})
    assert list(value.find("times").value) == [Timestamp(86400 * 10**9)]
    assert isinstance(value.find("by").value["a"], float)
    assert not value.find("hidden").has_value
    assert value.size() == 3


KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "properties": {"k": INTEGER, "v": INTEGER}},
}
ELEMENTS = st.dictionaries(st.integers(0, 5), st.integers(0, 3), max_size=5).map(
    lambda found: [{"k": k, "v": v} for k, v in found.items()]
)


@given(ELEMENTS, ELEMENTS)
def test_lists_with_keys_add_like_maps(one: list[Any], other: list[Any]) -> None:
    """For map lists, + is a merge by key: later elements win, and order does not matter."""
    first, right = bound(KEYED, one), bound(KEYED, other)
    merged = {e["k"]: e["v"] for e in one} | {e["k"]: e["v"] for e in other}
    assert equal(first.plus(right), bound(KEYED, [{"k": k, "v": v} for k, v in reversed(merged.items())]))
    assert equal(first, bound(KEYED, one[::-1]))
    assert equal(first, right) is (sorted(map(str, one)) == sorted(map(str, other)))


SET = {"type": "array", "x-kubernetes-list-type": "set", "items": INTEGER}


@given(st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)))
def test_sets_add_like_sets(one: set[int], other: set[int]) -> None:
    """Union and equality are those of sets."""
    first, right = bound(SET, list(one)), bound(SET, sorted(other, reverse=True))
    assert set(first.plus(right)) == one | other
    assert len(first.plus(right)) == len(one | other)
    assert equal(first, right) is (one == other)
    assert all(contains(first, element) for element in one)
