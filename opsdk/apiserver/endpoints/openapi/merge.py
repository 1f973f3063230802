"""Merges the OpenAPI v2 documents of several servers. Pure.

Upstream: k8s.io/kube-openapi/pkg/aggregator/aggregator.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping

from opsdk.structured_merge.value import JsonObject, JsonValue

_REF = "#/definitions/"
_MOST_LEVELS = 200
"""Deepest value of a foreign document. Each level is a call or two where documents are merged and encoded."""


def filter_spec_by_paths(document: JsonObject, root: str) -> JsonObject:
    """Return a document with only the paths below `root` and the definitions that they refer to.

    Raises `RecursionError` if one of them has more than `_MOST_LEVELS` levels.
    """
    paths = {p: item for p, item in (document.get("paths") or {}).items() if p == root or p.startswith(f"{root}/")}
    definitions, reachable = document.get("definitions") or {}, JsonObject()
    waiting = list(_references(paths))
    while waiting:
        name = waiting.pop()
        if name not in reachable and name in definitions:
            reachable[name] = definitions[name]
            waiting.extend(_references(definitions[name]))
    return {"paths": paths, "definitions": reachable}


def merge_specs(paths: JsonObject, definitions: JsonObject, other: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Merge two specs: existing paths win, and differing definitions of one name are renamed."""
    names = {
        name: _free_name(name, definitions, other["definitions"])
        for name, schema in other["definitions"].items()
        if name in definitions and definitions[name] != schema
    }
    added = {names.get(name, name): _renamed(schema, names) for name, schema in other["definitions"].items()}
    return {**_renamed(other["paths"], names), **paths}, {**definitions, **added}


def _free_name(name: str, *taken: JsonObject) -> str:
    number = 2
    while any(f"{name}_v{number}" in names for names in taken):
        number += 1
    return f"{name}_v{number}"


def _references(value: JsonValue) -> list[str]:
    """Return the names of the referenced definitions. Raises `RecursionError` for a value that is too deep."""
    names: list[str] = []
    level: list[JsonValue] = [value]
    for _ in range(_MOST_LEVELS):
        below: list[JsonValue] = []
        for part in level:
            if isinstance(part, list):
                below += part
            elif isinstance(part, dict):
                target = part.get("$ref")
                if isinstance(target, str) and target.startswith(_REF):
                    names.append(target.removeprefix(_REF))
                below += part.values()
        level = below
        if not level:
            return names
    raise RecursionError(f"the value has more than {_MOST_LEVELS} levels")


def _renamed(value: JsonValue, names: Mapping[str, str]) -> JsonValue:
    if not names:
        return value
    if isinstance(value, list):
        return [_renamed(part, names) for part in value]
    if not isinstance(value, dict):
        return value
    renamed = {key: _renamed(part, names) for key, part in value.items()}
    target = renamed.get("$ref")
    if isinstance(target, str) and target.removeprefix(_REF) in names:
        renamed["$ref"] = _REF + names[target.removeprefix(_REF)]
    return renamed
