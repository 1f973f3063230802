"""Validation of JSON paths in a CRD: printer columns, scale, selectable fields. Pure.

Upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from opsdk.apiserver import api_errors
from opsdk.apiserver.structural.rule import follow_field_path
from opsdk.errors import Cause, UsageError
from opsdk.structured_merge.value import JsonObject, JsonValue

MAX_SELECTABLE: Final = 8
"""Maximum selectable fields of one version."""

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SELECTABLE_TYPES = ("string", "boolean", "integer")


def _simple(path: str, field: str) -> list[Cause]:
    """Validate only the first character: a path that does not parse prints an empty cell."""
    if path.startswith("."):
        return []
    return [api_errors.invalid_value(field, path, "must be a simple json path starting with .")]


def validate_columns(columns: Sequence[JsonObject] | None, field: str) -> Iterator[Cause]:
    """Validate ``additionalPrinterColumns``."""
    for index, column in enumerate(columns or ()):
        where = f"{field}[{index}]"
        if not column.get("name"):
            yield api_errors.required(f"{where}.name")
        yield from _one_of(column.get("type"), _COLUMN_TYPES, f"{where}.type")
        if column.get("format"):
            yield from _one_of(column["format"], _COLUMN_FORMATS, f"{where}.format")
        path = column.get("jsonPath", "")
        if not path:
            yield api_errors.required(f"{where}.JSONPath")
        else:
            yield from _simple(path, f"{where}.JSONPath")


def _one_of(value: str | None, allowed: Sequence[str], field: str) -> Iterator[Cause]:
    text = f"must be one of {','.join(allowed)}"
    if not value:
        yield api_errors.required(field, text)
    elif value not in allowed:
        yield api_errors.invalid_value(field, value, text)


def validate_scale(subresources: JsonObject | None, field: str) -> Iterator[Cause]:
    """Validate the paths of the scale subresource."""
    scale = (subresources or {}).get("scale")
    if scale is None:
        return
    for key, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        path, where = scale.get(key) or "", f"{field}.scale.{key}"
        if not path:
            yield api_errors.required(where)
            continue
        wrong = _simple(path, where)
        yield from wrong
        if not wrong and not path.startswith(f"{root}."):
            yield api_errors.invalid_value(where, path, f"should be a json path under {root}")
    path, where = scale.get("labelSelectorPath") or "", f"{field}.scale.labelSelectorPath"
    if path:
        wrong = _simple(path, where)
        yield from wrong
        if not wrong and not path.startswith((".spec.", ".status.")):
            yield api_errors.invalid_value(where, path, "should be a json path under either .spec or .status")


def validate_selectable(fields: Sequence[JsonObject] | None, schema: JsonObject | None, field: str) -> Iterator[Cause]:
    """Validate ``selectableFields``: each path names a scalar field outside metadata, and is unique."""
    paths: set[str] = set()
    for index, selectable in enumerate(fields or ()):
        path, where = selectable.get("jsonPath") or "", f"{field}[{index}].jsonPath"
        if not path:
            yield api_errors.required(where)
            continue
        try:
            target = _target(schema or {}, path)
        except UsageError as error:
            yield api_errors.invalid_value(where, path, f"is an invalid path: {error}")
            continue
        if path.startswith(".metadata."):
            yield api_errors.invalid_value(where, path, "must not point to fields in metadata")
        elif target.get("type") not in _SELECTABLE_TYPES:
            text = (
                "must point to a field of type string, boolean or integer."
                " Enum string fields and strings with formats are allowed."
            )
            yield api_errors.invalid_value(where, path, text)
        if path in paths:
            yield api_errors.duplicate(where, path)
        paths.add(path)
    if len(paths) > MAX_SELECTABLE:
        yield api_errors.too_many(field, len(paths), MAX_SELECTABLE)


def _target(schema: Mapping[str, JsonValue], path: str) -> Mapping[str, JsonValue]:
    """Return the schema at a path."""
    if "[" in path:
        raise UsageError("array notation is not allowed")
    return follow_field_path(path, schema)[1]
