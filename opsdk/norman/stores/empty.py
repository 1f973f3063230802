"""A store without objects, and the base of stores that support only some verbs.

Upstream: github.com/rancher/norman/store/empty/empty_store.go
Deviates: norman's store returns nothing for each verb; here an unsupported write is an error.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from opsdk.norman.codes import ErrorCode, not_found
from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.model import ApiContext, Schema
from opsdk.norman.store_results import ResourceEvent, ResourceList
from opsdk.structured_merge.value import JsonObject

__all__ = ["EmptyStore"]


class EmptyStore:
    """Lists nothing, finds nothing, and rejects writes with MethodNotAllow. Override the supported methods."""

    async def by_id(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject:
        """Raise `NormanError` NotFound."""
        raise not_found(object_id)

    async def list(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> ResourceList:
        """Return no objects."""
        return ResourceList(items=[])

    async def create(self, context: ApiContext, schema: Schema, data: JsonObject) -> JsonObject:
        """Raise `NormanError` MethodNotAllow."""
        raise ErrorCode.METHOD_NOT_ALLOWED.error("Method POST not supported")

    async def update(self, context: ApiContext, schema: Schema, data: JsonObject, object_id: str) -> JsonObject:
        """Raise `NormanError` MethodNotAllow."""
        raise ErrorCode.METHOD_NOT_ALLOWED.error("Method PUT not supported")

    async def delete(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject | None:
        """Raise `NormanError` MethodNotAllow."""
        raise ErrorCode.METHOD_NOT_ALLOWED.error("Method DELETE not supported")

    async def watch(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> AsyncGenerator[ResourceEvent]:
        """Yield nothing, and end."""
        events: tuple[ResourceEvent, ...] = ()
        for event in events:
            yield event
