"""Definitions from OpenAPI v3 component schemas. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from opsdk.apimachinery.plurals import pluralize
from opsdk.structured_merge.value import JsonObject

_BUILT_IN = ("io.k8s.api.", "io.k8s.apimachinery.", "io.k8s.apiextensions-apiserver.", "io.k8s.kube-aggregator.")


def inline_definitions(schemas: Mapping[str, Any]) -> tuple[list[JsonObject], dict[str, Any]]:
    """Return definitions of the kinds whose schemas refer only to metadata, and the remaining schemas.

    A server publishes custom resources in this form. OpenAPI schemas have no plural and no scope: the definitions have
    the usual plural, and are namespaced.

    >>> kind = {"type": "object", "properties": {"spec": {"type": "object"}},
    ...     "x-kubernetes-group-version-kind": [{"group": "a.dev", "version": "v1", "kind": "Site"}]}
    >>> definitions, rest = inline_definitions({"dev.a.v1.Site": kind, "dev.a.v1.Part": {"type": "object"}})
    >>> definitions[0]["spec"]["names"], list(rest)
    ({'plural': 'sites', 'kind': 'Site'}, ['dev.a.v1.Part'])
    """
    definitions: dict[tuple[str, str], JsonObject] = {}
    rest: dict[str, Any] = {}
    for name, schema in schemas.items():
        gvks = schema.get("x-kubernetes-group-version-kind", ())
        properties = {k: v for k, v in schema.get("properties", {}).items() if k != "metadata"}
        if len(gvks) != 1 or name.startswith(_BUILT_IN) or "items" in properties or '"$ref"' in json.dumps(properties):
            rest[name] = schema
            continue
        group, kind = gvks[0]["group"], gvks[0]["kind"]
        definition = definitions.setdefault(
            (group, kind),
            {
                "spec": {
                    "group": group,
                    "scope": "Namespaced",
                    "names": {"plural": pluralize(kind.lower()), "kind": kind},
                    "versions": [],
                }
            },
        )
        versions = definition["spec"]["versions"]
        body = {k: v for k, v in schema.items() if k != "x-kubernetes-group-version-kind"}
        body["properties"] = properties
        versions.append(
            {"name": gvks[0]["version"], "served": True, "storage": not versions, "schema": {"openAPIV3Schema": body}}
        )
    return list(definitions.values()), rest
