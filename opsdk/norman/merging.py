"""Merges an update into a stored object. Pure.

Upstream: github.com/rancher/norman/types/convert/merge/merge.go
Deviates: a null removes the field; norman stores the null, which the API server then drops.
"""

from __future__ import annotations

from collections.abc import Mapping

from opsdk.norman.model import Schema, SchemaLookup
from opsdk.norman.type_expression import TypeExpression
from opsdk.structured_merge.value import JsonObject, JsonValue


def merge_update(
    schema: Schema | None, schemas: SchemaLookup, existing: JsonObject, changes: JsonObject, *, replace: bool
) -> JsonObject:
    """Return an internal object with changes.

    Objects of known schemas are merged field by field; maps and lists are replaced as a whole. The status stays. Labels
    and annotations are replaced, but those of Rancher (``cattle.io/``) stay.

    Args:
        schema: the internal schema; None merges all objects field by field.
        schemas: the registry of nested schemas.
        existing: the stored object.
        changes: the internal fields of the body.
        replace: fields that an update could set, and that are not in `changes`, are removed.
    """
    result = _merge(schema, schemas, existing, changes, replace=replace)
    if "status" in existing:
        result["status"] = existing["status"]
    metadata = existing.get("metadata")
    if isinstance(metadata, dict):
        result["metadata"] = _merge_metadata(metadata, changes.get("metadata") or {})
    return result


def _merge(
    schema: Schema | None, schemas: SchemaLookup, existing: JsonObject, changes: JsonObject, *, replace: bool
) -> JsonObject:
    """Merge field by field. Null removes a field, and a value that is replaced as a whole is not merged."""
    fields = schema.resource_fields if schema is not None else {}
    remaining = {k: v for k, v in existing.items() if not (replace and k in fields and fields[k].update)}
    for name, value in changes.items():
        if value is None:
            remaining.pop(name, None)
            continue
        nested, whole = _nested(schema, schemas, name)
        before = existing.get(name)
        if whole or not isinstance(value, dict) or not isinstance(before, dict):
            remaining[name] = value
        else:
            remaining[name] = _merge(nested, schemas, before, value, replace=replace)
    return remaining


def _nested(schema: Schema | None, schemas: SchemaLookup, name: str) -> tuple[Schema | None, bool]:
    """Return the schema of a field, and whether its value is replaced as a whole."""
    field = schema.resource_fields.get(name) if schema is not None else None
    if schema is None or field is None:
        return None, False
    expression = TypeExpression.parse(field.type)
    target = expression.target
    if not target:
        # Maps of objects are merged by entry; maps of scalars are replaced.
        return None, not (expression.is_map and expression.leaf.target)
    nested = schemas.schema(schema.version, target)
    return (nested.internal or nested) if nested is not None else None, False


def _merge_metadata(existing: JsonObject, changes: Mapping[str, JsonValue]) -> JsonObject:
    result = dict(existing)
    for name in ("labels", "annotations"):
        merged = _merge_keys(existing.get(name) or {}, changes.get(name))
        if merged:
            result[name] = merged
        else:
            result.pop(name, None)
    return result


def _merge_keys(existing: JsonObject, changes: JsonObject | None) -> JsonObject:
    if changes is None:
        return existing
    remaining = {key: value for key, value in existing.items() if _is_rancher(key)}
    return remaining | {key: value for key, value in changes.items() if not is_protected(key) and value is not None}


def is_protected(key: str) -> bool:
    """Whether only the server may set a label or annotation.

    >>> is_protected("cattle.io/creator"), is_protected("field.cattle.io/creatorId"), is_protected("field.cattle.io/x")
    (True, True, False)
    """
    return "cattle.io/" in key and (not _is_field(key) or key == "field.cattle.io/creatorId")


def _is_field(key: str) -> bool:
    return key.startswith("field.cattle.io/")


def _is_rancher(key: str) -> bool:
    return is_protected(key) or _is_field(key)
