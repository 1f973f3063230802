"""Access control: what the methods of a schema allow, and what a client may do.

Upstream: github.com/rancher/norman/authorization/all.go
"""

from __future__ import annotations

from collections.abc import Awaitable

from opsdk.norman.codes import ErrorCode
from opsdk.norman.collections.access_set import EVERYTHING, VisibleObjects
from opsdk.norman.errors import NormanError
from opsdk.norman.model import ApiContext, Schema
from opsdk.structured_merge.value import JsonObject

__all__ = ["AllAccess"]


class AllAccess:
    """Allows what the methods of a schema allow. The default of a server."""

    async def can_list(self, context: ApiContext, schema: Schema) -> None:
        """Check that the collection has GET."""
        self._require("list", schema, allowed="GET" in schema.collection_methods)

    async def can_get(self, context: ApiContext, schema: Schema) -> None:
        """Check that the resource has GET."""
        self._require("get", schema, allowed="GET" in schema.resource_methods)

    async def can_create(self, context: ApiContext, schema: Schema, data: JsonObject | None = None) -> None:
        """Check that the collection has POST."""
        self._require("create", schema, allowed="POST" in schema.collection_methods)

    async def can_update(self, context: ApiContext, schema: Schema, data: JsonObject | None) -> None:
        """Check that the resource has PUT."""
        self._require("update", schema, allowed="PUT" in schema.resource_methods)

    async def can_delete(self, context: ApiContext, schema: Schema, data: JsonObject | None) -> None:
        """Check that the resource has DELETE."""
        self._require("delete", schema, allowed="DELETE" in schema.resource_methods)

    async def can_do(self, context: ApiContext, group: str, resource: str, verb: str, namespace: str = "") -> None:
        """Allow every verb."""

    async def visible(self, context: ApiContext, schema: Schema) -> VisibleObjects:
        """Return all objects."""
        return EVERYTHING

    def _require(self, verb: str, schema: Schema, *, allowed: bool) -> None:
        if not allowed:
            raise ErrorCode.PERMISSION_DENIED.error(f"can not {verb} {schema.id}")


class NoAccess(AllAccess):
    """Allows nothing: for the page that a client sees before signing in."""

    def _require(self, verb: str, schema: Schema, *, allowed: bool) -> None:
        super()._require(verb, schema, allowed=False)


async def may_list(context: ApiContext, schema: Schema) -> bool:
    """Return whether a schema is enabled and the client may list its objects."""
    return schema.is_enabled and await is_allowed(context.access.can_list(context, schema))


async def is_allowed(check: Awaitable[None]) -> bool:
    """Await a check, and return whether it passes.

    ``if await is_allowed(access.can_list(context, schema)): ...``
    """
    try:
        await check
    except NormanError as error:
        if error.status not in (401, 403):
            raise
        return False
    return True
