"""Formats schemas as Go's ``%v`` does, for messages.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from opsdk.apiserver.field_errors import AsShown
from opsdk.structured_merge.go_format import go_json
from opsdk.structured_merge.value import JsonValue

_ABSENT: Final = {"text": "", "flag": False}
_FIELDS: Final = (
    ("ID", "id", "text"),
    ("Schema", "$schema", "text"),
    ("Ref", "$ref", "value"),
    ("Description", "description", "text"),
    ("Type", "type", "text"),
    ("Nullable", "nullable", "flag"),
    ("Format", "format", "text"),
    ("Title", "title", "text"),
    ("Default", "default", "value"),
    ("Maximum", "maximum", "value"),
    ("ExclusiveMaximum", "exclusiveMaximum", "flag"),
    ("Minimum", "minimum", "value"),
    ("ExclusiveMinimum", "exclusiveMinimum", "flag"),
    ("MaxLength", "maxLength", "value"),
    ("MinLength", "minLength", "value"),
    ("Pattern", "pattern", "text"),
    ("MaxItems", "maxItems", "value"),
    ("MinItems", "minItems", "value"),
    ("UniqueItems", "uniqueItems", "flag"),
    ("MultipleOf", "multipleOf", "value"),
    ("Enum", "enum", "value"),
    ("MaxProperties", "maxProperties", "value"),
    ("MinProperties", "minProperties", "value"),
    ("Required", "required", "value"),
    ("Items", "items", "items"),
    ("AllOf", "allOf", "schemas"),
    ("OneOf", "oneOf", "schemas"),
    ("AnyOf", "anyOf", "schemas"),
    ("Not", "not", "schema"),
    ("Properties", "properties", "named"),
    ("AdditionalProperties", "additionalProperties", "or bool"),
    ("PatternProperties", "patternProperties", "named"),
    ("Dependencies", "dependencies", "dependencies"),
    ("AdditionalItems", "additionalItems", "or bool"),
    ("Definitions", "definitions", "named"),
    ("ExternalDocs", "externalDocs", "docs"),
    ("Example", "example", "value"),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", "value"),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", "flag"),
    ("XIntOrString", "x-kubernetes-int-or-string", "flag"),
    ("XListMapKeys", "x-kubernetes-list-map-keys", "value"),
    ("XListType", "x-kubernetes-list-type", "value"),
    ("XMapType", "x-kubernetes-map-type", "value"),
    ("XValidations", "x-kubernetes-validations", "rules"),
)
"""The fields in order: Go name, keyword, and format."""

_RULE_FIELDS: Final = (
    ("Rule", "rule", "text"),
    ("Message", "message", "text"),
    ("MessageExpression", "messageExpression", "text"),
    ("Reason", "reason", "value"),
    ("FieldPath", "fieldPath", "text"),
    ("OptionalOldSelf", "optionalOldSelf", "value"),
)

_AT_ROOT: Final = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum",
    "MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items",
    "Properties", "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations",
)  # fmt: skip
AT_ROOT: Final = f"[{' '.join(_AT_ROOT)}]"
"""The keywords that a CRD with a status subresource may use at the root."""


def first_beyond_root(schema: Mapping[str, JsonValue]) -> str:
    """Return the first root keyword that is not in `AT_ROOT`, or a type other than object; empty for none."""
    for name, keyword, form in _FIELDS:
        value = schema.get(keyword)
        absent = value is None or (form in _ABSENT and not value)
        if not absent and (value != "object" if keyword == "type" else name not in _AT_ROOT):
            return keyword
    return ""


def shown_rule(rule: Mapping[str, JsonValue]) -> AsShown:
    """Format an entry of ``x-kubernetes-validations``."""
    return AsShown(_written(rule, _RULE_FIELDS))


def shown_schema(schema: Mapping[str, JsonValue]) -> AsShown:
    """Format a schema with its nested schemas."""
    return AsShown(_written(schema, _FIELDS))


def _written(tree: Mapping[str, JsonValue], fields: tuple[tuple[str, str, str], ...]) -> str:
    return _object((name, _value(tree.get(keyword), form)) for name, keyword, form in fields)


def _object(fields: Iterable[tuple[str, str]]) -> str:
    inside = ",".join(f"{go_json(name)}:{text}" for name, text in fields)
    return f"{{{inside}}}"


def _list(texts: Iterable[str]) -> str:
    return f"[{','.join(texts)}]"


def _value(value: JsonValue, form: str) -> str:
    """Return a keyword's value as Go prints it."""
    if value is None:
        return go_json(_ABSENT.get(form))
    is_given = isinstance(value, Mapping)
    match form:
        case "schema":
            return shown_schema(value)
        case "schemas":
            return _list(map(shown_schema, value))
        case "rules":
            return _list(map(shown_rule, value))
        case "named":
            return _object((name, shown_schema(below)) for name, below in sorted(value.items()))
        case "dependencies":
            return _object(
                (name, _schema_or_other(below, "Property", "value")) for name, below in sorted(value.items())
            )
        case "items":
            return _schema_or_other(value, "JSONSchemas", "schemas")
        case "or bool":
            schema = value if is_given else None
            return _object([("Allows", go_json(is_given or bool(value))), ("Schema", _value(schema, "schema"))])
        case "docs":
            return _object((name, go_json(value.get(name.lower()) or "")) for name in ("Description", "URL"))
        case _:
            return go_json(value)


def _schema_or_other(value: JsonValue, other: str, form: str) -> str:
    """Format a field that is a schema or another value."""
    is_given = isinstance(value, Mapping)
    first = _value(value if is_given else None, "schema")
    return _object([("Schema", first), (other, _value(None if is_given else value, form))])
