"""The store around each store of a server: sub-contexts, filters, order and pages.

Upstream: github.com/rancher/norman/store/wrapper/wrapper.go, parse/subcontext.go
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from msgspec.structs import replace

from opsdk.norman.codes import not_found
from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.model import ApiContext, Schema, Store
from opsdk.norman.query import apply_query, condition, matcher
from opsdk.norman.schema_parts import Modifier
from opsdk.norman.store_results import ResourceEvent, ResourceList
from opsdk.norman.type_expression import TypeExpression
from opsdk.structured_merge.value import JsonObject


class StoreWrapper:
    """Restricts a store to the sub-context of the request and to visible objects, and applies the query.

    An object of another sub-context is not found. An object that is created gets the id of the sub-context.

    Args:
        store: the store.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    async def by_id(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject:
        """Return an object of the sub-context. Raises `NormanError` NotFound."""
        data = await self.store.by_id(context, schema, object_id)
        if not matcher(schema, await _restricted(context, schema, ObjectQuery()))(data):
            raise not_found(object_id)
        return data

    async def list(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> ResourceList:
        """Return a page of the objects of the sub-context that the client may see."""
        query = await _restricted(context, schema, query)
        result = await self.store.list(context, schema, query)
        return result if result.markers is not None else apply_query(schema, query, result.items)

    async def create(self, context: ApiContext, schema: Schema, data: JsonObject) -> JsonObject:
        """Create an object in the sub-context."""
        return await self.store.create(context, schema, {**data, **sub_context_fields(context, schema)})

    async def update(self, context: ApiContext, schema: Schema, data: JsonObject, object_id: str) -> JsonObject:
        """Update an object of the sub-context."""
        await self.by_id(context, schema, object_id)
        fields = sub_context_fields(context, schema)
        return await self.store.update(context, schema, {**data, **fields}, object_id)

    async def delete(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject | None:
        """Delete an object of the sub-context."""
        await self.by_id(context, schema, object_id)
        return await self.store.delete(context, schema, object_id)

    async def watch(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> AsyncGenerator[ResourceEvent]:
        """Yield changes of the sub-context that the client may see."""
        query = await _restricted(context, schema, query)
        async with aclosing(self.store.watch(context, schema, query)) as events:
            async for event in events:
                visible = await context.access.visible(context, schema)  # as it is now
                if matcher(schema, replace(query, visible=visible))(event.data):
                    yield event


def sub_context_fields(context: ApiContext, schema: Schema) -> Mapping[str, str]:
    """Return the fields of a schema that refer to the sub-context, with the id of the URL."""
    fields = {}
    for full_type, object_id in context.sub_context.items():
        owner = context.schemas.schema(None, full_type)
        if owner is None:
            continue
        for name, field in schema.resource_fields.items():
            expression = TypeExpression.parse(field.type)
            if expression.is_reference and expression.target in (owner.id, owner.full_type):
                fields[name] = object_id
                break
    return fields


async def _restricted(context: ApiContext, schema: Schema, query: ObjectQuery) -> ObjectQuery:
    """Return the query for the objects of the sub-context that the client may see."""
    own = [condition(name, Modifier.EQ, value) for name, value in sub_context_fields(context, schema).items()]
    filters = [item for filters in own for item in filters]
    visible = await context.access.visible(context, schema)
    return replace(query, filters=(*query.filters, *filters), visible=visible)
