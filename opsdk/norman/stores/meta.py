"""The stores of the meta version: the schemas themselves, and the versions.

Upstream: github.com/rancher/norman/store/schema/schema_store.go, api/builtin/api_root.go
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from opsdk.norman.access import is_allowed, may_list
from opsdk.norman.body import nested_schemas
from opsdk.norman.codes import ErrorCode, not_found
from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.model import ApiContext, Schema
from opsdk.norman.schema_parts import ApiVersion
from opsdk.norman.store_results import ResourceList
from opsdk.norman.stores.empty import EmptyStore
from opsdk.structured_merge.value import JsonObject


class SchemaStore(EmptyStore):
    """The schemas of the version of the request that the client may list or get, with the permitted methods."""

    async def by_id(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject:
        """Return a schema by its id in any letter case."""
        requested = context.schemas.schema(context.version, object_id)
        if requested is None or not requested.is_enabled or requested not in await self._visible(context):
            raise ErrorCode.NOT_FOUND.error("no such schema")
        return await describe(context, requested)

    async def list(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> ResourceList:
        """Return all schemas that the client may use, and their dependencies."""
        return ResourceList(items=[await describe(context, visible) for visible in await self._visible(context)])

    async def _visible(self, context: ApiContext) -> Sequence[Schema]:
        if context.version is None:
            return []
        visible: dict[str, Schema] = {}
        for schema in context.schemas.schemas_for_version(context.version):
            may_get = schema.is_enabled and await is_allowed(context.access.can_get(context, schema))
            if may_get or await may_list(context, schema):
                nested = nested_schemas(context.schemas, schema)
                visible |= {each.full_type: each for each in (*nested, schema)}
        return list(visible.values())


class ApiRootStore(EmptyStore):
    """The versions of the API."""

    async def by_id(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject:
        """Return a version by its path."""
        for version in context.schemas.versions():
            if version.path == object_id:
                return _root(version)
        raise not_found(object_id)

    async def list(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> ResourceList:
        """Return all versions."""
        return ResourceList(items=[_root(version) for version in context.schemas.versions()])


async def describe(context: ApiContext, schema: Schema) -> JsonObject:
    """Return a schema as JSON, with the methods that the client may use."""
    access = context.access
    resource_checks = {
        "GET": access.can_get(context, schema),
        "PUT": access.can_update(context, schema, None),
        "DELETE": access.can_delete(context, schema, None),
    }
    collection_checks = {"GET": access.can_list(context, schema), "POST": access.can_create(context, schema)}
    resource_allowed = {method for method, check in resource_checks.items() if await is_allowed(check)}
    collection_allowed = {method for method, check in collection_checks.items() if await is_allowed(check)}
    return {
        "id": schema.id,
        "type": "/meta/schemas/schema",
        "baseType": schema.base_type,
        "pluralName": schema.plural_name,
        "description": schema.description,
        "version": msgspec.to_builtins(schema.version),
        "embed": schema.embed,
        "embedType": schema.embed_type,
        "dynamicSchemaVersion": schema.dynamic_schema_version,
        "resourceMethods": [method for method in schema.resource_methods if method in resource_allowed],
        "collectionMethods": [method for method in schema.collection_methods if method in collection_allowed],
        "resourceFields": msgspec.to_builtins(schema.resource_fields),
        "resourceActions": msgspec.to_builtins(schema.resource_actions),
        "collectionFields": msgspec.to_builtins(schema.collection_fields),
        "collectionActions": msgspec.to_builtins(schema.collection_actions),
        "collectionFilters": msgspec.to_builtins(schema.collection_filters),
    }


def _root(version: ApiVersion) -> JsonObject:
    return {"type": "/meta/schemas/apiRoot", "apiVersion": msgspec.to_builtins(version), "path": version.path}
