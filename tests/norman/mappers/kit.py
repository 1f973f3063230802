"""Schemas and laws for the tests of mappers."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from opsdk.norman.model import Mapper, Schema
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import ApiVersion, Field, Scope
from opsdk.norman.type_expression import TypeExpression
from opsdk.structured_merge.value import JsonObject, JsonValue

V3 = ApiVersion(group="example.com", version="v3", path="/v3")
NO_SCHEMAS = SchemaRegistry()


def schema(
    schema_id: str = "site", *, scope: Scope = Scope.CLUSTER, methods: tuple[str, ...] = (), **fields: str
) -> Schema:
    """Return a schema of v3 from the types of its fields."""
    declared = {name: Field(type=kind) for name, kind in fields.items()}
    return Schema(id=schema_id, version=V3, resource_fields=declared, scope=scope, collection_methods=methods)


def registry(*schemas: Schema) -> SchemaRegistry:
    """Return a registry with schemas."""
    result = SchemaRegistry()
    for each in schemas:
        result.add(each)
    return result


def types(each: Schema) -> Mapping[str, str]:
    """Return the types of the fields of a schema."""
    return {name: field.type for name, field in each.resource_fields.items()}


def outward(mapper: Mapper, data: JsonObject) -> JsonObject:
    """Return the external form of an object, which stays as it is."""
    result = copy.deepcopy(data)
    mapper.from_internal(result)
    return result


def inward(mapper: Mapper, data: JsonObject) -> JsonObject:
    """Return the internal form of an object, which stays as it is."""
    result = copy.deepcopy(data)
    mapper.to_internal(result)
    return result


def round_trip(mapper: Mapper, data: JsonObject) -> JsonObject:
    """Return what remains of an object after a way outward and inward."""
    return inward(mapper, outward(mapper, data))


def assert_declared(data: JsonObject, each: Schema, schemas: SchemaRegistry) -> None:
    """Check that the keys of an external object are declared fields, except ``type``, ``id`` and dotted names."""
    for name, value in data.items():
        if name.startswith(".") or (name in ("type", "id") and name not in each.resource_fields):
            continue
        assert name in each.resource_fields, f"{name} is not declared on {each.id}: {sorted(each.resource_fields)}"
        _check_value(value, TypeExpression.parse(each.resource_fields[name].type), each, schemas)


def _check_value(value: JsonValue, expression: TypeExpression, each: Schema, schemas: SchemaRegistry) -> None:
    if isinstance(value, dict):
        assert expression.is_map or expression.target or expression.name == "json", f"an object for {expression}"
    if isinstance(value, list):
        assert expression.is_array or expression.name == "json", f"a list for {expression}"
    if expression.element is not None and not expression.is_reference:
        elements = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for element in elements:
            _check_value(element, expression.element, each, schemas)
    nested = schemas.schema(each.version, expression.target) if expression.target else None
    if isinstance(value, dict) and nested is not None and not expression.is_reference:
        assert_declared(value, nested, schemas)
