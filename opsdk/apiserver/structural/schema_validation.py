"""Validates that a CRD's schema is structural.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final

from opsdk.apiserver.field_errors import FieldError, forbidden, invalid, required
from opsdk.apiserver.structural.default_validation import check_defaults
from opsdk.apiserver.structural.keyword_validation import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVE,
    UNSUPPORTED,
    check_vocabulary,
    is_said,
)
from opsdk.apiserver.structural.rule_locations import RULES, has_rules
from opsdk.apiserver.structural.schema_format import AT_ROOT, first_beyond_root, shown_schema
from opsdk.cel.regex import compile_regex
from opsdk.errors import UsageError
from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.value import JsonValue

Schema = Mapping[str, JsonValue]
Errors = Iterator[FieldError]


def check_structural(schema: Schema, path: FieldPath, *, has_status: bool = False) -> list[FieldError]:
    """Return the errors in an ``openAPIV3Schema`` at `path`.

    The order is upstream's: structural errors, or errors in defaults if there are none; then unsupported keywords,
    level by level; then errors in rules, if the structure is valid. With `has_status`, few keywords are allowed
    at the root.
    """
    errors: list[FieldError] = list(_check_root(schema, path)) if has_status else []
    if schema.get("nullable"):
        errors.append(forbidden(path.child("nullable"), "nullable cannot be true at the root"))
    strange = _unsupported_keyword(schema)
    structure = (
        []
        if strange
        else sorted([*_invariants(schema, path, _Level.ROOT), *_declarations(schema, path)], key=str)
        or list(check_defaults(schema, path))
    )
    vocabulary = list(check_vocabulary(schema, path))
    errors += [*structure, *vocabulary]
    if not strange and not structure and has_rules(schema):
        from opsdk.apiserver.structural.rule_validation import check_rules  # noqa: PLC0415 - CEL is slow to import

        errors += check_rules(schema, path, has_schema_errors=bool(vocabulary))
    if strange and not errors:
        errors.append(invalid(path, "", f"OpenAPIV3Schema '{strange}' is not supported"))
    return errors


def _check_root(schema: Schema, path: FieldPath) -> Errors:
    match first_beyond_root(schema):
        case "":
            pass
        case "type":
            text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            yield invalid(path.child("type"), schema["type"], text)
        case _:
            text = f"only {AT_ROOT} fields are allowed at the root of the schema if the status subresource is enabled"
            yield invalid(path, shown_schema(schema), text)


def _unsupported_keyword(schema: Schema) -> str:
    """Return an unsupported keyword of the schema; empty without one."""
    if schema.get("$schema"):
        return "schema"
    if schema.get(PRESERVE) is False:
        return PRESERVE
    unsupported = next((keyword for keyword in UNSUPPORTED if is_said(schema, keyword)), "")
    if isinstance(schema.get("items"), list) and schema["items"]:
        unsupported = "items"
    inner = [
        *(schema.get("properties") or {}).values(),
        *(
            schema[keyword]
            for keyword in ("items", "additionalProperties", "not")
            if isinstance(schema.get(keyword), Mapping)
        ),
        *(part for keyword in ("allOf", "anyOf", "oneOf") for part in schema.get(keyword) or ()),
    ]
    return unsupported or next(filter(None, map(_unsupported_keyword, inner)), "")


# ------------------------------------------------------------------ structural schemas
class _Level(Enum):
    """The position of a schema; the value completes the message about a missing type."""

    ROOT = "at the root"
    """The root: the whole object."""
    FIELD = "for specified object fields"
    """A field or an entry of an object."""
    ITEM = "for specified array items"
    """An element of a list."""


def _invariants(schema: Schema, path: FieldPath, level: _Level) -> Errors:
    """Yield where a schema is not structural."""
    kind = schema.get("type") or ""
    yield from _check_pattern(schema, path)
    items, additional = schema.get("items"), schema.get("additionalProperties")
    if kind == "array" and not isinstance(items, Mapping):
        yield required(path.child("items"), "must be specified")
    if isinstance(items, Mapping):
        yield from _invariants(items, path.child("items"), _Level.ITEM)
    for name in sorted(schema.get("properties") or {}):
        yield from _invariants(schema["properties"][name], path.child("properties").key(name), _Level.FIELD)
    if additional is not None and level is _Level.ROOT:
        yield forbidden(path.child("additionalProperties"), "must not be used at the root")
    if isinstance(additional, Mapping):
        yield from _invariants(additional, path.child("additionalProperties"), _Level.FIELD)
    if schema.get(INT_OR_STRING):
        for other in (PRESERVE, EMBEDDED):
            if schema.get(other):
                yield invalid(path.child(other), value=True, detail=f"must be false if {INT_OR_STRING} is true")
    yield from _logic(schema, path)
    yield from _type_invariants(schema, path, level, kind)
    if level is _Level.ROOT or schema.get(EMBEDDED):
        yield from _meta_invariants(schema, path, level)


def _check_pattern(schema: Schema, path: FieldPath) -> Errors:
    pattern = schema.get("pattern")
    if pattern:
        try:
            compile_regex(pattern)
        except UsageError as error:
            yield invalid(path.child("pattern"), pattern, f"must be a valid regular expression, but isn't: {error}")


def _type_invariants(schema: Schema, path: FieldPath, level: _Level, kind: str) -> Errors:
    """Yield where the type of a schema is missing or excluded by its place."""
    type_path = path.child("type")
    if schema.get(EMBEDDED):
        text = f"must be object if {EMBEDDED} is true"
        if kind != "object":
            yield invalid(type_path, kind, text) if kind else required(type_path, text)
        if schema.get("additionalProperties") is not None:
            yield forbidden(path.child("additionalProperties"), f"must not be used if {EMBEDDED} is set")
        if not schema.get(PRESERVE) and not schema.get("properties"):
            text = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
            yield required(path.child("properties"), text)
    elif not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        yield required(type_path, f"must not be empty {level.value}")
    if level is _Level.ROOT and kind and kind != "object":
        yield invalid(type_path, kind, "must be object at the root")


def _meta_invariants(schema: Schema, path: FieldPath, level: _Level) -> Errors:
    """Check the schemas of apiVersion, kind and metadata."""
    properties = schema.get("properties") or {}
    properties_path = path.child("properties")
    for name in ("kind", "apiVersion"):
        kind = properties.get(name, {}).get("type") or ""
        if name in properties and kind != "string":
            yield invalid(properties_path.key(name).child("type"), kind, "must be string")
    for name in ("kind", "apiVersion", "metadata"):
        yield from _no_resources(properties.get(name), properties_path.key(name))
    metadata = properties.get("metadata")
    if metadata is None:
        return
    if metadata.get("type") != "object":
        yield invalid(properties_path.key("metadata").child("type"), metadata.get("type") or "", "must be object")
    only_names = set(metadata.get("properties") or {}) <= {"name", "generateName"}
    if level is _Level.ROOT and (not only_names or set(metadata) - {"type", "properties", "description", "default"}):
        text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden(properties_path.key("metadata"), text)


def _no_resources(schema: JsonValue, path: FieldPath) -> Errors:
    """Reject embedded resources inside apiVersion, kind and metadata."""
    if not isinstance(schema, Mapping):
        return
    if schema.get(EMBEDDED):
        yield forbidden(path.child(EMBEDDED), "must not be used inside of resource meta")
    for name, below in sorted((schema.get("properties") or {}).items()):
        yield from _no_resources(below, path.child("properties").key(name))
    for keyword in ("items", "additionalProperties"):
        yield from _no_resources(schema.get(keyword), path.child(keyword))
    for below, below_path in _alternatives(schema, path):
        yield from _no_resources(below, below_path)


# ------------------------------------------------------------------ allOf, anyOf, oneOf, not
_EITHER: Final = [{"type": "integer"}, {"type": "string"}]
"""The alternatives of int-or-string; only here may a logical junctor have types."""

_EMPTY: Final = ("type", "title", "description", LIST_KEYS, RULES)
_UNDEFINED: Final = ("default", "additionalProperties", LIST_TYPE, MAP_TYPE)
_FALSE: Final = ("nullable", PRESERVE, EMBEDDED, INT_OR_STRING)


def _alternatives(schema: Schema, path: FieldPath) -> Iterator[tuple[Schema, FieldPath]]:
    """Yield the direct subschemas of allOf, anyOf, oneOf and not."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, below in enumerate(schema.get(keyword) or ()):
            yield below, path.child(keyword).index(index)
    if isinstance(schema.get("not"), Mapping):
        yield schema["not"], path.child("not")


def _logic(schema: Schema, path: FieldPath) -> Errors:
    any_of, all_of = schema.get("anyOf") or [], schema.get("allOf") or []
    either = deep_equal(any_of, _EITHER)
    first = bool(all_of) and deep_equal(all_of[0].get("anyOf"), _EITHER)
    for below, below_path in _alternatives(schema, path):
        if either and any(below is one for one in any_of):
            continue
        yield from _nested(below, below_path, either=first and below is all_of[0])


def _nested(schema: Schema, path: FieldPath, *, either: bool = False) -> Errors:
    """Check a schema inside a logical junctor, which may only restrict values."""
    yield from _check_pattern(schema, path)
    if isinstance(schema.get("items"), Mapping):
        yield from _nested(schema["items"], path.child("items"))
    for name in sorted(schema.get("properties") or {}):
        yield from _nested(schema["properties"][name], path.child("properties").key(name))
    for below, below_path in _alternatives(schema, path):
        if not (either and any(below is one for one in schema["anyOf"])):
            yield from _nested(below, below_path)
    yield from _only_restricts(schema, path)
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden(path.child("properties").key("metadata"), "must not be specified in a nested context")


def _only_restricts(schema: Schema, path: FieldPath) -> Errors:
    """Reject keywords that specify types, defaults or extensions."""
    for keywords, state in ((_EMPTY, "empty"), (_FALSE, "false")):
        for keyword in keywords:
            if schema.get(keyword):
                yield forbidden(path.child(keyword), f"must be {state} to be structural")
    for keyword in _UNDEFINED:
        if schema.get(keyword) is not None and (keyword, schema[keyword]) != ("additionalProperties", False):
            yield forbidden(path.child(keyword), "must be undefined to be structural")


def _declarations(schema: Schema, path: FieldPath) -> Errors:
    """Check that the root schema declares the fields in its logical junctors; upstream checks the root only."""
    for below, below_path in _alternatives(schema, path):
        yield from _declared(below, schema, path, below_path)


def _declared(logic: Schema, trunk: Schema, trunk_path: FieldPath, path: FieldPath) -> Errors:
    """Yield what a logical schema mentions and the schema around it does not declare."""
    for below, below_path in _alternatives(logic, path):
        yield from _declared(below, trunk, trunk_path, below_path)
    for name in sorted(logic.get("properties") or {}):
        below_path, mentioned = trunk_path.child("properties").key(name), path.child("properties").key(name)
        declared = (trunk.get("properties") or {}).get(name)
        if declared is None:
            yield required(below_path, f"because it is defined in {mentioned}")
        else:
            yield from _declared(logic["properties"][name], declared, below_path, mentioned)
    if isinstance(logic.get("items"), Mapping):
        below_path, mentioned = trunk_path.child("items"), path.child("items")
        if isinstance(trunk.get("items"), Mapping):
            yield from _declared(logic["items"], trunk["items"], below_path, mentioned)
        else:
            yield required(below_path, f"because it is defined in {mentioned}")
