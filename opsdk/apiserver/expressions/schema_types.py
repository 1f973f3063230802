"""CEL types of schemas, with size bounds for cost estimation.

Upstream: k8s.io/apiserver/pkg/cel/common/schemas.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from opsdk.apiserver.expressions.escaping import escape, spellings
from opsdk.cel import types
from opsdk.cel.declarations import Range
from opsdk.cel.types import Type
from opsdk.structured_merge.value import JsonValue

Schema = Mapping[str, JsonValue]

MAX_REQUEST: Final = 3 * 1024 * 1024
"""Largest request in bytes, which bounds the size of all values."""

_STRING: Final = {"type": "string"}
_META: Final = {"type": "object", "properties": {"name": _STRING, "generateName": _STRING}}


class SchemaDeclarations(msgspec.Struct, frozen=True):
    """A schema's CEL type with size bounds.

    Attributes:
        type: the CEL type.
        max_elements: most characters, elements or entries of a value.
        min_serialized_size: fewest bytes of a value's JSON.
        element: the declarations of list elements or map values.
        fields: the declarations of an object's fields, by escaped name.
    """

    type: Type
    max_elements: int = 0
    min_serialized_size: int = 1
    element: SchemaDeclarations | None = None
    fields: Mapping[str, SchemaDeclarations] = msgspec.field(default_factory=dict)

    def size(self, path: tuple[str, ...]) -> Range | None:
        """Return the size of the value at a path after the variable's name."""
        declarations: SchemaDeclarations | None = self
        for step in path[1:]:
            if declarations is None:
                return None
            if step in ("@items", "@values"):
                declarations = declarations.element
            elif step == "@keys":
                declarations = _KEY if declarations.element is not None else None
            else:
                declarations = declarations.fields.get(step)
        return None if declarations is None else Range(0, declarations.max_elements)


_KEY: Final = SchemaDeclarations(types.STRING, 0, 2)


def with_metadata(schema: Schema) -> Schema:
    """Return an object's schema with kind, apiVersion and metadata's names declared."""
    declared = schema.get("properties") or {}
    types = tuple((declared.get(key) or {}).get("type") for key in ("kind", "apiVersion", "metadata"))
    if types == ("string", "string", "object") and declared["metadata"].get("properties"):
        return schema
    properties = {**(schema.get("properties") or {}), "apiVersion": _STRING, "kind": _STRING, "metadata": _META}
    return {**schema, "properties": properties}


def declare(schema: Schema, name: str, *, resource: bool = False) -> SchemaDeclarations | None:
    """Declare a schema's CEL type and name its objects after `name`. Return None if it has no type."""
    if schema.get("x-kubernetes-int-or-string"):
        return SchemaDeclarations(types.DYN, _longest_string(schema), 1)
    if resource or schema.get("x-kubernetes-embedded-resource"):
        schema = with_metadata(schema)
    match schema.get("type"):
        case "array":
            items = schema.get("items")
            element = declare(items, f"{name}.@idx") if isinstance(items, Mapping) else None
            if element is None:
                return None
            most = schema.get("maxItems")
            count = max(int(most), 0) if most is not None else (MAX_REQUEST - 2) // (element.min_serialized_size + 1)
            return SchemaDeclarations(types.list_of(element.type), count, 2, element)
        case "object":
            return (
                _map(schema, name) if isinstance(schema.get("additionalProperties"), Mapping) else _object(schema, name)
            )
        case "string":
            return _string(schema)
        case "boolean":
            return SchemaDeclarations(types.BOOL, 0, 4)
        case "number":
            return SchemaDeclarations(types.DOUBLE, 0, 1)
        case "integer":
            return SchemaDeclarations(types.INT, 0, 1)
    return None


def _map(schema: Schema, name: str) -> SchemaDeclarations | None:
    element = declare(schema["additionalProperties"], f"{name}.@elem")
    if element is None:
        return None
    most = schema.get("maxProperties")
    count = max(int(most), 0) if most is not None else (MAX_REQUEST - 2) // (element.min_serialized_size + 6)
    return SchemaDeclarations(types.map_of(types.STRING, element.type), count, 2, element)


def _object(schema: Schema, name: str) -> SchemaDeclarations:
    fields: dict[str, SchemaDeclarations] = {}
    least = 2
    required = schema.get("required") or ()
    for key, below in (schema.get("properties") or {}).items():
        escaped = escape(key)
        declaration = declare(below, f"{name}.{escaped or key}")
        if declaration is None:
            continue
        fields.update(dict.fromkeys(spellings(key), declaration))
        if key in required and below.get("default") is None:
            least += len(key.encode()) + declaration.min_serialized_size + 4
    type_ = types.object_of(name, {key: declaration.type for key, declaration in fields.items()})
    return SchemaDeclarations(type_, 0, least, None, fields)


_FORMATS: Final = {
    "duration": (types.DURATION, 32, 3),
    "date": (types.TIMESTAMP, 12, 12),
    "date-time": (types.TIMESTAMP, 32, 21),
}


def _string(schema: Schema) -> SchemaDeclarations:
    form = schema.get("format")
    declared_type = _FORMATS.get(form or "")
    if declared_type is not None:
        return SchemaDeclarations(*declared_type)
    longest = schema.get("maxLength")
    if form == "byte":
        return SchemaDeclarations(types.BYTES, MAX_REQUEST - 2 if longest is None else max(int(longest), 0), 2)
    if longest is None and schema.get("enum"):
        return SchemaDeclarations(types.STRING, max(len(str(one).encode()) for one in schema["enum"]), 2)
    return SchemaDeclarations(types.STRING, _longest_string(schema), 2)


def _longest_string(schema: Schema) -> int:
    """Return the most bytes of a string: a character may take four."""
    longest = schema.get("maxLength")
    return MAX_REQUEST - 2 if longest is None else max(int(longest), 0) * 4


def cardinality(least_bytes: int) -> int:
    """Return how many values of this size fit into a request."""
    return MAX_REQUEST // (least_bytes + 1)
