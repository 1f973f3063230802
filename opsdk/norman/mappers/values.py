"""Mappers that change values: annotations and labels, base64, JSON in strings, constants, states.

Upstream: github.com/rancher/norman/types/mapper (annotation_field.go, label_field.go, base64.go, json_encode.go,
set_value.go, pendingstatus.go)
Deviates: a value that does not decode is kept, while norman removes or corrupts it; `JsonEncode` decodes lists too, and
declares the field as json; `LabelField` and a constant of `SetValue` are removed completely inward.
"""

from __future__ import annotations

import base64
import binascii

import msgspec
from msgspec.structs import replace

from opsdk.norman.mappers.paths import (
    ABSENT,
    BaseMapper,
    FieldLocation,
    check_field,
    claim_nested,
    copy_value,
    find_field,
    get_value,
    put_value,
    remove_value,
)
from opsdk.norman.model import Schema, SchemaLookup
from opsdk.structured_merge.value import JsonObject, JsonValue

__all__ = ["AnnotationField", "Base64", "JsonEncode", "LabelField", "PendingStatus", "SetValue"]

_PREFIX = "field.cattle.io/"
_STRUCTURED = (dict, list)


def _decode_json(value: JsonValue, *types: type) -> JsonValue:
    """Return the JSON value that a string describes if it has one of the types; else the string."""
    if not types or not isinstance(value, str):
        return value
    try:
        decoded = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return value
    return decoded if isinstance(decoded, types) else value


def _to_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _check_path(schema: Schema, schemas: SchemaLookup, path: list[str]) -> FieldLocation:
    location = find_field(schema, schemas, path)
    check_field(location.name, location.schema)
    return location


class AnnotationField(BaseMapper, frozen=True, kw_only=True):
    """Keeps a field in the annotation ``field.cattle.io/<field>``.

    >>> site = {"annotations": {"field.cattle.io/description": "A shop"}}
    >>> AnnotationField(field="description").from_internal(site); site
    {'annotations': {}, 'description': 'A shop'}

    An annotation is a string: without `object` or `list`, a number or a boolean becomes a string. JSON is written
    compactly.

    Attributes:
        field: the name.
        object: the annotation is a JSON object; any other string is shown unchanged.
        list: the annotation is a JSON list; any other string is shown unchanged.
        ignore_definition: the schema may lack the field.
    """

    field: str
    object: bool = False
    list: bool = False
    ignore_definition: bool = False

    def from_internal(self, data: JsonObject) -> None:
        """Move the annotation to the field."""
        value = remove_value(data, ["annotations", _PREFIX + self.field])
        if value is not ABSENT:
            kinds = [kind for kind, enabled in zip(_STRUCTURED, (self.object, self.list), strict=True) if enabled]
            data[self.field] = _decode_json(value, *kinds)

    def to_internal(self, data: JsonObject) -> None:
        """Move the field to the annotation. Null removes it."""
        value = data.pop(self.field, None)
        if value is not None:
            put_value(data, ["annotations", _PREFIX + self.field], _to_text(value))

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Raise `UsageError` if the field is missing."""
        if not self.ignore_definition:
            check_field(self.field, schema)


class LabelField(BaseMapper, frozen=True, kw_only=True):
    """Keeps a field in the label ``field.cattle.io/<field>``. Values become strings.

    Attributes:
        field: the name.
    """

    field: str

    def from_internal(self, data: JsonObject) -> None:
        """Move the label to the field."""
        value = remove_value(data, ["labels", _PREFIX + self.field])
        if value is not ABSENT:
            data[self.field] = value

    def to_internal(self, data: JsonObject) -> None:
        """Move the field to the label. Null removes it."""
        value = data.pop(self.field, None)
        if value is not None:
            put_value(data, ["labels", _PREFIX + self.field], _to_text(value))

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Raise `UsageError` if the field is missing."""
        check_field(self.field, schema)


class Base64(BaseMapper, frozen=True, kw_only=True):
    """Decodes base64 outward and encodes it inward.

    >>> secret = {"data": {"password": "c2VjcmV0"}}
    >>> Base64(field="data/password").from_internal(secret); secret
    {'data': {'password': 'secret'}}

    A value that is not base64 of a UTF-8 string is shown unchanged. Inward every string is encoded, so a client that
    sends such a value back changes it.

    Attributes:
        field: the path.
        ignore_definition: the schema may lack the field.
        separator: between the names of the path.
    """

    field: str
    ignore_definition: bool = False
    separator: str = "/"

    def from_internal(self, data: JsonObject) -> None:
        """Decode the value."""
        path = self.field.split(self.separator)
        value = get_value(data, path)
        if isinstance(value, str):
            try:
                put_value(data, path, base64.b64decode(value, validate=True).decode())
            except (binascii.Error, ValueError):
                return

    def to_internal(self, data: JsonObject) -> None:
        """Encode the value."""
        path = self.field.split(self.separator)
        value = get_value(data, path)
        if isinstance(value, str):
            put_value(data, path, base64.b64encode(value.encode()).decode())

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Raise `UsageError` if the field is missing."""
        if not self.ignore_definition:
            _check_path(schema, schemas, self.field.split(self.separator))


class JsonEncode(BaseMapper, frozen=True, kw_only=True):
    """Shows a string that contains a JSON object or list as that value. Inward the JSON is compact.

    Attributes:
        field: the path.
        ignore_definition: leave the schema as it is; it may lack the field.
        separator: between the names of the path.
    """

    field: str
    ignore_definition: bool = False
    separator: str = "/"

    def from_internal(self, data: JsonObject) -> None:
        """Decode the string if it is a JSON object or list."""
        path = self.field.split(self.separator)
        if isinstance(value := get_value(data, path), str):
            put_value(data, path, _decode_json(value, *_STRUCTURED))

    def to_internal(self, data: JsonObject) -> None:
        """Encode the value as JSON. A string is not encoded again, and null removes the field."""
        path = self.field.split(self.separator)
        value = remove_value(data, path)
        if value is not ABSENT and value is not None:
            put_value(data, path, _to_text(value))

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Declare a string as json. Raises `UsageError` if the field is missing."""
        if self.ignore_definition:
            return
        location = _check_path(schema, schemas, self.field.split(self.separator))
        declared = check_field(location.name, location.schema)
        if declared.type == "string":
            claim_nested(schema, location.schema, schemas)
            location.schema.resource_fields[location.name] = replace(declared, type="json")


class SetValue(BaseMapper, frozen=True, kw_only=True):
    """Sets a constant outward: always, or if a field has a value.

    >>> site = {"paused": True, "state": "active"}
    >>> SetValue(field="paused", to="state", value="paused", if_eq=True).from_internal(site); site
    {'paused': True, 'state': 'paused'}

    Attributes:
        field: the path that `if_eq` is compared with.
        to: the path that is set; empty for `field`.
        value: the constant.
        if_eq: set it only if `field` has this value; None for always.
        ignore_definition: the schema may lack the fields.
    """

    field: str
    to: str = ""
    value: JsonValue = None
    if_eq: JsonValue = None
    ignore_definition: bool = False

    def from_internal(self, data: JsonObject) -> None:
        """Set the constant."""
        if self.if_eq is None or get_value(data, self.field.split("/")) == self.if_eq:
            put_value(data, (self.to or self.field).split("/"), copy_value(self.value))

    def to_internal(self, data: JsonObject) -> None:
        """Set `field` to `if_eq` if the client sent the constant. Without `if_eq`, remove the constant."""
        to = (self.to or self.field).split("/")
        if self.if_eq is None:
            remove_value(data, to, prune=True)
        elif get_value(data, to) == self.value:
            put_value(data, self.field.split("/"), copy_value(self.if_eq))

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Raise `UsageError` if a field is missing."""
        if not self.ignore_definition:
            for path in [self.to or self.field, *([self.field] if self.if_eq is not None else [])]:
                _check_path(schema, schemas, path.split("/"))


class PendingStatus(BaseMapper, frozen=True, kw_only=True):
    """Shows the state ``active`` as ``pending`` while an object has no conditions. `to_internal` changes nothing."""

    def from_internal(self, data: JsonObject) -> None:
        """Change the state."""
        if data.get("state") == "active" and get_value(data, ["status", "conditions"]) in (ABSENT, None, []):
            data["state"] = "pending"
