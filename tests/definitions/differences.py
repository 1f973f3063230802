"""How a definition of another origin differs from the one that its classes give again. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opsdk.structured_merge.value import JsonObject, JsonValue

_TEXTS = ("description", "title", "example", "externalDocs")
_SET_BY_THE_SERVER = ("apiVersion", "kind", "metadata")


def differences(definition: JsonObject, again: JsonObject) -> list[str]:
    """Return what differs, up to order, defaults and descriptions.

    A required field with a default is one that may be left out, because the server sets defaults first. The server sets
    apiVersion, kind and metadata itself, and the names that are left out. An empty list of subresources is none.
    """
    return [*_compare("", _comparable(definition["spec"]), _comparable(again["spec"]))]


def _comparable(spec: JsonObject) -> JsonObject:
    names = spec["names"]
    lower = names["kind"].lower()
    versions = {}
    for version in spec["versions"]:
        parts = {
            name: part for name, part in version.items() if name not in ("schema", "name") and part not in ({}, None)
        }
        schema = _schema(version["schema"]["openAPIV3Schema"])
        properties = schema.get("properties", {})
        for name in _SET_BY_THE_SERVER:
            properties.pop(name, None)
        schema["required"] = [name for name in schema.get("required", ()) if name != "metadata"]
        versions[version["name"]] = {**parts, "schema": {k: v for k, v in schema.items() if v not in ({}, [])}}
    return {
        "group": spec["group"],
        "scope": spec["scope"],
        "names": {"singular": lower, "listKind": f"{names['kind']}List", **_without_empty(names)},
        "versions": versions,
    }


def _without_empty(tree: JsonObject) -> JsonObject:
    return {name: value for name, value in tree.items() if value not in (None, [], "")}


def _schema(schema: JsonObject) -> JsonObject:
    """Return a schema without texts, defaults and nulls."""
    result: JsonObject = {}
    properties = schema.get("properties") or {}
    for keyword, value in schema.items():
        if keyword in ("default", *_TEXTS) or value is None:
            continue
        if keyword == "properties":
            result[keyword] = {name: _schema(part) for name, part in properties.items()}
        elif keyword in ("items", "additionalProperties", "not") and isinstance(value, dict):
            result[keyword] = _schema(value)
        elif keyword in ("allOf", "anyOf", "oneOf"):
            result[keyword] = [_schema(part) for part in value]
        elif keyword == "required":
            if names := sorted(name for name in value if "default" not in properties.get(name, {})):
                result[keyword] = names
        else:
            result[keyword] = value
    return result


def _compare(path: str, before: JsonValue, after: JsonValue) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        missing: Any = object()
        for name in sorted(before.keys() | after.keys()):
            old, new = before.get(name, missing), after.get(name, missing)
            if old is missing or new is missing:
                yield f"{path}.{name} is {'added' if old is missing else 'lost'}"
            else:
                yield from _compare(f"{path}.{name}", old, new)
    elif before != after:
        yield f"{path}: {before!r} -> {after!r}"
