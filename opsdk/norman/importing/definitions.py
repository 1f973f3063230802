"""Schemas from CustomResourceDefinitions.

Upstream: github.com/rancher/steve/pkg/schema/converter (the same task, for its own schemas)
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import msgspec

from opsdk.aio.large_work import LARGE_BYTES, compute
from opsdk.api.apiextensions.v1 import CustomResourceDefinition
from opsdk.apimachinery.gvk import GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Unstructured, to_dict
from opsdk.apimachinery.plurals import guess_plural
from opsdk.errors import UsageError
from opsdk.norman.importing.classes import ClassImporter
from opsdk.norman.importing.names import lower_title
from opsdk.norman.importing.openapi import DEFINITION, OpenApiImporter
from opsdk.norman.importing.registration import (
    COLLECTION_METHODS,
    RESOURCE_METHODS,
    Customize,
    internal_copy,
    prepare,
    register,
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
_FIELDS_AT_ONCE: Final = 500
"""Fields that the event loop reads, maps and registers at once: 5 ms."""
_FIELD_BYTES: Final = 32
"""The JSON of a small field."""


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
    return DefinitionImport(registry, version, definition, schema_id=schema_id).run(customize)


class DefinitionImport:
    """One import, at once or in parts. An import that fails restores the schemas from before.

    Args:
        registry: see `import_definition`, as for the others.
        version: of the schemas.
        definition: the definition.
        schema_id: empty for the kind.
    """

    def __init__(
        self, registry: SchemaRegistry, version: ApiVersion, definition: Definition, *, schema_id: str
    ) -> None:
        tree = definition if isinstance(definition, dict) else to_dict(definition)
        self._registry = registry
        self._name: str = tree["metadata"]["name"]
        self._served = _served_version(tree, version.version)
        self._previous: Sequence[Schema] | None = None
        self._schema = _described(tree, self._served, version, schema_id)

    def run(self, customize: Customize | None) -> Schema:
        """Import at once. Returns the schema of the kind; the existing one if the definition has not changed."""
        with self._restored_after_errors():
            for _, work in self._steps(customize):
                work()
        return self._schema

    async def run_in_parts(self, customize: Customize | None) -> Schema:
        """Do the same as `run`. The event loop serves others in the meantime.

        The registry must not change until it is done, except by other definitions. The schemas of the definition before
        are missing while the new ones are registered.
        """
        fields = 0
        with self._restored_after_errors():
            for count, work in self._steps(customize):
                if count > _FIELDS_AT_ONCE:
                    await compute(LARGE_BYTES + 1, work)
                    continue
                work()
                fields += count
                if fields > _FIELDS_AT_ONCE:
                    fields = 0
                    await asyncio.sleep(0)
        return self._schema

    @contextmanager
    def _restored_after_errors(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if self._previous is not None:
                remove_definition(self._registry, self._schema.version, self._name)
                for each in self._previous:
                    self._registry.add(each)
            raise

    def _steps(self, customize: Customize | None) -> Iterator[tuple[int, Callable[[], None]]]:
        """Yield the parts of the work, with their numbers of fields. The registry changes between them only.

        The caller calls each before it takes the next. A part may run in a thread.
        """
        registry, schema = self._registry, self._schema
        existing = registry.schema(schema.version, schema.full_type)
        if existing is not None and existing.id == schema.id:
            if existing.attributes.get(DEFINITION) != self._name:
                raise UsageError(f"{schema.full_type} already exists: import {self._name} with another schema_id")
            if existing.dynamic_schema_version == schema.dynamic_schema_version:
                self._schema = existing
                return
        metadata = ClassImporter(registry).import_class(schema.version, ObjectMeta)
        others = registry.schemas_for_version(schema.version)
        taken = {each.id for each in others if each.attributes.get(DEFINITION) != self._name}
        importer = OpenApiImporter(schema, taken)
        size = len(msgspec.json.encode(self._served))
        yield size // _FIELD_BYTES, partial(_read, importer, schema, self._served, metadata.id)
        self._previous = remove_definition(registry, schema.version, self._name)
        for each in importer.nested:
            yield 1 + len(each.resource_fields), partial(prepare, registry, each)
            register(registry, each)
        # Mappers may move the fields of nested schemas to this one.
        yield sum(len(each.resource_fields) for each in importer.nested), partial(prepare, registry, schema)
        register(registry, schema, customize)


def _described(tree: JsonObject, served: JsonObject, version: ApiVersion, schema_id: str) -> Schema:
    """Return the schema of the kind of a definition, without fields."""
    spec, names = tree["spec"], tree["spec"]["names"]
    schema = Schema(
        id=schema_id or lower_title(names["kind"]),
        version=version,
        scope=Scope.NAMESPACE if spec.get("scope") == "Namespaced" else Scope.CLUSTER,
        collection_methods=COLLECTION_METHODS,
        resource_methods=RESOURCE_METHODS,
        status="status" in (served.get("subresources") or {}),
        dynamic_schema_version=_dynamic_version(tree),
        attributes={
            DEFINITION: tree["metadata"]["name"],
            GVK: GroupVersionKind(spec["group"], served["name"], names["kind"]),
            RESOURCE: GroupVersionResource(spec["group"], served["name"], names["plural"]),
        },
    )
    if guess_plural(schema.id).lower() != names["plural"] and not schema_id:
        schema.plural_name = names["plural"]
    return schema


def remove_definition(registry: SchemaRegistry, version: ApiVersion, name: str) -> Sequence[Schema]:
    """Remove and return all schemas of a definition: the schema of the kind, and those of the objects in it."""
    schemas = [each for each in registry.schemas_for_version(version) if each.attributes.get(DEFINITION) == name]
    for schema in schemas:
        registry.remove(schema)
    return schemas


def _read(importer: OpenApiImporter, schema: Schema, served: JsonObject, metadata: str) -> None:
    """Read the fields of a served version into a schema. The metadata has the schema of `ObjectMeta`."""
    node = (served.get("schema") or {}).get("openAPIV3Schema") or {}
    schema.description = node.get("description") or ""
    properties = {
        key: value
        for key, value in (node.get("properties") or {}).items()
        if key not in ("apiVersion", "kind", "metadata")
    }
    schema.resource_fields |= {
        "apiVersion": Field(type="string"),
        "kind": Field(type="string"),
        "metadata": Field(type=metadata),
    }
    importer.read_fields(schema, {**node, "properties": properties})
    schema.internal = internal_copy(schema)


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
