"""Converts objects of stores for clients. Pure.

A value that does not fit its type stays as it is: one object must not take a list down.

Upstream: github.com/rancher/norman/parse/builder/builder.go
"""

from __future__ import annotations

from collections.abc import Callable

from opsdk.norman.conversion import MAX_DEPTH, convert_output, is_empty, to_milliseconds, to_text
from opsdk.norman.model import Schema, SchemaLookup
from opsdk.norman.schema_parts import ApiVersion, Field
from opsdk.norman.type_expression import TypeExpression
from opsdk.structured_merge.value import JsonObject, JsonValue


class Presenter:
    """Builds what clients see of objects of schemas.

    Args:
        schemas: the registry of nested schemas.
        version: the version of nested schemas.
        created: the response to a create, which shows write-only fields once (passwords never).
        edit: fields are prepared for an editor: those that cannot be updated are left out.
        export: fields are prepared for a copy: defaults and fields that cannot be created are left out.
    """

    def __init__(
        self,
        schemas: SchemaLookup,
        version: ApiVersion | None,
        *,
        created: bool = False,
        edit: bool = False,
        export: bool = False,
    ) -> None:
        self._schemas = schemas
        self._version = version
        self._shows: Callable[[Field], bool] = _shows_once if created else _shows
        self._edit = edit
        self._export = export
        self._absent: dict[str, dict[str, JsonValue]] = {}

    def values(self, schema: Schema, data: JsonObject) -> JsonObject:
        """Return the fields of `schema` in `data`, with defaults and the milliseconds of dates."""
        return self._values(schema, data, 0)

    def _values(self, schema: Schema, data: JsonObject, depth: int) -> JsonObject:
        """Return the displayed fields of an object at a depth. A value that does not convert is left out."""
        result: JsonObject = {}
        for name, value in data.items():
            field = schema.resource_fields.get(name)
            if field is None or not self._shows(field):
                continue
            # Most values of a page are strings.
            is_text = field.type == "string" and type(value) is str
            displayed = value if is_text else self._convert(TypeExpression.parse(field.type), value, depth + 1)
            if displayed is None and not (value is None and (field.nullable or field.default is None)):
                continue
            result[name] = displayed
            if field.type == "date" and (milliseconds := self._milliseconds(displayed)) is not None:
                result[f"{name}TS"] = milliseconds
        self._complete(schema, data, result)
        return result

    def _milliseconds(self, date: JsonValue) -> int | None:
        return None if self._edit or self._export else to_milliseconds(date)

    def _complete(self, schema: Schema, data: JsonObject, result: JsonObject) -> None:
        absent = self._absent.get(schema.full_type)
        if absent is None:  # once for the objects of a page
            absent = self._absent[schema.full_type] = self._values_of_absent(schema)
        for name, value in absent.items():
            if name not in result:
                result[name] = value
        if self._edit:
            _prepare_edit(schema, result)
        elif self._export:
            _prepare_export(schema, result)
        else:
            result.update({name: data[name] for name in ("type", "id") if not is_empty(data.get(name))})

    def _values_of_absent(self, schema: Schema) -> dict[str, JsonValue]:
        """Return what fields show that an object lacks: their default, or null for a reference."""
        return {
            name: field.default
            for name, field in schema.resource_fields.items()
            if self._shows(field)
            if field.default is not None or TypeExpression.parse(field.type).is_reference
        }

    def _convert(self, expression: TypeExpression, value: JsonValue, depth: int) -> JsonValue:
        """Return a value as its type shows it; None for one of another container, or deeper than `MAX_DEPTH`."""
        if value is None or depth > MAX_DEPTH:
            return None
        if (element := expression.element) is not None and not expression.is_reference:
            if expression.is_map and isinstance(value, dict):
                return {name: self._convert(element, item, depth + 1) for name, item in value.items()}
            if expression.is_array and isinstance(value, list):
                return [self._convert(element, item, depth + 1) for item in value]
            return None
        if expression.is_reference:
            return to_text(value).strip()
        if expression.is_simple:
            return convert_output(expression, value)
        schema = self._schemas.schema(self._version, expression.name)
        return self._values(schema, value, depth) if schema is not None and isinstance(value, dict) else None


def _shows(field: Field) -> bool:
    return not field.write_only and field.type != "password"


def _shows_once(field: Field) -> bool:
    return field.type != "password"


def _prepare_edit(schema: Schema, result: JsonObject) -> None:
    """Keep fields that an update accepts, and the name; an editor gets the others from the schema."""
    for name, field in schema.resource_fields.items():
        if not field.update and name != "name":
            result.pop(name, None)


def _prepare_export(schema: Schema, result: JsonObject) -> None:
    """Keep the fields that are needed to recreate the object."""
    for name in list(result):
        field = schema.resource_fields.get(name)
        if field is None or not field.create or is_empty(result[name]) or field.default == result[name]:
            del result[name]
