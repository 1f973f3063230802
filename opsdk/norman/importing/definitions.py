"""Schemas from CustomResourceDefinitions.

Upstream: github.com/rancher/steve/pkg/schema/converter (the same task, for its own schemas)
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from opsdk.api.apiextensions.v1 import CustomResourceDefinition
from opsdk.apimachinery.gvk import GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Unstructured, to_tree
from opsdk.apimachinery.plurals import guess_plural
from opsdk.errors import UsageError
from opsdk.norman.importing.classes import ClassImporter
from opsdk.norman.importing.names import lower_title
from opsdk.norman.importing.openapi import DEFINITION, OpenApiImporter
from opsdk.norman.importing.registration import (
    COLLECTION_METHODS,
    RESOURCE_METHODS,
    Customize,
    finish,
    internal_copy,
)
from opsdk.norman.mappers.kubernetes import GVK
from opsdk.norman.model import Schema
from opsdk.norman.rbac_access import RESOURCE
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import ApiVersion, Field, Scope
from opsdk.structured_merge.value import JsonObject

__all__ = ["import_definition", "remove_definition"]

Definition = CustomResourceDefinition | Unstructured | JsonObject
"""A CustomResourceDefinition in any representation."""


def import_definition(
    registry: SchemaRegistry,
    version: ApiVersion,
    definition: Definition,
    customize: Customize | None = None,
    *,
    schema_id: str = "",
) -> Schema:
    """Import the kind of a definition, and the objects in it, or replace them if the definition has changed.

    Args:
        registry: gets the schemas.
        version: of the schemas. The served version of the definition with the same name is imported, or else the stored
            one, or else the first that is served.
        definition: the definition; its schemas are replaced when its uid or generation differs from that of the import.
        customize: gets the schema of the kind after each import, but not if nothing has changed.
        schema_id: by default the kind, as ``site`` for ``Site``.

    Raises:
        UsageError: no version is served, an id is taken by another schema, or a mapper needs a field that is missing.
            A failed import changes nothing.
    """
    tree = definition if isinstance(definition, dict) else to_tree(definition)
    name: str = tree["metadata"]["name"]
    spec, served = tree["spec"], _served_version(tree, version.version)
    names = spec["names"]
    schema = Schema(
        id=schema_id or lower_title(names["kind"]),
        version=version,
        scope=Scope.NAMESPACE if spec.get("scope") == "Namespaced" else Scope.CLUSTER,
        collection_methods=COLLECTION_METHODS,
        resource_methods=RESOURCE_METHODS,
        status="status" in (served.get("subresources") or {}),
        dynamic_schema_version=_dynamic_version(tree),
        attributes={
            DEFINITION: name,
            GVK: GroupVersionKind(spec["group"], served["name"], names["kind"]),
            RESOURCE: GroupVersionResource(spec["group"], served["name"], names["plural"]),
        },
    )
    if guess_plural(schema.id).lower() != names["plural"] and not schema_id:
        schema.plural_name = names["plural"]
    existing = registry.schema(version, schema.full_type)
    if existing is not None and existing.id == schema.id:
        if existing.attributes.get(DEFINITION) != name:
            raise UsageError(f"{schema.full_type} already exists: import {name} with another schema_id")
        if existing.dynamic_schema_version == schema.dynamic_schema_version:
            return existing
    previous = remove_definition(registry, version, name)
    try:
        return _import(registry, schema, served, customize)
    except UsageError:
        remove_definition(registry, version, name)
        for each in previous:
            registry.add(each)
        raise


def remove_definition(registry: SchemaRegistry, version: ApiVersion, name: str) -> Sequence[Schema]:
    """Remove and return all schemas of a definition: the schema of the kind, and those of the objects in it."""
    schemas = [each for each in registry.schemas_for_version(version) if each.attributes.get(DEFINITION) == name]
    for schema in schemas:
        registry.remove(schema)
    return schemas


def _import(registry: SchemaRegistry, schema: Schema, served: JsonObject, customize: Customize | None) -> Schema:
    """Read the fields of a served version into a schema, and add it. The metadata has the schema of `ObjectMeta`."""
    node = (served.get("schema") or {}).get("openAPIV3Schema") or {}
    schema.description = node.get("description") or ""
    properties = {
        key: value
        for key, value in (node.get("properties") or {}).items()
        if key not in ("apiVersion", "kind", "metadata")
    }
    metadata = ClassImporter(registry).import_class(schema.version, ObjectMeta)
    schema.resource_fields |= {
        "apiVersion": Field(type="string"),
        "kind": Field(type="string"),
        "metadata": Field(type=metadata.id),
    }
    OpenApiImporter(registry, schema).read_fields(schema, {**node, "properties": properties})
    schema.internal = internal_copy(schema)
    return finish(registry, schema, customize)


def _served_version(tree: JsonObject, name: str) -> JsonObject:
    versions: list[JsonObject] = [each for each in tree["spec"].get("versions") or () if each.get("served")]
    if not versions:
        raise UsageError(f"{tree['metadata']['name']} serves no version: set `served: true` for one version")
    stored = next((each for each in versions if each.get("storage")), versions[0])
    return next((each for each in versions if each["name"] == name), stored)


def _dynamic_version(tree: JsonObject) -> str:
    """Return a string that changes with the definition. A definition that was never stored has no generation."""
    metadata = tree["metadata"]
    if metadata.get("uid") and metadata.get("generation"):
        return f"{metadata['uid']}/{metadata['generation']}"
    return hashlib.sha256(msgspec.json.encode(tree["spec"], order="deterministic")).hexdigest()[:16]
