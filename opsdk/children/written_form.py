"""Computes the form in which the server stores a desired value: decoded, pruned, defaulted and encoded. Pure.

Upstream: k8s.io/apimachinery/pkg/runtime/converter.go, k8s.io/apiextensions-apiserver/pkg/apiserver/schema (v1.36)
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Final

from opsdk.children.canonical import canonical_base64, canonical_micro_time, canonical_quantity, canonical_time
from opsdk.children.defaults import fill_defaults
from opsdk.children.field_types import UNTYPED, FieldType, Form
from opsdk.structured_merge.go_format import whole_numbers
from opsdk.structured_merge.typed import ABSENT
from opsdk.structured_merge.value import JsonObject, JsonValue

_CANONICAL: Final[Mapping[Form, Callable[[str], str | None]]] = {
    Form.BYTES: canonical_base64,
    Form.QUANTITY: canonical_quantity,
    Form.TIME: canonical_time,
    Form.MICRO_TIME: canonical_micro_time,
}
_ZERO_VALUES: Final = {Form.TEXT: "", Form.NUMBER: 0, Form.BOOLEAN: False, Form.QUANTITY: "0", Form.INT_OR_STRING: 0}


def written_form(value: JsonValue, field_type: FieldType) -> JsonValue:
    """Return the value that the server writes for a field with `value`, or `ABSENT` if it drops the field.

    A value that the server would reject is returned as it is.
    """
    if field_type.custom:
        return _custom(value, field_type)
    if value is None:
        return zero_form(field_type)
    written = _decoded(value, field_type)
    if written:
        return written
    if field_type.form in _COLLECTIONS and field_type.mark:
        return written if field_type.keeps_empty else None
    # A struct pointer distinguishes an empty struct from nil.
    pointed = isinstance(written, dict) and field_type.form is not Form.MAP
    return written if field_type.mark or pointed else ABSENT


_COLLECTIONS: Final = frozenset({Form.LIST, Form.MAP})


def zero_form(field_type: FieldType) -> JsonValue:
    """Return the value that the server writes for an omitted field of a built-in type, or `ABSENT` for nothing."""
    if field_type.mark == "?":
        return None
    if field_type.mark != "=":
        return ABSENT
    if field_type.form is Form.STRUCT:
        return _struct({}, field_type)
    return _ZERO_VALUES.get(field_type.form, {})


def _decoded(value: JsonValue, field_type: FieldType) -> JsonValue:
    """Return a value in the form that the server stores."""
    form = field_type.form
    if form in _CANONICAL:
        return _canonical_text(value, field_type)
    if form is Form.STRUCT and isinstance(value, dict):
        return _struct(value, field_type)
    if form is Form.LIST and isinstance(value, list):
        item_type = field_type.item()
        return [_item(item, item_type) for item in value]
    if form is Form.MAP and isinstance(value, dict):
        entry_type = field_type.item()
        return {name: _item(entry, entry_type) for name, entry in value.items()}
    if form is Form.SCHEMA and isinstance(value, dict | list):
        return _schema_or_other(value, field_type)
    if form in (Form.NUMBER, Form.INT_OR_STRING):
        return whole_numbers(value)
    return value


def _canonical_text(value: JsonValue, field_type: FieldType) -> JsonValue:
    if isinstance(value, int | float) and field_type.form is Form.QUANTITY and not isinstance(value, bool):
        value = str(value)
    canonical = _CANONICAL[field_type.form](value.strip()) if isinstance(value, str) else None
    return value if canonical is None else canonical


def _struct(value: JsonObject, field_type: FieldType) -> JsonObject:
    written: JsonObject = {}
    for name, part in value.items():
        if field_type.declares(name):
            form = written_form(part, field_type.field(name))
            if form is not ABSENT and not is_zero(form, field_type.field(name)):
                written[name] = form
    fill_defaults(field_type.name, written)
    for name in field_type.always_written:
        if name not in written:
            written[name] = zero_form(field_type.field(name))
    return written


def is_zero(written: JsonValue, field_type: FieldType) -> bool:
    """Whether Go cannot distinguish this value of an always written field from an omitted field."""
    if written is None or field_type.custom or isinstance(written, dict | list):
        return written is None and not field_type.custom
    empty_text = field_type.form is Form.INT_OR_STRING and written == ""
    return field_type.mark == "=" and not written and not empty_text


def _item(item: JsonValue, item_type: FieldType) -> JsonValue:
    """Return an item of a list or an entry of a map; null becomes the zero of the type."""
    if item is None:
        return _struct({}, item_type) if item_type.form is Form.STRUCT else _ZERO_VALUES.get(item_type.form)
    return _decoded(item, item_type)


def _schema_or_other(value: JsonValue, field_type: FieldType) -> JsonValue:
    name = field_type.name[: field_type.name.index("Or", field_type.name.rindex("."))]
    schema_type = FieldType({"$ref": f"#/components/schemas/{name}"}, UNTYPED.schema, custom=False)
    if isinstance(value, dict):
        return _struct(value, schema_type)
    return [_struct(item, schema_type) if isinstance(item, dict) else item for item in value]


# ------------------------------------------------------------------ custom resources
def _custom(value: JsonValue, field_type: FieldType) -> JsonValue:
    if isinstance(value, dict):
        return _custom_object(value, field_type)
    if isinstance(value, list):
        item_type = field_type.item()
        return [_custom_item(item, item_type) for item in value]
    if value is None and not field_type.nullable and field_type is not UNTYPED:
        return ABSENT if field_type.default is None else copy.deepcopy(field_type.default)
    return whole_numbers(value)


def _custom_item(item: JsonValue, item_type: FieldType) -> JsonValue:
    written = written_form(item, item_type)
    return item if written is ABSENT else written


def _custom_object(value: JsonObject, field_type: FieldType) -> JsonObject:
    written: JsonObject = {}
    closed = field_type.form is Form.STRUCT and not field_type.schema.preserve_unknown
    for name, part in {**field_type.defaults, **value}.items():
        if closed and not field_type.declares(name):
            continue  # pruned
        form = written_form(part, field_type.field(name))
        if form is not ABSENT:
            written[name] = form
    return written
