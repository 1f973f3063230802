"""Schemas of custom resources as OpenAPI documents show them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opsdk.apiserver.resources import ResourceInfo
from opsdk.structured_merge.value import JsonObject

_META = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_VERSION_TEXT = "APIVersion defines the versioned schema of this representation of an object."
_KIND_TEXT = "Kind is a string value representing the REST resource this object represents."
_OBJECT: JsonObject = {
    "apiVersion": {"description": _VERSION_TEXT, "type": "string"},
    "kind": {"description": _KIND_TEXT, "type": "string"},
    "metadata": {"allOf": [{"$ref": _META}], "description": "Standard object's metadata."},
}
"""What every object has."""
_MAPS = ("properties", "patternProperties", "definitions")
_SINGLE = ("items", "additionalProperties", "not")
_LISTS = ("allOf", "anyOf", "oneOf")


def published(info: ResourceInfo, schema: JsonObject, selectable: Sequence[str] = ()) -> JsonObject:
    """The schema with what every object has, with its kind, and with the paths of the fields that select."""
    made: JsonObject = _spelled(schema)
    made["properties"] = {**(made.get("properties") or {}), **_OBJECT}
    made["x-kubernetes-group-version-kind"] = [{"group": info.group, "kind": info.kind, "version": info.version}]
    if selectable:
        made["x-kubernetes-selectable-fields"] = [{"fieldPath": path.removeprefix(".")} for path in selectable]
    return made


def _spelled(schema: Any) -> Any:
    """With the extensions also said in words that every reader of OpenAPI knows."""
    if not isinstance(schema, dict):
        return schema
    made = dict(schema)
    for key in _MAPS:
        if isinstance(made.get(key), dict):
            made[key] = {name: _spelled(inner) for name, inner in made[key].items()}
    for key in _SINGLE:
        if key in made:
            made[key] = _spelled(made[key])
    for key in _LISTS:
        if isinstance(made.get(key), list):
            made[key] = [_spelled(inner) for inner in made[key]]
    if made.get("x-kubernetes-int-or-string") and not any(made.get(key) for key in ("anyOf", "allOf")):
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if made.get("x-kubernetes-embedded-resource"):
        made["properties"] = {**(made.get("properties") or {}), **_OBJECT}
        required = [name for name in made.get("required") or () if name not in ("kind", "apiVersion")]
        made["required"] = [*required, "kind", "apiVersion"]
    return made
