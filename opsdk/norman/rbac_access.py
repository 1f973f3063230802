"""Access control by the RBAC of a cluster, for the user of each request.

Upstream: github.com/rancher/norman/types/server_types.go (AccessControl)
"""

from __future__ import annotations

from opsdk.api.authentication.v1 import UserInfo
from opsdk.apimachinery.gvk import GroupVersionResource
from opsdk.apiserver.auth.delegated import user_of_info
from opsdk.apiserver.auth.user import User
from opsdk.norman.access import AllAccess
from opsdk.norman.codes import ErrorCode
from opsdk.norman.collections.access_set import EVERYTHING, AccessSet, VisibleObjects
from opsdk.norman.collections.access_set_store import AccessSetStore
from opsdk.norman.conversion import to_text
from opsdk.norman.model import ApiContext, Schema
from opsdk.norman.query import key_of, split_id
from opsdk.norman.schema_parts import Scope
from opsdk.structured_merge.value import JsonObject

__all__ = ["RESOURCE", "RbacAccess"]

RESOURCE = "resource"
"""The attribute of a schema with the `GroupVersionResource` that its permissions belong to."""

_NAMESPACES = ("", "namespaces")


class RbacAccess(AllAccess):
    """Lets a user do what RBAC permits for the resource in `Schema.attributes`; schemas without one are open.

    Lists and watches have the objects that the user may list: all, those of some namespaces, or some names. Requests
    without a user are rejected. A revoked permission ends with the event of its role or binding, for watches too.
    Permissions of authorizers other than RBAC do not count.

    Args:
        access: the permissions of all users; it must be entered.
    """

    def __init__(self, access: AccessSetStore) -> None:
        self._access = access
        self._last: tuple[UserInfo, User] | None = None

    async def can_list(self, context: ApiContext, schema: Schema) -> None:
        """Check GET of the collection, and ``list``: in the namespace of the query, or anywhere."""
        await super().can_list(context, schema)
        visible, namespace = await self.visible(context, schema), _namespace_of_request(context, schema)
        self._require("list", schema, allowed=bool(visible) and (not namespace or visible.is_within(namespace)))

    async def can_get(self, context: ApiContext, schema: Schema) -> None:
        """Check GET of the resource, and ``get`` of the object in the URL."""
        await super().can_get(context, schema)
        self._check(context, schema, "get", *_key(context, schema, None))

    async def can_create(self, context: ApiContext, schema: Schema, data: JsonObject | None = None) -> None:
        """Check POST of the collection, and ``create``: in the namespace of the object or of the query, or anywhere."""
        await super().can_create(context, schema, data)
        namespace = _namespace_of_request(context, schema)
        if data is not None and schema.scope is Scope.NAMESPACE:
            # A field that the schema does not declare is dropped from the body, so it is not a namespace.
            value = data.get("namespaceId" if "namespaceId" in schema.resource_fields else "namespace")
            # The values of a form are lists.
            namespace = to_text(value[0] if isinstance(value, list) and value else value) or namespace
        elif not namespace and (resource := _resource(schema)) is not None:
            namespaced = schema.scope is Scope.NAMESPACE
            if self._access_of(context).may("create", resource.group, resource.resource, namespaced=namespaced):
                return
        self._check(context, schema, "create", namespace, "")

    async def can_update(self, context: ApiContext, schema: Schema, data: JsonObject | None) -> None:
        """Check PUT of the resource, and ``update`` of the object."""
        await super().can_update(context, schema, data)
        self._check(context, schema, "update", *_key(context, schema, data))

    async def can_delete(self, context: ApiContext, schema: Schema, data: JsonObject | None) -> None:
        """Check DELETE of the resource, and ``delete`` of the object."""
        await super().can_delete(context, schema, data)
        self._check(context, schema, "delete", *_key(context, schema, data))

    async def can_do(self, context: ApiContext, group: str, resource: str, verb: str, namespace: str = "") -> None:
        """Check any verb of a resource."""
        if not self._access_of(context).grants(verb, group, resource, namespace):
            raise ErrorCode.PERMISSION_DENIED.error(f"can not {verb} {resource}")

    async def visible(self, context: ApiContext, schema: Schema) -> VisibleObjects:
        """Return the objects that the user may list, and those that the user may get by their names."""
        resource = _resource(schema)
        if resource is None:
            return EVERYTHING
        namespaced = schema.scope is Scope.NAMESPACE
        return self._access_of(context).visible("list", resource.group, resource.resource, namespaced=namespaced)

    def _check(self, context: ApiContext, schema: Schema, verb: str, namespace: str, name: str) -> None:
        resource = _resource(schema)
        if resource is None:
            return
        if (resource.group, resource.resource) == _NAMESPACES:
            namespace = name  # requests for a Namespace are made in the namespace itself
        granted = self._access_of(context).grants(verb, resource.group, resource.resource, namespace, name)
        self._require(verb, schema, allowed=granted)

    def _access_of(self, context: ApiContext) -> AccessSet:
        if context.user is None:
            raise ErrorCode.UNAUTHORIZED.error("must authenticate")
        if self._last is None or self._last[0] is not context.user:  # a page checks many objects for one user
            self._last = (context.user, user_of_info(context.user))
        return self._access.access_for(self._last[1])


def _resource(schema: Schema) -> GroupVersionResource | None:
    resource = schema.attributes.get(RESOURCE)
    return resource if isinstance(resource, GroupVersionResource) else None


def _namespace_of_request(context: ApiContext, schema: Schema) -> str:
    """Return the namespace of the id in the URL, or of the query."""
    if schema.scope is not Scope.NAMESPACE:
        return ""
    if schema is context.schema and ":" in context.id:
        return split_id(context.id)[0]
    # Also for schemas and links: a user with permissions in one namespace sees there what they can do in it.
    query = context.request.query
    return query.get("namespaceId") or query.get("namespace")


def _key(context: ApiContext, schema: Schema, data: JsonObject | None) -> tuple[str, str]:
    """Return namespace and name of an object, or those of the URL. Names of RBAC have colons: ``system:node``."""
    if data is not None:
        namespace, name = key_of(schema, data)
        return (namespace if schema.scope is Scope.NAMESPACE else ""), name
    own = context.id if schema is context.schema else ""
    name = split_id(own)[1] if schema.scope is Scope.NAMESPACE else own
    return _namespace_of_request(context, schema), name
