"""The base of stores around another store."""

from __future__ import annotations

from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.model import ApiContext, Schema, Store
from opsdk.norman.store_results import ResourceEvents, ResourceList
from opsdk.structured_merge.value import JsonObject


class DelegatingStore:
    """Delegates every method to a store. Override the methods that differ.

    Args:
        store: the store.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    async def by_id(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject:
        """Return an object of the store."""
        return await self.store.by_id(context, schema, object_id)

    async def list(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> ResourceList:
        """Return the objects of the store."""
        return await self.store.list(context, schema, query)

    async def create(self, context: ApiContext, schema: Schema, data: JsonObject) -> JsonObject:
        """Create an object in the store."""
        return await self.store.create(context, schema, data)

    async def update(self, context: ApiContext, schema: Schema, data: JsonObject, object_id: str) -> JsonObject:
        """Update an object in the store."""
        return await self.store.update(context, schema, data, object_id)

    async def delete(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject | None:
        """Delete an object in the store."""
        return await self.store.delete(context, schema, object_id)

    def watch(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> ResourceEvents:
        """Yield the changes of the store."""
        return self.store.watch(context, schema, query)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.store!r}>"
