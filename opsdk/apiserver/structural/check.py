"""What a CRD's schema itself may contain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, Final

from opsdk.apiserver.field_errors import FieldError, forbidden, invalid, not_supported, required
from opsdk.apiserver.structural.check_defaults import check_defaults
from opsdk.apiserver.structural.rule_places import RULES, has_rules
from opsdk.cel.regex import compile_regex
from opsdk.errors import UsageError
from opsdk.tree.equal import deep_equal
from opsdk.tree.paths import FieldPath

Schema = Mapping[str, Any]
Errors = Iterator[FieldError]


def check_structural(schema: Schema, path: FieldPath) -> list[FieldError]:
    """What is wrong with an ``openAPIV3Schema`` that stands at `path`.

    In three steps, each only if the one before found nothing, as the server does: the vocabulary that CRDs may use,
    the rules that make a schema structural, the defaults and the validation rules.
    """
    for step in (_check_vocabulary, _check_structure):
        errors = list(step(schema, path))
        if errors:
            return errors
    return [*check_defaults(schema, path), *(_check_rules(schema, path) if has_rules(schema) else ())]


def _check_rules(schema: Schema, path: FieldPath) -> list[FieldError]:
    from opsdk.apiserver.structural.check_rules import check_rules  # noqa: PLC0415 - schemas without rules need no CEL

    return check_rules(schema, path)


def _check_rule_texts(schema: Schema, path: FieldPath) -> Errors:
    if schema.get(RULES):
        from opsdk.apiserver.structural.check_rules import check_rule_texts  # noqa: PLC0415 - as above

        yield from check_rule_texts(schema, path)


def _check_structure(schema: Schema, path: FieldPath) -> Errors:
    errors = list(_invariants(schema, path, _Level.ROOT))
    return iter(errors or _completeness(schema, path))


# ------------------------------------------------------------------ the vocabulary
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = ("$ref", "id", "patternProperties", "definitions", "dependencies", "additionalItems")


def _check_vocabulary(schema: Schema, path: FieldPath, *, root: bool = True) -> Errors:
    for keyword in _UNSUPPORTED:
        if schema.get(keyword):
            yield forbidden(path.child(keyword), f"{keyword} is not supported")
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(path.child("uniqueItems"), text)
    if root and schema.get("nullable"):
        yield forbidden(path.child("nullable"), "nullable cannot be true at the root")
    if schema.get("type") == "null":
        yield forbidden(path.child("type"), "type cannot be set to null, use nullable as an alternative")
    elif schema.get("type") and schema["type"] not in _TYPES:
        yield not_supported(path.child("type"), schema["type"], _TYPES)
    yield from _check_additional(schema, path)
    yield from _check_pattern(schema, path)
    yield from _below(schema, path, lambda below, at: _check_vocabulary(below, at, root=False))
    if isinstance(schema.get("items"), list):
        yield forbidden(path.child("items"), "items must be a schema object and not an array")
    yield from _check_extensions(schema, path)
    yield from _check_rule_texts(schema, path)


def _check_additional(schema: Schema, path: FieldPath) -> Errors:
    additional = schema.get("additionalProperties")
    at = path.child("additionalProperties")
    if additional is False:
        yield forbidden(at, "additionalProperties cannot be set to false")
    elif additional is not None and schema.get("properties"):
        yield forbidden(at, "additionalProperties and properties are mutual exclusive")


def _check_pattern(schema: Schema, path: FieldPath) -> Errors:
    pattern = schema.get("pattern")
    if pattern:
        try:
            compile_regex(pattern)
        except UsageError as error:
            yield invalid(path.child("pattern"), pattern, f"must be a valid regular expression, but isn't: {error}")


def _below(schema: Schema, path: FieldPath, visit: Callable[[Schema, FieldPath], Errors]) -> Errors:
    """Visit all schemas directly below this one."""
    for name in sorted(schema.get("properties") or {}):
        yield from visit(schema["properties"][name], path.child("properties").key(name))
    for keyword in ("additionalProperties", "items", "not"):
        if isinstance(schema.get(keyword), Mapping):
            yield from visit(schema[keyword], path.child(keyword))
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, below in enumerate(schema.get(keyword) or ()):
            yield from visit(below, path.child(keyword).index(index))


# ------------------------------------------------------------------ x-kubernetes-...
_LIST_TYPE: Final = "x-kubernetes-list-type"
_LIST_KEYS: Final = "x-kubernetes-list-map-keys"
_MAP_TYPE: Final = "x-kubernetes-map-type"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"


def _check_extensions(schema: Schema, path: FieldPath) -> Errors:
    if schema.get(_PRESERVE) is False:
        yield invalid(path.child(_PRESERVE), value=False, detail="must be true or undefined")
    map_type, list_type, kind = schema.get(_MAP_TYPE), schema.get(_LIST_TYPE), schema.get("type") or ""
    if map_type is not None:
        yield from _require_type(path, kind, "object", _MAP_TYPE)
        if map_type not in ("atomic", "granular"):
            yield not_supported(path.child(_MAP_TYPE), map_type, ("atomic", "granular"))
    if list_type is not None:
        yield from _require_type(path, kind, "array", _LIST_TYPE)
        if list_type not in ("atomic", "map", "set"):
            yield not_supported(path.child(_LIST_TYPE), list_type, ("atomic", "map", "set"))
    if schema.get(_LIST_KEYS) and list_type != "map":
        text = f"must be map if {_LIST_KEYS} is non-empty"
        at = path.child(_LIST_TYPE)
        yield required(at, text) if list_type is None else invalid(at, list_type, text)
    if list_type == "set":
        yield from _check_set(schema, path)
    if list_type == "map":
        yield from _check_map(schema, path)


def _require_type(path: FieldPath, kind: str, wanted: str, because: str) -> Errors:
    if kind != wanted:
        text = f"must be {wanted} if {because} is specified"
        yield invalid(path.child("type"), kind, text) if kind else required(path.child("type"), text)


def _check_set(schema: Schema, path: FieldPath) -> Errors:
    items = schema.get("items")
    at = path.child("items")
    if not isinstance(items, Mapping):
        yield required(at, f"must have a schema if {_LIST_TYPE} is set")
        return
    if items.get("nullable"):
        yield forbidden(at.child("nullable"), f"must be false if {_LIST_TYPE} is set")
    wanted = {"object": _MAP_TYPE, "array": _LIST_TYPE}.get(items.get("type") or "")
    if wanted and items.get(wanted, "atomic" if wanted == _LIST_TYPE else None) != "atomic":
        text = f"must be atomic as item of a list with {_LIST_TYPE}=set"
        value = items.get(wanted)
        yield required(at.child(wanted), text) if value is None else invalid(at.child(wanted), value, text)


def _check_map(schema: Schema, path: FieldPath) -> Errors:
    keys = schema.get(_LIST_KEYS) or []
    if not keys:
        yield required(path.child(_LIST_KEYS), f"must not be empty if {_LIST_TYPE} is map")
    items = schema.get("items")
    at = path.child("items")
    if not isinstance(items, Mapping):
        yield required(at, f"must have a schema if {_LIST_TYPE} is map")
        return
    if items.get("nullable"):
        yield forbidden(at.child("nullable"), f"must be false if {_LIST_TYPE} is map")
    if items.get("type") != "object":
        yield invalid(
            at.child("type"), items.get("type") or "", f"must be object if parent array's {_LIST_TYPE} is map"
        )
    seen: set[str] = set()
    for index, key in enumerate(keys):
        if key in seen:
            yield invalid(path.child(_LIST_KEYS).index(index), key, "must not contain duplicate entries")
        elif key not in (items.get("properties") or {}):
            yield invalid(path.child(_LIST_KEYS).index(index), key, "entries must all be names of item properties")
        else:
            yield from _check_key(items, key, at.child("properties").key(key))
        seen.add(key)


def _check_key(items: Schema, key: str, at: FieldPath) -> Errors:
    schema = items["properties"][key]
    kind = schema.get("type") or ""
    if kind in ("array", "object"):
        yield invalid(at.child("type"), kind, f"must be a scalar type if parent array's {_LIST_TYPE} is map")
    if schema.get("nullable"):
        yield forbidden(at.child("nullable"), f"this property is in {_LIST_KEYS}, so it cannot be nullable")
    if key not in (items.get("required") or ()) and schema.get("default") is None:
        text = f"this property is in {_LIST_KEYS}, so it must have a default or be a required property"
        yield required(at.child("default"), text)


# ------------------------------------------------------------------ structural: types in the trunk, none in the logic
class _Level(Enum):
    """Where a schema stands; the value completes the message about a missing type."""

    ROOT = "at the root"
    """The whole object."""
    FIELD = "for specified object fields"
    """An object's field or entry."""
    ITEM = "for specified array items"
    """A list's element."""


def _invariants(schema: Schema, path: FieldPath, level: _Level) -> Errors:
    kind = schema.get("type") or ""
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
    yield from _exclusive_extensions(schema, path)
    yield from _logic(schema, path)
    yield from _type_invariants(schema, path, level, kind)
    if level is _Level.ROOT or schema.get(_EMBEDDED):
        yield from _meta_invariants(schema, path, level)


def _type_invariants(schema: Schema, path: FieldPath, level: _Level, kind: str) -> Errors:
    at = path.child("type")
    if schema.get(_EMBEDDED):
        text = f"must be object if {_EMBEDDED} is true"
        if kind != "object":
            yield invalid(at, kind, text) if kind else required(at, text)
        if schema.get("additionalProperties") is not None:
            yield forbidden(path.child("additionalProperties"), f"must not be used if {_EMBEDDED} is set")
        if not schema.get(_PRESERVE) and not schema.get("properties"):
            text = f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}"
            yield required(path.child("properties"), text)
    elif not kind and not schema.get(_INT_OR_STRING) and not schema.get(_PRESERVE):
        yield required(at, f"must not be empty {level.value}")
    if level is _Level.ROOT and kind and kind != "object":
        yield invalid(at, kind, "must be object at the root")


def _exclusive_extensions(schema: Schema, path: FieldPath) -> Errors:
    if schema.get(_INT_OR_STRING):
        for other in (_PRESERVE, _EMBEDDED):
            if schema.get(other):
                yield invalid(path.child(other), value=True, detail=f"must be false if {_INT_OR_STRING} is true")


def _meta_invariants(schema: Schema, path: FieldPath, level: _Level) -> Errors:
    """apiVersion, kind and metadata are what they are."""
    properties = schema.get("properties") or {}
    at = path.child("properties")
    for name in ("kind", "apiVersion"):
        kind = properties.get(name, {}).get("type") or ""
        if name in properties and kind != "string":
            yield invalid(at.key(name).child("type"), kind, "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    if metadata.get("type") != "object":
        yield invalid(at.key("metadata").child("type"), metadata.get("type") or "", "must be object")
    named = set(metadata.get("properties") or {}) <= {"name", "generateName"}
    if level is _Level.ROOT and (not named or set(metadata) - {"type", "properties", "description"}):
        text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden(at.key("metadata"), text)


# ------------------------------------------------------------------ allOf, anyOf, oneOf, not
_INT_OR_STRING_PATTERN: Final = [{"type": "integer"}, {"type": "string"}]

_EMPTY: Final = ("type", "title", "description")
_UNDEFINED: Final = ("default", "additionalProperties", _LIST_TYPE, _LIST_KEYS, _MAP_TYPE)
_FALSE: Final = ("nullable", _PRESERVE, _EMBEDDED, _INT_OR_STRING)


def _logic(schema: Schema, path: FieldPath) -> Errors:
    int_or_string = bool(schema.get(_INT_OR_STRING))
    for keyword in ("allOf", "anyOf", "oneOf"):
        alternatives = schema.get(keyword) or []
        if int_or_string and keyword == "anyOf" and deep_equal(alternatives, _INT_OR_STRING_PATTERN):
            continue
        for index, below in enumerate(alternatives):
            first = int_or_string and keyword == "allOf" and index == 0
            if not (first and deep_equal(below.get("anyOf"), _INT_OR_STRING_PATTERN)):
                yield from _nested(below, path.child(keyword).index(index))
    if isinstance(schema.get("not"), Mapping):
        yield from _nested(schema["not"], path.child("not"))


def _nested(schema: Schema, path: FieldPath) -> Errors:
    """In logic a schema restricts values, and must not say what they are."""
    if isinstance(schema.get("items"), Mapping):
        yield from _nested(schema["items"], path.child("items"))
    for name in sorted(schema.get("properties") or {}):
        yield from _nested(schema["properties"][name], path.child("properties").key(name))
    yield from _logic(schema, path)
    for keywords, state in ((_EMPTY, "empty"), (_UNDEFINED, "undefined"), (_FALSE, "false")):
        for keyword in keywords:
            if schema.get(keyword):
                yield forbidden(path.child(keyword), f"must be {state} to be structural")
    if schema.get(RULES):
        yield forbidden(path.child(RULES), "must be empty to be structural")
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden(path.child("properties").key("metadata"), "must not be specified in a nested context")


def _completeness(schema: Schema, path: FieldPath) -> Errors:
    """What logic mentions must be declared outside of it."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, below in enumerate(schema.get(keyword) or ()):
            yield from _declared(below, schema, path, path.child(keyword).index(index))
    if isinstance(schema.get("not"), Mapping):
        yield from _declared(schema["not"], schema, path, path.child("not"))
    if isinstance(schema.get("items"), Mapping):
        yield from _completeness(schema["items"], path.child("items"))
    for name in sorted(schema.get("properties") or {}):
        yield from _completeness(schema["properties"][name], path.child("properties").key(name))
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield from _completeness(schema["additionalProperties"], path.child("additionalProperties"))


def _declared(logic: Schema, trunk: Schema, trunk_path: FieldPath, path: FieldPath) -> Errors:
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, below in enumerate(logic.get(keyword) or ()):
            yield from _declared(below, trunk, trunk_path, path.child(keyword).index(index))
    if isinstance(logic.get("not"), Mapping):
        yield from _declared(logic["not"], trunk, trunk_path, path.child("not"))
    for name in sorted(logic.get("properties") or {}):
        at, mentioned = trunk_path.child("properties").key(name), path.child("properties").key(name)
        below = (trunk.get("properties") or {}).get(name)
        if below is None:
            yield required(at, f"because it is defined in {mentioned}")
        else:
            yield from _declared(logic["properties"][name], below, at, mentioned)
    if isinstance(logic.get("items"), Mapping):
        at, mentioned = trunk_path.child("items"), path.child("items")
        if isinstance(trunk.get("items"), Mapping):
            yield from _declared(logic["items"], trunk["items"], at, mentioned)
        else:
            yield required(at, f"because it is defined in {mentioned}")
