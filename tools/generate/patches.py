"""``generated_patches.py``: the lists that a strategic merge patch merges in built-in kinds, and their keys. Pure."""

from __future__ import annotations

import pprint
from collections.abc import Mapping
from typing import Any

from opsdk.structured_merge.value import JsonObject

Schema = Mapping[str, Any]

_REF = "#/components/schemas/"
_SITE = ("x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key")


def patch_schemas(schemas: Mapping[str, Schema]) -> dict[str, JsonObject]:
    """The schemas cut down to the fields below which some list merges."""
    schemas = {
        name: schema
        for name, schema in schemas.items()
        if not _target(_properties(schema).get("metadata", {})).endswith(".ListMeta")
    }
    telling = {name for name, schema in schemas.items() if any(_site(p) for p in _properties(schema).values())}
    while more := {
        name
        for name, schema in schemas.items()
        if name not in telling and any(_target(p) in telling for p in _properties(schema).values())
    }:
        telling |= more
    return {name: {"type": "object", "properties": _cut(schemas[name], telling)} for name in sorted(telling)}


def patch_kinds(schemas: Mapping[str, Schema]) -> dict[tuple[str, str, str], str]:
    """(group, version, kind) -> the schema of its objects."""
    telling = patch_schemas(schemas)
    found = {}
    for name, schema in schemas.items():
        gvks = schema.get("x-kubernetes-group-version-kind", ())
        if name in telling and len(gvks) == 1 and "metadata" in _properties(schema):
            found[gvks[0]["group"], gvks[0]["version"], gvks[0]["kind"]] = name
    return found


def _properties(schema: Schema) -> Mapping[str, Schema]:
    found: Mapping[str, Schema] = schema.get("properties", {})
    return found


def _site(part: Schema) -> JsonObject:
    return {key: part[key] for key in _SITE if key in part}


def _target(part: Schema) -> str:
    """The schema that a property, or each item or value of it, refers to."""
    inner = part.get("items") or part.get("additionalProperties") or part
    if not isinstance(inner, Mapping):
        return ""
    wrapped: Mapping[str, Any] = next(iter(inner.get("allOf") or ({},)))
    return str(inner.get("$ref") or wrapped.get("$ref", "")).removeprefix(_REF)


def _cut(schema: Schema, telling: set[str]) -> JsonObject:
    made: JsonObject = {}
    for wire, part in _properties(schema).items():
        target = _target(part) if _target(part) in telling else ""
        site = _site(part)
        if not target and not site:
            continue
        inner: JsonObject = {"$ref": _REF + target} if target else {}
        if part.get("type") == "array":
            made[wire] = {"type": "array", "items": inner, **site}
        elif "additionalProperties" in part:
            made[wire] = {"type": "object", "additionalProperties": inner, **site}
        else:
            made[wire] = {**inner, **site}
    return made


def render_patches(schemas: Mapping[str, Schema], provenance: str) -> str:
    """The source text of the module; `provenance` stands in its docstring."""
    kinds = {f"{g}/{v}/{k}": name for (g, v, k), name in sorted(patch_kinds(schemas).items())}
    return "\n".join(
        [
            '"""How strategic merge patches merge the lists of the built-in kinds.',
            "",
            provenance,
            '"""',
            "",
            "from typing import Any",
            "",
            f"KINDS: dict[str, str] = {pprint.pformat(kinds, width=118)}",
            "",
            f"SCHEMAS: dict[str, dict[str, Any]] = {pprint.pformat(patch_schemas(schemas), width=118)}",
            "",
        ]
    )
