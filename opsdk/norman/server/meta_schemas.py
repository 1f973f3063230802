"""The schemas of the meta version: schema, error, collection, apiRoot.

Upstream: github.com/rancher/norman/api/builtin/schema.go, api_root.go
"""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.norman.model import ApiContext, RawResource, Schema
from opsdk.norman.schema_parts import ApiVersion, Field
from opsdk.norman.stores.meta import ApiRootStore, SchemaStore

META = ApiVersion(group="meta.cattle.io", version="v1", path="/meta")
"""The version of the built-in schemas. Each version serves `schema` as its own."""


def meta_schemas() -> Sequence[Schema]:
    """Return new built-in schemas."""
    schema_fields = {
        "baseType": Field(type="string"),
        "collectionActions": Field(type="map[json]"),
        "collectionFields": Field(type="map[json]"),
        "collectionFilters": Field(type="map[json]"),
        "collectionMethods": Field(type="array[string]"),
        "description": Field(type="string"),
        "dynamicSchemaVersion": Field(type="string"),
        "embed": Field(type="boolean"),
        "embedType": Field(type="string"),
        "pluralName": Field(type="string"),
        "resourceActions": Field(type="map[json]"),
        "resourceFields": Field(type="map[json]"),
        "resourceMethods": Field(type="array[string]"),
        "version": Field(type="map[json]"),
    }
    error_fields = {
        "code": Field(type="string"),
        "detail": Field(type="string", nullable=True),
        "fieldName": Field(type="string", nullable=True),
        "message": Field(type="string", nullable=True),
        "status": Field(type="int"),
    }
    collection_fields = {
        "data": Field(type="array[json]"),
        "filters": Field(type="map[json]"),
        "pagination": Field(type="map[json]"),
        "sort": Field(type="map[json]"),
    }
    return (
        Schema(
            id="schema",
            version=META,
            resource_methods=("GET",),
            resource_fields=schema_fields,
            collection_methods=("GET",),
            store=SchemaStore(),
            formatter=_link_schema,
        ),
        Schema(id="error", version=META, resource_fields=error_fields),
        Schema(id="collection", version=META, resource_fields=collection_fields),
        Schema(
            id="apiRoot",
            version=META,
            resource_methods=("GET",),
            collection_methods=("GET",),
            resource_fields={"apiVersion": Field(type="map[json]"), "path": Field(type="string")},
            store=ApiRootStore(),
            formatter=_link_collections,
        ),
    )


def _link_schema(context: ApiContext, resource: RawResource) -> None:
    schema = context.schemas.schema(context.version, resource.id)
    if schema is None:
        return
    resource.links = {"self": context.urls.schema(schema)}
    if "GET" in resource.values.get("collectionMethods", ()):
        resource.links["collection"] = context.urls.collection(schema)


def _link_collections(context: ApiContext, resource: RawResource) -> None:
    path = resource.values.pop("path", "")
    resource.links = {"root": context.urls.relative_to_root(path)}
    version = next((version for version in context.schemas.versions() if version.path == path), None)
    if version is None:
        return
    resource.links["self"] = context.urls.version(version)
    for schema in context.schemas.schemas_for_version(version):
        if "GET" in schema.collection_methods and schema.is_enabled:
            resource.links[schema.plural_name] = context.urls.collection(schema)
