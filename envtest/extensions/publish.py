"""Schemas of custom resources as OpenAPI documents show them."""

from __future__ import annotations

from opsdk.apiserver.resources import ResourceInfo
from opsdk.apiserver.storage.ports import Tree

_META = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_VERSION_TEXT = "APIVersion defines the versioned schema of this representation of an object."
_KIND_TEXT = "Kind is a string value representing the REST resource this object represents."


def published(info: ResourceInfo, schema: Tree) -> Tree:
    """The schema with what every object has, and with its kind."""
    made = dict(schema)
    properties = dict(made.get("properties") or {})
    properties["apiVersion"] = {"description": _VERSION_TEXT, "type": "string"}
    properties["kind"] = {"description": _KIND_TEXT, "type": "string"}
    properties["metadata"] = {"allOf": [{"$ref": _META}], "description": "Standard object's metadata."}
    made["properties"] = properties
    made["x-kubernetes-group-version-kind"] = [{"group": info.group, "kind": info.kind, "version": info.version}]
    return made
