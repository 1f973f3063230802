"""Validates the keywords of each level of a CRD's schema.

Upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from opsdk.apiserver.field_errors import FieldError, forbidden, invalid, not_supported, required
from opsdk.apiserver.structural.rule_locations import RULES
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.value import JsonValue

Schema = Mapping[str, JsonValue]
Errors = Iterator[FieldError]

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
"""JSON schema keywords that CRDs do not support, in the order of their errors."""

LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_KEYS: Final = "x-kubernetes-list-map-keys"
MAP_TYPE: Final = "x-kubernetes-map-type"
PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
EMBEDDED: Final = "x-kubernetes-embedded-resource"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"


def is_said(schema: Schema, keyword: str) -> bool:
    """Report whether a keyword of `UNSUPPORTED` is set; an empty reference and false count."""
    value = schema.get(keyword)
    return bool(value) or (value is not None and keyword in ("$ref", "additionalItems"))


def check_vocabulary(schema: Schema, path: FieldPath) -> Errors:
    """Yield the errors in the keywords of a schema at `path`, depth first."""
    yield from _check(schema, path, top=True)


_META: Final = ("metadata", "apiVersion", "kind")
_ENTRIES: Final = "inside additionalProperties applying to object metadata"


def _check(schema: Schema, path: FieldPath, owner: str | None = None, *, top: bool = False) -> Errors:
    """`owner` is the end of the error text inside metadata, where no default is allowed."""
    kind = schema.get("type")
    if kind and kind not in TYPES:
        yield not_supported(path.child("type"), kind, TYPES)
    if owner and schema.get("default") is not None:
        yield forbidden(path.child("default"), f"must not be set {owner}")
    for keyword in UNSUPPORTED:
        if is_said(schema, keyword):
            yield forbidden(path.child(keyword), f"{keyword} is not supported")
    if kind == "null":
        yield forbidden(path.child("type"), "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list) and schema["items"]:
        yield forbidden(path.child("items"), "items must be a schema object and not an array")
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(path.child("uniqueItems"), text)
    if schema.get("properties") and schema.get("additionalProperties") not in (None, True):
        text = "additionalProperties and properties are mutual exclusive"
        yield forbidden(path.child("additionalProperties"), text)
    yield from _check_children(schema, path, owner, top=top)
    yield from _check_extensions(schema, path)
    if schema.get(RULES):
        from opsdk.apiserver.structural.rule_text_validation import check_rule_texts  # noqa: PLC0415 - rarely needed

        yield from check_rule_texts(schema, path)


def _check_children(schema: Schema, path: FieldPath, owner: str | None, *, top: bool) -> Errors:
    """Yield the errors in all direct subschemas."""
    if isinstance(schema.get("additionalProperties"), Mapping):
        entries = None if owner is None else _ENTRIES
        yield from _check(schema["additionalProperties"], path.child("additionalProperties"), entries)
    for name in sorted(schema.get("properties") or {}):
        whose = owner
        if name in _META and (top or schema.get(EMBEDDED)):
            whose = f"in top-level {name}" if top else ""
        yield from _check(schema["properties"][name], path.child("properties").key(name), whose)
    if isinstance(schema.get("not"), Mapping):
        yield from _check(schema["not"], path.child("not"), owner)
    for keyword in ("allOf", "oneOf", "anyOf"):
        for index, below in enumerate(schema.get(keyword) or ()):
            yield from _check(below, path.child(keyword).index(index), owner)
    yield from _check_named(schema, path, "definitions")
    items = schema.get("items")
    if isinstance(items, Mapping):
        yield from _check(items, path.child("items"), owner)
    for index, below in enumerate(items if isinstance(items, list) else ()):
        yield from _check(below, path.child("items").index(index), owner)
    yield from _check_named(schema, path, "dependencies")


def _check_named(schema: Schema, path: FieldPath, keyword: str) -> Errors:
    for name, below in sorted((schema.get(keyword) or {}).items()):
        if isinstance(below, Mapping):
            yield from _check(below, path.child(keyword).key(name))


# ------------------------------------------------------------------ x-kubernetes-...
def _check_extensions(schema: Schema, path: FieldPath) -> Errors:
    """Yield what is wrong with the ``x-kubernetes`` keywords of a schema."""
    if schema.get(PRESERVE) is False:
        yield invalid(path.child(PRESERVE), value=False, detail="must be true or undefined")
    map_type, list_type, kind = schema.get(MAP_TYPE), schema.get(LIST_TYPE), schema.get("type") or ""
    if map_type is not None:
        yield from _require_type(path, kind, "object", MAP_TYPE)
        if map_type not in ("atomic", "granular"):
            yield not_supported(path.child(MAP_TYPE), map_type, ("atomic", "granular"))
    if list_type is not None:
        yield from _require_type(path, kind, "array", LIST_TYPE)
        if list_type not in ("atomic", "set", "map"):
            yield not_supported(path.child(LIST_TYPE), list_type, ("atomic", "set", "map"))
        elif list_type == "set" and kind == "array":
            yield from _check_set(schema, path)
    if schema.get(LIST_KEYS) and list_type != "map":
        text = f"must be map if {LIST_KEYS} is non-empty"
        list_type_path = path.child(LIST_TYPE)
        yield required(list_type_path, text) if list_type is None else invalid(list_type_path, list_type, text)
    if list_type == "map":
        yield from _check_map(schema, path)
    if list_type in ("map", "set") and isinstance(schema.get("items"), Mapping):
        yield from _check_elements(schema["items"], schema, path.child("items"))


def _require_type(path: FieldPath, kind: str, expected: str, because: str) -> Errors:
    if kind != expected:
        text = f"must be {expected} if {because} is specified"
        yield invalid(path.child("type"), kind, text) if kind else required(path.child("type"), text)


def _check_set(schema: Schema, path: FieldPath) -> Errors:
    """Check that the list and object items of a set are atomic."""
    items = schema.get("items")
    if not isinstance(items, Mapping):
        return
    kind = items.get("type")
    loose = (kind == "object" and items.get(MAP_TYPE) != "atomic") or (
        kind == "array" and items.get(LIST_TYPE) not in (None, "atomic")
    )
    if loose:
        items_path = path.child("items").child(MAP_TYPE if kind == "object" else LIST_TYPE)
        # Upstream reports the list type for objects too.
        yield invalid(items_path, items.get(LIST_TYPE), f"must be atomic as item of a list with {LIST_TYPE}=set")


def _check_map(schema: Schema, path: FieldPath) -> Errors:
    """Yield what is wrong with a list of type map: its keys, and the schema of its items."""
    keys = schema.get(LIST_KEYS) or []
    if not keys:
        yield required(path.child(LIST_KEYS), f"must not be empty if {LIST_TYPE} is map")
    items, items_path = schema.get("items"), path.child("items")
    if not isinstance(items, Mapping):
        yield required(items_path, f"must have a schema if {LIST_TYPE} is map")
        return
    kind = items.get("type") or ""
    if kind != "object":
        yield invalid(items_path.child("type"), kind, f"must be object if parent array's {LIST_TYPE} is map")
        return
    properties = items.get("properties") or {}
    for key in keys:
        kind = (properties.get(key) or {}).get("type")
        if kind in ("array", "object"):
            text = f"must be a scalar type if parent array's {LIST_TYPE} is map"
            # Upstream reports the type of the item.
            yield invalid(items_path.child("properties").key(key).child("type"), items["type"], text)
    if len(set(keys)) < len(keys):
        yield invalid(path.child(LIST_KEYS), keys, "must not contain duplicate entries")
    for key in keys:
        if key not in properties:
            yield invalid(path.child(LIST_KEYS), keys, "entries must all be names of item properties")


def _check_elements(items: Schema, schema: Schema, at: FieldPath) -> Errors:
    """Check that list items have their key fields."""
    if items.get("nullable"):
        yield forbidden(at.child("nullable"), f"cannot be nullable when {LIST_TYPE} is {schema[LIST_TYPE]}")
    for key in (schema.get(LIST_KEYS) or ()) if schema[LIST_TYPE] == "map" else ():
        field, where = (items.get("properties") or {}).get(key), at.child("properties").key(key)
        if field is None:
            continue
        if key not in (items.get("required") or ()) and field.get("default") is None:
            text = f"this property is in {LIST_KEYS}, so it must have a default or be a required property"
            yield required(where.child("default"), text)
        if field.get("nullable"):
            yield forbidden(where.child("nullable"), f"this property is in {LIST_KEYS}, so it cannot be nullable")
