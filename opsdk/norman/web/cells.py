"""Computes columns, cells and form inputs of fields and schemas. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from opsdk.apimachinery.serializer.yaml_writer import write_yaml
from opsdk.norman.conversion import is_empty, to_text
from opsdk.norman.model import Schema, SchemaLookup
from opsdk.norman.schema_parts import Field
from opsdk.norman.type_expression import TypeExpression
from opsdk.structured_merge.value import JsonObject, JsonValue

_MAX_COLUMNS = 7
COLUMNS = "columns"
"""The attribute of a schema with the names of the fields that a table shows."""

_LEADING_COLUMNS = ("name", "displayName", "namespaceId", "namespace", "state")
_TRAILING_COLUMNS = ("created",)
_HIDDEN_COLUMNS = ("uuid", "removed")
_MAX_TEXT = 120
_INPUTS = {
    "boolean": "checkbox",
    "byte": "number",
    "date": "datetime",
    "enum": "select",
    "float": "number",
    "int": "number",
    "password": "password",
}


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A value in a table or a list of fields.

    Attributes:
        name: the field.
        text: the displayed text.
        title: the whole value, if `text` is truncated.
        kind: a CSS class: ``text``, ``number``, ``date``, ``state``, ``flag``, ``data`` or ``reference``.
        target: the id of the schema that a reference points to, or empty.
    """

    name: str
    text: str
    title: str = ""
    kind: str = "text"
    target: str = ""


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a form.

    Attributes:
        name: the field.
        kind: ``text``, ``number``, ``checkbox``, ``select``, ``password``, ``datetime``, ``list`` or ``data`` (YAML).
        value: the text in it.
        placeholder: shown while the input is empty.
        options: of a select.
        required: the form needs a value.
        hint: the type and the rules, for people.
        field: the field of the schema.
    """

    name: str
    kind: str
    value: str
    placeholder: str = ""
    options: tuple[str, ...] = ()
    required: bool = False
    hint: str = ""
    field: Field


def columns_of(schema: Schema) -> Sequence[str]:
    """Return the fields that a table shows: those of the schema's attribute, or its first scalar fields."""
    chosen = schema.attributes.get(COLUMNS)
    if isinstance(chosen, list | tuple):
        return [str(name) for name in chosen]
    scalar = [name for name, field in schema.resource_fields.items() if _is_scalar(field)]
    first = [name for name in _LEADING_COLUMNS if name in scalar]
    last = [name for name in _TRAILING_COLUMNS if name in scalar]
    middle = [name for name in scalar if name not in (*first, *last, *_HIDDEN_COLUMNS)]
    return [*first, *middle[: _MAX_COLUMNS - len(first) - len(last)], *last]


def filters_of(schema: Schema) -> Sequence[str]:
    """Return the columns with a filter input: those with text, numbers or options."""
    return [
        name
        for name in columns_of(schema)
        if name in schema.collection_filters and schema.resource_fields[name].type not in ("boolean", "date")
    ]


def cells_of(schema: Schema, values: JsonObject) -> Sequence[Cell]:
    """Return the cells of an object, without the ``TS`` fields that repeat dates in milliseconds."""
    fields = schema.resource_fields
    return [
        cell_of(schema, name, value)
        for name, value in values.items()
        if name in fields or not (name.endswith("TS") and name.removesuffix("TS") in fields)
    ]


def cell_of(schema: Schema, name: str, value: JsonValue) -> Cell:
    """Return the cell of a value."""
    field = schema.resource_fields.get(name)
    expression = TypeExpression.parse(field.type) if field is not None else TypeExpression(name="json")
    if value is None:
        return Cell(name=name, text="")
    if isinstance(value, dict | list):
        text = json.dumps(value, ensure_ascii=False)
        return Cell(name=name, text=_truncate(text), title=text, kind="data")
    text = to_text(value)
    if expression.is_reference:
        return Cell(name=name, text=text, kind="reference", target=expression.target)
    kind = {"date": "date", "boolean": "flag", "int": "number", "float": "number"}.get(expression.name, "text")
    return Cell(name=name, text=_truncate(text), title=text, kind="state" if name == "state" else kind)


def inputs_of(schemas: SchemaLookup, schema: Schema, values: JsonObject, *, create: bool) -> Sequence[Input]:
    """Return the inputs of a form, required ones first; `values` fill them.

    The editor of a nested object shows the fields that the object needs: as its text if the field is required in a new
    object, else as a placeholder, which is not sent.
    """
    inputs = []
    for name, field in schema.resource_fields.items():
        if not (field.create if create else field.update):
            continue
        value, outline = values.get(name), _outline(schemas, schema, field.type, frozenset())
        if create and field.required and is_empty(value) and is_empty(field.default):
            value, outline = outline, None
        inputs.append(_input(name, field, value, "" if is_empty(outline) else form_yaml(outline)))
    return sorted(inputs, key=lambda each: not each.required)


def form_yaml(value: JsonValue) -> str:
    """Return a value as YAML, for people: null is an empty value, so that users can fill it in."""
    return "" if value is None else write_yaml(value, sort_keys=False, null="")


def _outline(schemas: SchemaLookup, schema: Schema, type_: str, parents: frozenset[str]) -> JsonValue:
    """Return a value of a type with its required fields and their defaults; None for one that is not nested."""
    expression = TypeExpression.parse(type_)
    if expression.is_reference:
        return None
    if expression.element is not None:
        item = _outline(schemas, schema, str(expression.element), parents)
        return [item] if expression.is_array and item else None
    nested = schemas.schema(schema.version, expression.target) if expression.target else None
    if nested is None or nested.id in parents:
        return None
    parents |= {nested.id}
    return {
        name: _outline(schemas, nested, field.type, parents) if is_empty(field.default) else field.default
        for name, field in nested.resource_fields.items()
        if field.required and field.create
    }


def _input(name: str, field: Field, value: JsonValue, placeholder: str) -> Input:
    """Return the input of a form for a field: lines of a list, YAML of an object, a choice, or a string."""
    expression = TypeExpression.parse(field.type)
    value = field.default if value is None else value
    scalar_list = expression.is_array and expression.element is not None and expression.element.is_simple
    if scalar_list:
        kind, text = "list", "\n".join(to_text(item) for item in value or ())
    elif not expression.is_simple or expression.name == "json":
        kind, text = "data", "" if is_empty(value) else form_yaml(value)
    else:
        kind = "select" if field.options else _INPUTS.get(expression.name, "text")
        text = to_text(value)
    return Input(
        name=name,
        kind=kind,
        value=text,
        placeholder=placeholder,
        options=field.options,
        required=field.required,
        hint=_hint(field),
        field=field,
    )


def _hint(field: Field) -> str:
    parts = [field.type]
    parts += _range(field.min, field.max, "")
    parts += _range(field.min_length, field.max_length, " characters")
    if field.valid_chars:
        parts.append(f"only {field.valid_chars}")
    if field.invalid_chars:
        parts.append(f"without {field.invalid_chars}")
    return ", ".join(parts)


def _range(low: int | None, high: int | None, unit: str) -> list[str]:
    if low is not None and high is not None:
        return [f"{low} to {high}{unit}"]
    if low is not None:
        return [f"at least {low}{unit}"]
    return [] if high is None else [f"at most {high}{unit}"]


def _is_scalar(field: Field) -> bool:
    expression = TypeExpression.parse(field.type)
    return expression.is_simple and expression.name not in ("json", "password", "base64") and not field.write_only


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"
