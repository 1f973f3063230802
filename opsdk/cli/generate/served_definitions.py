"""Finds CustomResourceDefinitions among documents, and tells which of them a server refuses. Pure.

Upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from opsdk.structured_merge.value import JsonObject, JsonValue

_API_VERSION: Final = "apiextensions.k8s.io/v1"
_REQUIRED: Final = {"group": str, "names": dict, "scope": str, "versions": list}


def definitions_among(documents: Iterable[JsonValue]) -> Iterator[JsonObject]:
    """Yield the CustomResourceDefinitions in documents, and in the items of lists.

    >>> item = {"kind": "CustomResourceDefinition"}
    >>> list(definitions_among([None, {"kind": "List", "items": [item]}, {"kind": "Pod"}, item]))
    [{'kind': 'CustomResourceDefinition'}, {'kind': 'CustomResourceDefinition'}]
    """
    for document in documents:
        if not isinstance(document, dict):
            continue
        if document.get("kind") == "CustomResourceDefinition":
            yield document
        elif str(document.get("kind")).endswith("List") and isinstance(document.get("items"), list):
            yield from definitions_among(document["items"])


def why_refused(definition: JsonObject) -> str:
    """Return why a definition has no classes, because no server takes it; empty if it has some.

    >>> why_refused({"apiVersion": "apiextensions.k8s.io/v1beta1", "metadata": {"name": "a"}})
    'a is left out: apiextensions.k8s.io/v1beta1 is not served since Kubernetes 1.22: convert it to v1'
    >>> why_refused({"apiVersion": "apiextensions.k8s.io/v1", "metadata": {"name": "a"}, "spec": {"group": "x"}})
    'a is left out: spec has no names, scope, versions'
    """
    metadata = definition.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    reason = _reason(definition)
    return f"{name or 'a CustomResourceDefinition without a name'} is left out: {reason}" if reason else ""


def _reason(definition: JsonObject) -> str:
    version = definition.get("apiVersion")
    if version == "apiextensions.k8s.io/v1beta1":
        return f"{version} is not served since Kubernetes 1.22: convert it to v1"
    if version != _API_VERSION:
        return f"its apiVersion is {version}, not {_API_VERSION}"
    spec = definition.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    missing = [key for key, form in _REQUIRED.items() if not isinstance(spec.get(key), form) or not spec[key]]
    if missing:
        return f"spec has no {', '.join(missing)}"
    if absent := [key for key in ("plural", "kind") if not isinstance(spec["names"].get(key), str)]:
        return f"spec.names has no {', '.join(absent)}"
    for version in spec["versions"]:
        if not isinstance(version, dict) or not isinstance(version.get("name"), str):
            return "a version has no name"
        schema = version.get("schema")
        if not isinstance(schema, dict) or not isinstance(schema.get("openAPIV3Schema"), dict):
            return f"version {version['name']} has no openAPIV3Schema"
    return ""
