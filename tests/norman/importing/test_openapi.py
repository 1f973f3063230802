"""Schemas from OpenAPI."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.norman.importing.openapi import OpenApiImporter
from opsdk.norman.importing.registration import finish
from opsdk.norman.model import Schema
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import Field
from opsdk.structured_merge.value import JsonObject
from tests.norman.mappers.kit import V3, types

TEXT = {"type": "string"}
OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}}


def read(node: JsonObject) -> tuple[Schema, SchemaRegistry]:
    """Return the schema of an object, and its registry."""
    registry, root = SchemaRegistry(), Schema(id="site", version=V3)
    importer = OpenApiImporter(root)
    importer.read_fields(root, node)
    for nested in importer.nested:
        finish(registry, nested)
    return root, registry


def field(node: JsonObject, *, required: bool = False) -> Field:
    """Return the field of one property."""
    root, _ = read({"properties": {"f": node}, "required": ["f"] if required else []})
    return root.resource_fields["f"]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"type": "boolean"}, "boolean"),
        ({"type": "integer", "format": "int32"}, "int"),
        ({"type": "number"}, "float"),
        (TEXT, "string"),
        ({**TEXT, "format": "date-time"}, "date"),
        ({**TEXT, "format": "date"}, "date"),
        ({**TEXT, "format": "byte"}, "base64"),
        ({**TEXT, "format": "password"}, "password"),
        ({**TEXT, "format": "hostname"}, "hostname"),
        ({**TEXT, "format": "uri"}, "string"),
        ({**TEXT, "enum": ["a"]}, "enum"),
        ({"type": "integer", "enum": [1]}, "int"),
        ({"x-kubernetes-int-or-string": True}, "intOrString"),
        ({"x-kubernetes-preserve-unknown-fields": True}, "json"),
        ({**OBJECT, "x-kubernetes-preserve-unknown-fields": True}, "json"),
        ({**OBJECT, "x-kubernetes-embedded-resource": True}, "json"),
        ({"type": "object"}, "json"),
        ({"type": "object", "additionalProperties": TEXT}, "map[string]"),
        ({"type": "object", "additionalProperties": True}, "map[json]"),
        ({"type": "object", "additionalProperties": OBJECT}, "map[siteF]"),
        ({"type": "array", "items": TEXT}, "array[string]"),
        ({"type": "array", "items": {**TEXT, "enum": ["a"]}}, "array[enum]"),
        ({"type": "array", "items": {"type": "array", "items": {**TEXT, "enum": ["a"]}}}, "array[array[string]]"),
        ({"type": "object", "additionalProperties": {**TEXT, "enum": ["a"]}}, "map[string]"),
        ({"type": "array"}, "array[json]"),
        ({"type": "array", "items": {"type": "array", "items": OBJECT}}, "array[array[siteF]]"),
        (OBJECT, "siteF"),
        ({}, "json"),
    ],
)
def test_types_of_structural_schemas(node: JsonObject, expected: str) -> None:
    """Every structural schema has a type of norman."""
    assert types(read({"properties": {"f": node}})[0]) == {"f": expected}


def test_constraints_of_properties() -> None:
    """Limits, options, characters, defaults, null and descriptions of a property become those of the field."""
    assert field({"type": "integer", "minimum": 1, "maximum": 5, "nullable": True}) == Field(
        type="int", min=1, max=5, nullable=True
    )
    exclusive = {"minimum": 1, "maximum": 5, "exclusiveMinimum": True, "exclusiveMaximum": True}
    assert field({"type": "integer", **exclusive}) == Field(type="int", min=2, max=4)
    assert field({"type": "number", "minimum": 0.5, "maximum": 1.5}) == Field(type="float", min=0, max=2)
    assert field({"type": "integer", "minimum": 0.5, "maximum": 1e300}) == Field(type="int", min=1)
    assert field({**TEXT, "minLength": 1, "maxLength": 3, "pattern": "^[ab]*$", "description": "A text."}) == Field(
        type="string", min_length=1, max_length=3, valid_chars="ab", description="A text."
    )
    assert field({"type": "array", "items": {**TEXT, "enum": ["a"]}}).options == ("a",)
    assert field({**TEXT, "enum": ["a", None], "default": "a", "nullable": True}) == Field(
        type="enum", options=("a",), default="a", nullable=True
    )


def test_a_required_property_without_default_is_required() -> None:
    """A required property with a default is optional for clients."""
    assert field(TEXT, required=True).required
    assert not field({**TEXT, "default": "a"}, required=True).required


@given(
    st.sampled_from(["integer", "number"]),
    st.floats(-1e6, 1e6) | st.integers(-1000, 1000),
    st.floats(-1e6, 1e6) | st.integers(-1000, 1000),
    st.booleans(),
)
def test_limits_refuse_no_valid_number(kind: str, minimum: float, value: float, exclusive: bool) -> None:
    """A number that the property allows is allowed by the field; for whole numbers the reverse holds too."""
    declared = field({"type": kind, "minimum": minimum, "exclusiveMinimum": exclusive})
    assert declared.min is not None
    number = round(value) if kind == "integer" else value
    is_valid = number > minimum or (number == minimum and not exclusive)
    if is_valid:
        assert number >= declared.min
    elif kind == "integer":
        assert number < declared.min


def test_nested_objects_are_schemas_with_stable_ids() -> None:
    """The id is the path; ids that would collide are numbered in alphabetical order."""
    node = {"properties": {"a-b": OBJECT, "aB": OBJECT, "spec": {"type": "object", "properties": {"port": OBJECT}}}}
    root, registry = read(node)
    assert types(root) == {"a-b": "siteAB", "aB": "siteAB2", "spec": "siteSpec"}
    assert sorted(each.id for each in registry.schemas()) == ["siteAB", "siteAB2", "siteSpec", "siteSpecPort"]
    spec = registry.schema(V3, "siteSpec")
    assert spec is not None
    assert spec.internal is not None
    assert spec.mapper is not None
    reversed_node = {"properties": dict(reversed(node["properties"].items()))}
    assert types(read(reversed_node)[0]) == types(root)


def test_the_time_grows_with_the_objects() -> None:
    """Ten times as many objects of one name need ten times as many look-ups of ids, not a hundred times."""

    class Counted(set[str]):
        lookups = 0

        def __contains__(self, item: object) -> bool:
            self.lookups += 1
            return super().__contains__(item)

    counts = []
    for number in (50, 500):
        importer = OpenApiImporter(Schema(id="site", version=V3))
        importer._ids = ids = Counted()
        importer.read_fields(
            Schema(id="site", version=V3), {"properties": {"p" + "-" * n: OBJECT for n in range(number)}}
        )
        counts.append(ids.lookups)
    assert counts[1] <= 11 * counts[0]
