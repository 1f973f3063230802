"""The store around each store of a server: sub-contexts, filters, order and pages.

Upstream: github.com/rancher/norman/store/wrapper/wrapper.go, parse/subcontext.go
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from msgspec.structs import replace

from opsdk.norman.codes import ErrorCode
from opsdk.norman.model import (
    ApiContext,
    QueryCondition,
    QueryOptions,
    ResourceEvent,
    ResourceList,
    Schema,
)
from opsdk.norman.query import apply_query, matches
from opsdk.norman.stores.delegating import DelegatingStore
from opsdk.norman.type_expression import TypeExpression
from opsdk.structured_merge.value import JsonObject


class StoreWrapper(DelegatingStore):
    """Restricts a store to the sub-context of the request and to visible objects, and applies the query.

    An object of another sub-context is not found. An object that is created gets the id of the sub-context.

    Args:
        store: the store.
    """

    async def by_id(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject:
        """Return an object of the sub-context. Raises `NormanError` NotFound."""
        data = await self.store.by_id(context, schema, object_id)
        return await self._visible(context, schema, data, object_id)

    async def list(self, context: ApiContext, schema: Schema, options: QueryOptions) -> ResourceList:
        """Return a page of the objects of the sub-context that the client may see."""
        options = await _allowed(context, schema, _within(context, schema, options))
        result = await self.store.list(context, schema, options)
        items = await context.access.filter_list(context, schema, result.items)
        if result.markers is not None:
            return ResourceList(items=items, markers=result.markers)
        return apply_query(options, items)

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

    async def watch(self, context: ApiContext, schema: Schema, options: QueryOptions) -> AsyncGenerator[ResourceEvent]:
        """Yield changes of the sub-context that the client may see."""
        options = await _allowed(context, schema, _within(context, schema, options))
        async with aclosing(self.store.watch(context, schema, options)) as events:
            async for event in events:
                if matches(options, event.data) and await context.access.filter_list(context, schema, [event.data]):
                    yield event

    async def _visible(self, context: ApiContext, schema: Schema, data: JsonObject, object_id: str) -> JsonObject:
        allowed = await context.access.filter_list(context, schema, [data])
        if not allowed or not matches(_within(context, schema, QueryOptions()), allowed[0]):
            raise ErrorCode.NOT_FOUND.error(f"failed to find {object_id}")
        return allowed[0]


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


def _within(context: ApiContext, schema: Schema, options: QueryOptions) -> QueryOptions:
    own = tuple(
        QueryCondition(field=name, values=(value,)) for name, value in sub_context_fields(context, schema).items()
    )
    return replace(options, conditions=options.conditions + own) if own else options


async def _allowed(context: ApiContext, schema: Schema, options: QueryOptions) -> QueryOptions:
    """Add the namespaces that the client may list, so that the store does not read others."""
    namespaces = await context.access.list_namespaces(context, schema)
    if namespaces is None or options.namespaces is not None:
        return options
    return replace(options, namespaces=namespaces)
