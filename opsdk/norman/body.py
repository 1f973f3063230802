"""Converts and checks request bodies for stores. Pure.

Upstream: github.com/rancher/norman/parse/builder/builder.go
Deviates: an error inside a nested value keeps its code, and names the field with dots and indices (``ports.0.port``);
norman reports InvalidFormat for the outer field.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from opsdk.norman.codes import ErrorCode
from opsdk.norman.conversion import MAX_DEPTH, check_value, convert_input, to_text
from opsdk.norman.errors import NormanError
from opsdk.norman.model import Schema, SchemaLookup
from opsdk.norman.schema_parts import ApiVersion, Field
from opsdk.norman.type_expression import TypeExpression
from opsdk.structured_merge.value import JsonObject, JsonValue


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A value that refers to another object.

    Attributes:
        field_name: the path of the field.
        schema: the id or the full path of the schema that it refers to.
        id: the id of the object.
    """

    field_name: str
    schema: str
    id: str


class BodyBuilder:
    """Builds objects of schemas from bodies.

    Args:
        schemas: the registry of nested schemas.
        version: the version of nested schemas.

    Attributes:
        references: the references in the bodies that were built, for a check that they exist.
    """

    def __init__(self, schemas: SchemaLookup, version: ApiVersion | None) -> None:
        self.references: list[Reference] = []
        self._schemas = schemas
        self._version = version

    def build(self, schema: Schema, data: JsonObject, *, create: bool) -> JsonObject:
        """Return the fields of `schema` in `data`: converted, checked, and with defaults. Unknown fields are dropped.

        Args:
            schema: of the body.
            data: the body.
            create: for a create, not for an update.

        Raises:
            NormanError: a value does not fit; `field_name` is its path.
        """
        return self._build(schema, data, _ValueLocation(create))

    def _build(self, schema: Schema, data: JsonObject, position: _ValueLocation) -> JsonObject:
        """Return the fields of an object that the verb may set; those that do not convert are left out."""
        result: JsonObject = {}
        for name, value in data.items():
            field = schema.resource_fields.get(name)
            if field is None or not (field.create if position.create else field.update):
                continue
            child = position.child(name)
            converted = self._convert(TypeExpression.parse(field.type), value, child)
            if converted is None and not (value is None and (field.nullable or field.default is None)):
                continue
            _check(field, converted, child.path)
            result[name] = converted
        if position.create:
            _complete_input(schema, result, position)
        return result

    def _convert(self, expression: TypeExpression, value: JsonValue, position: _ValueLocation) -> JsonValue:
        """Return a value of a body as its type has it. Raises `NormanError` with the path of the value."""
        if value is None:
            return None
        if position.depth > MAX_DEPTH:
            raise ErrorCode.INVALID_BODY_CONTENT.error(f"more than {MAX_DEPTH} levels", field_name=position.path[:200])
        if expression.is_reference:
            return self._convert_reference(expression, value, position)
        if (element := expression.element) is not None:
            if expression.is_map and isinstance(value, dict):
                return {name: self._convert(element, item, position.child(name)) for name, item in value.items()}
            if expression.is_array and isinstance(value, list):
                return [self._convert(element, item, position.child(str(i))) for i, item in enumerate(value)]
            kind = "an object" if expression.is_map else "a list"
            raise ErrorCode.INVALID_FORMAT.error(f"{expression} needs {kind}", field_name=position.path)
        if expression.is_simple:
            try:
                return convert_input(expression, value)
            except NormanError as error:
                error.field_name = position.path
                raise
        return self._convert_nested(expression, value, position)

    def _convert_nested(self, expression: TypeExpression, value: JsonValue, position: _ValueLocation) -> JsonValue:
        schema = self._schemas.schema(self._version, expression.name)
        if schema is None:
            raise ErrorCode.INVALID_TYPE.error(f"Failed to find type {expression}", field_name=position.path)
        if not isinstance(value, dict):
            text = f"Value can not be converted to type {expression}: {to_text(value)[:100]}"
            raise ErrorCode.INVALID_FORMAT.error(text, field_name=position.path)
        return self._build(schema, value, position)

    def _convert_reference(self, expression: TypeExpression, value: JsonValue, position: _ValueLocation) -> str:
        if isinstance(value, dict | list):
            raise ErrorCode.INVALID_REFERENCE.error("write the id as a string", field_name=position.path)
        text = to_text(value).strip()
        if text and expression.target:
            self.references.append(Reference(field_name=position.path, schema=expression.target, id=text))
        return text


class _ValueLocation(NamedTuple):
    """The path and depth of a value in a body."""

    create: bool
    path: str = ""
    depth: int = 0

    def child(self, name: str) -> _ValueLocation:
        return _ValueLocation(self.create, f"{self.path}.{name}" if self.path else name, self.depth + 1)


def _check(field: Field, value: JsonValue, path: str) -> None:
    """Check a value, or each one of a list."""
    if not isinstance(value, list):
        check_value(path, field, value)
        return
    for index, item in enumerate(value):
        if item is None:
            raise ErrorCode.NOT_NULLABLE.error("Individual array values can not be null", field_name=f"{path}.{index}")
        check_value(f"{path}.{index}", field, item)


def _complete_input(schema: Schema, result: JsonObject, position: _ValueLocation) -> None:
    """Set defaults, and check that required fields are present."""
    for name, field in schema.resource_fields.items():
        if field.default is not None and result.get(name, "") == "":
            result[name] = field.default
        missing = name not in result or (field.type.startswith("array[") and not result[name])
        if missing and field.required and field.create:
            raise ErrorCode.MISSING_REQUIRED.error(field_name=position.child(name).path)


def nested_schemas(schemas: SchemaLookup, schema: Schema) -> Sequence[Schema]:
    """Return the schemas that a client needs to understand `schema`: nested fields, and inputs and outputs of actions.

    Dependencies come first; `schema` itself is not included.
    """
    visited: dict[str, Schema] = {schema.full_type: schema}
    result: list[Schema] = []

    def visit(current: Schema) -> None:
        names = [TypeExpression.parse(field.type).leaf.target for field in current.resource_fields.values()]
        for action in (*current.resource_actions.values(), *current.collection_actions.values()):
            names += [action.input, action.output]
        for name in filter(None, names):
            nested = schemas.schema(current.version, name)
            if nested is not None and nested.full_type not in visited:
                visited[nested.full_type] = nested
                visit(nested)
                result.append(nested)

    visit(schema)
    return result
