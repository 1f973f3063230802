"""Stores that change or hide objects of another store.

Upstream: github.com/rancher/norman/store/transform/transform.go, store/subtype/subtype_store.go
Deviates: one transformer serves objects, lists and changes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from msgspec.structs import replace

from opsdk.norman.codes import not_found
from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.model import ApiContext, Schema, Store
from opsdk.norman.query import apply_query
from opsdk.norman.store_results import ResourceEvent, ResourceList
from opsdk.structured_merge.value import JsonObject

__all__ = ["SubtypeStore", "TransformStore"]

Transformer = Callable[[ApiContext, Schema, JsonObject], JsonObject | None]
"""Returns the object that a client sees, or None to hide it. It may change its argument."""


class TransformStore:
    """Transforms the objects of a store. A hidden object is not found, cannot be changed and is not listed.

    Lists are filtered, sorted and paged after the transformation, so that pages stay full.

    Args:
        store: the store.
        transformer: for single objects, and for each object of lists and changes.
    """

    def __init__(self, store: Store, transformer: Transformer) -> None:
        self.store = store
        self._transformer = transformer

    async def by_id(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject:
        """Return an object. Raises `NormanError` NotFound if it is hidden."""
        return self._visible(context, schema, await self.store.by_id(context, schema, object_id), object_id)

    async def list(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> ResourceList:
        """Return the objects that are not hidden."""
        everything = ObjectQuery(visible=query.visible)
        items = (await self.store.list(context, schema, everything)).items
        transformed = [self._transformer(context, schema, item) for item in items]
        visible = [item for item in transformed if item is not None]
        return apply_query(schema, query, visible)

    async def create(self, context: ApiContext, schema: Schema, data: JsonObject) -> JsonObject:
        """Create an object."""
        created = await self.store.create(context, schema, data)
        return self._visible(context, schema, created, str(created.get("id", "")))

    async def update(self, context: ApiContext, schema: Schema, data: JsonObject, object_id: str) -> JsonObject:
        """Update an object that is not hidden."""
        await self.by_id(context, schema, object_id)
        updated = await self.store.update(context, schema, data, object_id)
        return self._visible(context, schema, updated, object_id)

    async def delete(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject | None:
        """Delete an object that is not hidden."""
        await self.by_id(context, schema, object_id)
        data = await self.store.delete(context, schema, object_id)
        return None if data is None else self._transformer(context, schema, data)

    async def watch(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> AsyncGenerator[ResourceEvent]:
        """Yield the changes of objects that are not hidden."""
        async with aclosing(self.store.watch(context, schema, replace(query, filters=()))) as events:
            async for event in events:
                data = self._transformer(context, schema, event.data)
                if data is not None:
                    yield replace(event, data=data)

    def _visible(self, context: ApiContext, schema: Schema, data: JsonObject, object_id: str) -> JsonObject:
        visible = self._transformer(context, schema, data)
        if visible is None:
            raise not_found(object_id)
        return visible


class SubtypeStore(TransformStore):
    """Shows the objects of one subtype, by the value of a field, as objects of their own schema.

    Several schemas can share a store: each lists, creates and changes only its own objects.

    Args:
        field: the field that names the subtype, such as ``kind``.
        value: the name.
        store: the store.
    """

    def __init__(self, field: str, value: str, store: Store) -> None:
        self._field = field
        self._value = value
        super().__init__(store, self._select_subtype)

    async def create(self, context: ApiContext, schema: Schema, data: JsonObject) -> JsonObject:
        """Create an object of the subtype."""
        return await super().create(context, schema, {**data, self._field: self._value})

    async def update(self, context: ApiContext, schema: Schema, data: JsonObject, object_id: str) -> JsonObject:
        """Update an object of the subtype; it stays of the subtype."""
        return await super().update(context, schema, {**data, self._field: self._value}, object_id)

    def _select_subtype(self, context: ApiContext, schema: Schema, data: JsonObject) -> JsonObject | None:
        return {**data, "type": schema.full_type} if data.get(self._field) == self._value else None
