"""Schemas from OpenAPI v3, as in a CustomResourceDefinition.

Upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/types_jsonschema.go (v1.36)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, Final

from opsdk.apimachinery.crd_markers import EMBEDDED, INT_OR_STRING, PRESERVE
from opsdk.errors import UsageError
from opsdk.norman.importing.characters import allowed_characters
from opsdk.norman.importing.names import container_type, nested_id
from opsdk.norman.importing.registration import internal_copy
from opsdk.norman.model import Schema
from opsdk.norman.schema_parts import Field
from opsdk.structured_merge.value import JsonObject, JsonValue

DEFINITION: Final = "definition"
"""The key in `Schema.attributes` of the name of the definition that the schema was imported from."""

_FORMATS: Mapping[str, str] = {
    "byte": "base64",
    "date": "date",
    "date-time": "date",
    "datetime": "date",
    "hostname": "hostname",
    "password": "password",
}
_TYPES: Mapping[str, str] = {"boolean": "boolean", "integer": "int", "number": "float", "string": "string"}
_EXACT_NUMBERS = 1 << 53


class OpenApiImporter:
    """Reads the objects of one OpenAPI schema as schemas. It registers nothing, so it may run in a thread.

    An object with properties becomes a schema; its id is that of its parent and the name of the field: ``siteSpec``.

    Args:
        root: the schema of the whole object; nested ones have its version and attributes.
        taken: the ids of other schemas.

    Attributes:
        nested: the schemas that were read, each behind those that it refers to.
    """

    def __init__(self, root: Schema, taken: Collection[str] = ()) -> None:
        self.nested: list[Schema] = []
        self._root = root
        self._taken = taken
        self._ids = {root.id}
        self._next: dict[str, int] = {}

    def read_fields(self, schema: Schema, node: JsonObject) -> None:
        """Declare the properties of an object as fields of a schema, in alphabetical order.

        Raises:
            UsageError: the id of a nested schema is taken by another one.
        """
        properties = node.get("properties") or {}
        required = node.get("required") or ()
        for name in sorted(properties):
            schema.resource_fields[name] = self._field(schema, name, properties[name], required=name in required)

    def _field(self, schema: Schema, name: str, node: JsonObject, *, required: bool) -> Field:
        """Return the declaration of a property, with the limits that its type has."""
        kind = self._type(schema, name, node)
        default = node.get("default")
        limits: Mapping[str, Any] = {}
        if kind in ("int", "float"):
            limits = number_limits(
                _exact(node.get("minimum")),
                _exact(node.get("maximum")),
                excludes_low=bool(node.get("exclusiveMinimum")),
                excludes_high=bool(node.get("exclusiveMaximum")),
                is_whole=kind == "int",
            )
        elif kind == "string":
            limits = {
                "min_length": node.get("minLength"),
                "max_length": node.get("maxLength"),
                "valid_chars": allowed_characters(node.get("pattern") or ""),
            }
        elif kind in ("enum", "array[enum]"):
            values = (node if kind == "enum" else node["items"])["enum"]
            limits = {"options": tuple(value for value in values if value is not None)}
        return Field(
            type=kind,
            default=default,
            nullable=bool(node.get("nullable")),
            required=required and default is None,
            description=node.get("description") or "",
            **limits,
        )

    def _type(self, schema: Schema, name: str, node: JsonValue) -> str:
        """Return the type of a node. An object with properties is read as a schema; an unknown type is json."""
        if not isinstance(node, dict) or node.get(EMBEDDED):
            return "json"
        if node.get(INT_OR_STRING):
            return "intOrString"
        kind = node.get("type")
        if kind == "array":
            return container_type("array", self._type(schema, name, node.get("items")))
        if kind == "object" and not node.get(PRESERVE):
            if node.get("properties"):
                return self._nested(schema, name, node).id
            values = node.get("additionalProperties")
            if values:
                return container_type("map", self._type(schema, name, values))
        if kind == "string":
            values = node.get("enum")
            if values and all(isinstance(value, str | None) for value in values):
                return "enum"
            return _FORMATS.get(node.get("format") or "", "string")
        return _TYPES.get(kind or "", "json")

    def _nested(self, schema: Schema, name: str, node: JsonObject) -> Schema:
        """Read an object as a schema of its own. Raises `UsageError` if another schema has its id."""
        schema_id = self._free_id(nested_id(schema.id, name))
        if schema_id in self._taken:
            raise UsageError(
                f"the field {name} of {schema.id} needs the id {schema_id}, which another schema has: import one of the"
                f" two with another schema_id"
            )
        nested = Schema(
            id=schema_id,
            version=schema.version,
            description=node.get("description") or "",
            dynamic_schema_version=self._root.dynamic_schema_version,
            attributes={DEFINITION: self._root.attributes.get(DEFINITION)},
        )
        self.read_fields(nested, node)
        nested.internal = internal_copy(nested)
        self.nested.append(nested)
        return nested

    def _free_id(self, stem: str) -> str:
        """Return an id, with a number if needed: two names may differ only in characters that ids have not."""
        schema_id, number = stem, self._next.get(stem, 2)
        while schema_id in self._ids:
            schema_id, number = f"{stem}{number}", number + 1
        self._next[stem] = number
        self._ids.add(schema_id)
        return schema_id


def number_limits(
    low: float | None, high: float | None, *, excludes_low: bool = False, excludes_high: bool = False, is_whole: bool
) -> dict[str, int]:
    """Return the limits of a number as integers that accept every valid value.

    >>> number_limits(0, 2.5, excludes_low=True, is_whole=True), number_limits(0.5, None, is_whole=False)
    ({'min': 1, 'max': 2}, {'min': 0})
    """
    limits: dict[str, int] = {}
    for name, value, excludes, step in (("min", low, excludes_low, 1), ("max", high, excludes_high, -1)):
        if value is None or not math.isfinite(value):
            continue
        up = (name == "min") == is_whole
        limit = math.ceil(value) if up else math.floor(value)
        limits[name] = limit + step if is_whole and excludes and limit == value else limit
    return limits


def _exact(value: float | None) -> float | None:
    """Return a bound, or None for one that JSON may have rounded."""
    return None if value is None or abs(value) > _EXACT_NUMBERS else value
