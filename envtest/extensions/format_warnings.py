"""Warnings about schema formats that the server does not validate. Pure.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/validation/formats.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator

from opsdk.apiserver.strfmt import is_known
from opsdk.structured_merge.value import JsonObject, JsonValue


def format_warnings(obj: JsonObject, old: JsonObject | None) -> list[str]:
    """Warn of unknown formats in a CRD; on update, formats that the old object has are not reported."""
    existing = set() if old is None else set(_unknown(old))
    return [f'unrecognized format "{name}"' for name in dict.fromkeys(_unknown(obj)) if name not in existing]


def _unknown(definition: JsonObject) -> Iterator[str]:
    for version in (definition.get("spec") or {}).get("versions") or ():
        yield from _in_schema((version.get("schema") or {}).get("openAPIV3Schema"))


def _in_schema(schema: JsonValue) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    name = schema.get("format")
    if name and not is_known(name, schema.get("type") or ""):
        yield name
    for part in (schema.get("properties") or {}).values():
        yield from _in_schema(part)
    for key in ("items", "additionalProperties", "not"):
        yield from _in_schema(schema.get(key))
    for key in ("allOf", "anyOf", "oneOf"):
        for part in schema.get(key) or ():
            yield from _in_schema(part)
