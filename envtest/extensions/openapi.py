"""OpenAPI schemas of custom resources. Pure.

Upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.apiserver.resources import ResourceInfo
from opsdk.structured_merge.value import JsonObject, JsonValue

_META = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_VERSION_TEXT = "APIVersion defines the versioned schema of this representation of an object."
_KIND_TEXT = "Kind is a string value representing the REST resource this object represents."
_OBJECT: JsonObject = {
    "apiVersion": {"description": _VERSION_TEXT, "type": "string"},
    "kind": {"description": _KIND_TEXT, "type": "string"},
    "metadata": {"allOf": [{"$ref": _META}], "description": "Standard object's metadata."},
}
"""Fields of every object."""
_MAPS = ("properties", "patternProperties", "definitions")
_SINGLE = ("items", "additionalProperties", "not")
_LISTS = ("allOf", "anyOf", "oneOf")


def published(info: ResourceInfo, schema: JsonObject, selectable: Sequence[str] = ()) -> JsonObject:
    """Add metadata, apiVersion, kind and the selectable fields to a schema, as OpenAPI v3 publishes it."""
    result: JsonObject = _with_standard_keywords(schema)
    result["properties"] = {**(result.get("properties") or {}), **_OBJECT}
    result["x-kubernetes-group-version-kind"] = [{"group": info.group, "kind": info.kind, "version": info.version}]
    if selectable:
        result["x-kubernetes-selectable-fields"] = [{"fieldPath": path.removeprefix(".")} for path in selectable]
    return result


def _with_standard_keywords(schema: JsonValue) -> JsonValue:
    """Return the schema with Kubernetes' extensions also in terms of standard OpenAPI."""
    if not isinstance(schema, dict):
        return schema
    result = dict(schema)
    for key in _MAPS:
        if isinstance(result.get(key), dict):
            result[key] = {name: _with_standard_keywords(inner) for name, inner in result[key].items()}
    for key in _SINGLE:
        if key in result:
            result[key] = _with_standard_keywords(result[key])
    for key in _LISTS:
        if isinstance(result.get(key), list):
            result[key] = [_with_standard_keywords(inner) for inner in result[key]]
    if result.get("x-kubernetes-int-or-string") and not any(result.get(key) for key in ("anyOf", "allOf")):
        result["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if result.get("x-kubernetes-embedded-resource"):
        result["properties"] = {**(result.get("properties") or {}), **_OBJECT}
        required = [name for name in result.get("required") or () if name not in ("kind", "apiVersion")]
        result["required"] = [*required, "kind", "apiVersion"]
    return result
