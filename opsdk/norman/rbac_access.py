"""Access control by the RBAC of a cluster: SubjectAccessReviews for the user of each request.

Upstream: github.com/rancher/norman/types/server_types.go (AccessControl)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from opsdk.api.authentication.v1 import UserInfo
from opsdk.api.authorization.v1 import ResourceAttributes
from opsdk.apimachinery.gvk import GroupVersionResource
from opsdk.errors import NormanError, OpsdkError
from opsdk.http.server.request import HttpRequest
from opsdk.norman.access import AllAccess
from opsdk.norman.codes import ErrorCode
from opsdk.norman.conversion import to_text
from opsdk.norman.model import ApiContext, Schema, Scope
from opsdk.norman.query import namespace_of, split_id
from opsdk.norman.tokens import token_of
from opsdk.rbac.delegated import DelegatedAuth, ReviewClient
from opsdk.rbac.user_namespaces import UserNamespaces
from opsdk.structured_merge.value import JsonObject

RESOURCE = "resource"
"""The attribute of a schema with the `GroupVersionResource` that its rights belong to."""

# A right or a token that is taken away ends within this many seconds.
_TTL_SECONDS = 10.0
_DENY_SECONDS = 30.0


class RbacAccess(AllAccess):
    """Lets a user do what RBAC lets them do with the resource in `Schema.attributes`; schemas without one are open.

    A user who may list a kind only in some namespaces lists these, and watches them: with `namespaces` in one
    collection, without it by the query (``?namespace=a``). A watch keeps the namespaces that it began with, less those
    whose rights are taken away. Requests of nobody are refused. Results hold for 10 s (denials for 30 s).

    Args:
        client: sends the reviews.
        namespaces: finds the namespaces of a list or a watch.
    """

    def __init__(self, client: ReviewClient, *, namespaces: UserNamespaces | None = None) -> None:
        self._namespaces = namespaces
        self._auth = DelegatedAuth(
            client,
            token_seconds=_TTL_SECONDS,
            allow_seconds=_TTL_SECONDS,
            deny_seconds=_DENY_SECONDS,
            max_cached=16_384,
        )

    async def authenticate(self, request: HttpRequest) -> UserInfo | None:
        """Return the user of the token, for `NormanOptions.authenticate`.

        Raises:
            NormanError: ClusterUnavailable; the API server cannot be reached.
        """
        token = token_of(request)
        if not token:
            return None
        try:
            return await self._auth.user_of(token)
        except (OpsdkError, TimeoutError) as error:
            raise ErrorCode.CLUSTER_UNAVAILABLE.error("the token cannot be checked now") from error

    async def can_list(self, context: ApiContext, schema: Schema) -> None:
        """Check GET of the collection, and ``list``: in the namespace of the query, or anywhere."""
        await super().can_list(context, schema)
        namespaces = await self.list_namespaces(context, schema)
        if namespaces is not None and not namespaces:
            raise ErrorCode.PERMISSION_DENIED.error(f"can not list {schema.id}")

    async def can_get(self, context: ApiContext, schema: Schema) -> None:
        """Check GET of the resource, and ``get`` of the object in the URL."""
        await super().can_get(context, schema)
        await self._check(context, schema, "get", _namespace(context, schema, None), _name(context, schema, None))

    async def can_create(self, context: ApiContext, schema: Schema, data: JsonObject | None = None) -> None:
        """Check POST of the collection, and ``create``: in the namespace of the object or of the query, or anywhere."""
        await super().can_create(context, schema, data)
        namespace = _namespace(context, schema, None)
        resource = _resource(schema)
        if data is not None and schema.scope is Scope.NAMESPACE:
            # A field that the schema does not declare says nothing about where the object will be.
            value = data.get("namespaceId" if "namespaceId" in schema.resource_fields else "namespace")
            # The values of a form are lists.
            namespace = to_text(value[0] if isinstance(value, list) and value else value) or namespace
        elif not namespace and resource is not None:
            is_everywhere = await self._allows(context, _attributes(resource, "create", "", ""))
            if not is_everywhere and await self._allowing(context, schema, "create", resource):
                return
        await self._check(context, schema, "create", namespace)

    async def can_update(self, context: ApiContext, schema: Schema, data: JsonObject | None) -> None:
        """Check PUT of the resource, and ``update`` of the object."""
        await super().can_update(context, schema, data)
        await self._check(context, schema, "update", _namespace(context, schema, data), _name(context, schema, data))

    async def can_delete(self, context: ApiContext, schema: Schema, data: JsonObject | None) -> None:
        """Check DELETE of the resource, and ``delete`` of the object."""
        await super().can_delete(context, schema, data)
        await self._check(context, schema, "delete", _namespace(context, schema, data), _name(context, schema, data))

    async def can_do(self, context: ApiContext, group: str, resource: str, verb: str, namespace: str = "") -> None:
        """Check any verb of a resource."""
        attributes = ResourceAttributes(group=group, resource=resource, verb=verb, namespace=namespace or None)
        await self._review(context, attributes, f"can not {verb} {resource}")

    async def list_namespaces(self, context: ApiContext, schema: Schema) -> Collection[str] | None:
        """Return None if the user may list everything, else the namespaces in which they may; maybe none."""
        resource = _resource(schema)
        if resource is None or await self._allows(context, _attributes(resource, "list", "", "")):
            return None
        if namespace := _namespace(context, schema, None):
            return [namespace] if await self._allows(context, _attributes(resource, "list", namespace, "")) else []
        return await self._allowing(context, schema, "list", resource)

    async def filter_list(
        self, context: ApiContext, schema: Schema, items: Sequence[JsonObject]
    ) -> Sequence[JsonObject]:
        """Return the objects that the user may list (in their namespace) or get (by name).

        A watch filters each event so; a right that is taken away ends there too.
        """
        if RESOURCE not in schema.attributes:
            return items
        allowed: dict[str, bool] = {}
        keys = [(_namespace(context, schema, item), _name(context, schema, item)) for item in items]
        for namespace in {namespace for namespace, _ in keys}:
            allowed[namespace] = await self._is_visible(context, schema, namespace)
        return [
            item
            for item, (namespace, name) in zip(items, keys, strict=True)
            if allowed[namespace] or await self._is_visible(context, schema, namespace, name)
        ]

    async def _allowing(
        self, context: ApiContext, schema: Schema, verb: Literal["list", "create"], resource: GroupVersionResource
    ) -> Collection[str]:
        if self._namespaces is None or context.user is None or schema.scope is not Scope.NAMESPACE:
            return []
        try:
            return await self._namespaces.allowing(context.user, verb, resource.group, resource.resource)
        except (OpsdkError, TimeoutError) as error:
            raise _unavailable() from error

    async def _is_visible(self, context: ApiContext, schema: Schema, namespace: str, name: str = "") -> bool:
        resource = _resource(schema)
        if resource is None or context.user is None:
            return resource is None
        verb = "get" if name else "list"
        attributes = _attributes(resource, verb, namespace, name)
        return await self._auth.allows(context.user, attributes)

    async def _check(self, context: ApiContext, schema: Schema, verb: str, namespace: str, name: str = "") -> None:
        resource = _resource(schema)
        if resource is not None:
            await self._review(context, _attributes(resource, verb, namespace, name), f"can not {verb} {schema.id}")

    async def _review(self, context: ApiContext, attributes: ResourceAttributes, denial: str) -> None:
        if not await self._allows(context, attributes):
            raise ErrorCode.PERMISSION_DENIED.error(denial)

    async def _allows(self, context: ApiContext, attributes: ResourceAttributes) -> bool:
        if context.user is None:
            raise ErrorCode.UNAUTHORIZED.error("must authenticate")
        try:
            return await self._auth.allows(context.user, attributes)
        except (OpsdkError, TimeoutError) as error:
            raise _unavailable() from error


def _unavailable() -> NormanError:
    return ErrorCode.CLUSTER_UNAVAILABLE.error("the rights cannot be checked now")


def _attributes(resource: GroupVersionResource, verb: str, namespace: str, name: str) -> ResourceAttributes:
    return ResourceAttributes(
        group=resource.group,
        version=resource.version,
        resource=resource.resource,
        verb=verb,
        namespace=namespace or None,
        name=name or None,
    )


def _resource(schema: Schema) -> GroupVersionResource | None:
    resource = schema.attributes.get(RESOURCE)
    return resource if isinstance(resource, GroupVersionResource) else None


def _namespace(context: ApiContext, schema: Schema, data: JsonObject | None) -> str:
    """Return the namespace of an object, of the id in the URL, or of the query."""
    if schema.scope is not Scope.NAMESPACE:
        return ""
    if data is not None:
        return namespace_of(data)
    if schema is context.schema and ":" in context.id:
        return split_id(context.id)[0]
    # Also for schemas and links: a user with rights in one namespace sees there what they can do in it.
    query = context.request.query
    return query.get("namespaceId") or query.get("namespace")


def _name(context: ApiContext, schema: Schema, data: JsonObject | None) -> str:
    """Return the name of an object, or the one in the URL. Names of RBAC have colons, such as ``system:node``."""
    own = context.id if schema is context.schema else ""
    object_id = own if data is None else to_text(data.get("id"))
    return split_id(object_id)[1] if schema.scope is Scope.NAMESPACE else object_id
