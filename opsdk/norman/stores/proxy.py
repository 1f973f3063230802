"""Objects of a Kubernetes kind as objects of a schema.

Upstream: github.com/rancher/norman/store/proxy/proxy_store.go, error_wrapper.go, types/id.go
Deviates: a watch starts with the next change; norman's begins with all objects. The creator's annotation is left out
if the server does not know the user.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import TypeVar

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import Kind, KindLike, kind_of, unstructured_kind
from opsdk.apimachinery.object import AnyObject, Unstructured, to_dict
from opsdk.apimachinery.validation import path_segment
from opsdk.apimachinery.watch import WatchEvent, WatchEventType
from opsdk.client.client import Client
from opsdk.errors import ConflictError, DeadlineError, ForbiddenError, NotFoundError
from opsdk.norman.codes import ErrorCode, not_found
from opsdk.norman.collections.filter import FilterOperator
from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.errors import NormanError
from opsdk.norman.merging import is_protected, merge_update
from opsdk.norman.model import ApiContext, Schema
from opsdk.norman.query import format_id, split_id
from opsdk.norman.schema_parts import Scope
from opsdk.norman.store_results import ResourceEvent, ResourceEventType, ResourceList
from opsdk.norman.stores.fan_in import fan_in
from opsdk.structured_merge.value import JsonObject, JsonValue

__all__ = ["ProxyStore"]

T = TypeVar("T")

_CREATOR_ANNOTATION = "field.cattle.io/creatorId"
_CREATOR_LABEL = "cattle.io/creator"

_NAMESPACE_FIELDS = (("namespaceId",), ("namespace",))
_CONFLICT_TRIES = 5
_TIMEOUT_TRIES = 3
# The server ends the watch then, so that revoked permissions take effect.
_WATCH_SECONDS = 30 * 60

ClientFor = Callable[[ApiContext], Client]
"""Returns the client for a request, such as one that impersonates its user."""


class ProxyStore:
    """Reads and writes objects of a kind on the API server, through the mapper of the schema.

    The id of a namespaced object is ``namespace:name``.

    Args:
        client: the client, or a function that returns one for each request.
        kind: the kind; its objects are read as `Unstructured`.
    """

    def __init__(self, client: Client | ClientFor, kind: KindLike[AnyObject]) -> None:
        gvk = kind_of(kind).gvk
        self.kind: Kind[Unstructured] = unstructured_kind(gvk.api_version, gvk.kind)
        self._client_for: ClientFor = (lambda _: client) if isinstance(client, Client) else client

    async def by_id(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject:
        """Return an object."""
        return self._external(context, schema, await self._read(context, schema, object_id))

    async def list(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> ResourceList:
        """Return the objects of all namespaces, or of those that the query names."""
        client = self._client_for(context)
        namespaces = _namespaces_of(schema, query)
        trees: list[JsonObject] = []
        for namespace in namespaces if namespaces is not None else [""]:
            try:
                objects = await _retry_timeouts(
                    lambda namespace=namespace: client.list(self.kind, namespace=namespace)  # type: ignore[misc]
                )
            except ForbiddenError:
                if query.visible.everything:
                    raise
                # The permission was revoked after the namespaces were found.
                continue
            trees += [to_dict(obj) for obj in objects if query.visible.contains(*_key_of(obj))]
        return ResourceList(items=[self._external(context, schema, tree) for tree in trees])

    async def create(self, context: ApiContext, schema: Schema, data: JsonObject) -> JsonObject:
        """Create an object. Without a name, it gets a prefix from its type, such as ``c-`` for a cluster.

        Raises:
            NormanError: MissingRequired; the object has no namespace, and its kind needs one.
        """
        tree = self._internal(schema, data)
        metadata = tree.setdefault("metadata", {})
        if schema.scope is Scope.NAMESPACE:
            field = "namespaceId" if "namespaceId" in schema.resource_fields else "namespace"
            _check_namespace(metadata.get("namespace"), field)
        for name in ("labels", "annotations"):
            metadata[name] = {k: v for k, v in (metadata.get(name) or {}).items() if not is_protected(k)}
        if context.user is not None and context.user.username:
            metadata["annotations"][_CREATOR_ANNOTATION] = context.user.username
        metadata["labels"][_CREATOR_LABEL] = "norman"
        if not metadata.get("name") and not metadata.get("generateName"):
            metadata["generateName"] = _generate_name_prefix(schema.id)
        created = await self._client_for(context).create(Unstructured.from_tree(tree))
        await self._on_write(schema, _key_of(created), created.metadata.resource_version)
        return self._external(context, schema, to_dict(created))

    async def update(self, context: ApiContext, schema: Schema, data: JsonObject, object_id: str) -> JsonObject:
        """Merge the fields into the stored object, and retry after a conflict.

        ``?_replace=true`` removes the fields that an update could set and that the body lacks.

        Raises:
            NormanError: NotFound, or Conflict after five attempts.
        """
        changes = self._internal(schema, data)
        replace = context.option("replace") == "true"
        client = self._client_for(context)
        for last in (*[False] * (_CONFLICT_TRIES - 1), True):
            existing = await self._read(context, schema, object_id)
            merged = merge_update(schema.internal, context.schemas, existing, changes, replace=replace)
            try:
                updated = await client.update(Unstructured.from_tree(merged))
            except ConflictError:
                if last:
                    raise
                continue
            await self._on_write(schema, _key_of(updated), updated.metadata.resource_version)
            return self._external(context, schema, to_dict(updated))
        raise AssertionError("the last try returns or raises")

    async def delete(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject | None:
        """Delete an object in the background; returns it while its finalizers run."""
        key = _object_key(schema, object_id)
        try:
            await self._client_for(context).delete(self.kind, key, propagation="Background")
        except NotFoundError as error:
            raise not_found(object_id) from error
        try:
            remaining = await self._read(context, schema, object_id)
        except NormanError as error:
            if error.status != ErrorCode.NOT_FOUND.status:
                raise
            await self._on_write(schema, key, None)
            return None
        await self._on_write(schema, key, remaining["metadata"]["resourceVersion"])
        return self._external(context, schema, remaining)

    async def watch(self, context: ApiContext, schema: Schema, query: ObjectQuery) -> AsyncGenerator[ResourceEvent]:
        """Yield changes from now on, for at most 30 minutes. Each namespace of the query has its own watch."""
        client = self._client_for(context)
        namespaces = _namespaces_of(schema, query)
        async with AsyncExitStack() as stack:
            watches = []
            for namespace in namespaces if namespaces is not None else [""]:
                try:
                    watches.append(await stack.enter_async_context(self._watch(client, namespace)))
                except ForbiddenError:
                    if query.visible.everything:
                        raise
            events = await stack.enter_async_context(aclosing(fan_in(watches)))
            async for event in events:
                if event.type is WatchEventType.BOOKMARK:
                    continue
                removed = event.type is WatchEventType.DELETED
                data = self._external(context, schema, to_dict(event.object))
                yield ResourceEvent(type=ResourceEventType.REMOVE if removed else ResourceEventType.CHANGE, data=data)

    @asynccontextmanager
    async def _watch(self, client: Client, namespace: str) -> AsyncIterator[AsyncIterator[WatchEvent[Unstructured]]]:
        head = await client.list(self.kind, namespace=namespace, limit=1, uncached=True)
        version = head.metadata.resource_version
        async with client.watch(
            self.kind, namespace=namespace, resource_version=version, timeout=_WATCH_SECONDS
        ) as events:
            yield events

    async def _read(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject:
        client, key = self._client_for(context), _object_key(schema, object_id)
        try:
            # Do not read from a cache: a read after a write, and the base of an update, must be current.
            obj = await _retry_timeouts(lambda: client.get(self.kind, key, uncached=True))
        except NotFoundError as error:
            raise not_found(object_id) from error
        return to_dict(obj)

    async def _on_write(self, schema: Schema, key: ObjectKey, version: str | None) -> None:
        """React to a write; the version is that of the object, or None if it is gone."""

    def _internal(self, schema: Schema, data: JsonObject) -> JsonObject:
        tree = dict(data)
        if schema.mapper is not None:
            schema.mapper.to_internal(tree)
        return {**tree, "apiVersion": self.kind.gvk.api_version, "kind": self.kind.gvk.kind}

    def _external(self, context: ApiContext, schema: Schema, tree: JsonObject) -> JsonObject:
        if context.option("export") == "true":
            tree.pop("status", None)
        return external_form(schema, tree)

    def __repr__(self) -> str:
        return f"<ProxyStore of {self.kind.gvk}>"


def _check_namespace(namespace: JsonValue, field: str) -> None:
    """Check the namespace of a new object. Raises `NormanError` MissingRequired or InvalidFormat of the field."""
    if not namespace:
        raise ErrorCode.MISSING_REQUIRED.error(field_name=field)
    if reasons := path_segment(namespace) if isinstance(namespace, str) else ["not a string"]:
        raise ErrorCode.INVALID_FORMAT.error("; ".join(reasons), field_name=field)


def _generate_name_prefix(type_name: str) -> str:
    """Return the ``generateName`` of objects that are created without a name: the first letter and the capitals.

    >>> _generate_name_prefix("cluster"), _generate_name_prefix("projectRoleTemplateBinding")
    ('c-', 'prtb-')
    """
    return f"{type_name[:1]}{re.sub('[a-z]+', '', type_name[1:])}-".lower()


def external_form(schema: Schema, tree: JsonObject) -> JsonObject:
    """Map an object of Kubernetes, in place, and add its id and type."""
    metadata = tree.get("metadata") or {}
    name, namespace = metadata.get("name", ""), metadata.get("namespace", "")
    if schema.mapper is not None:
        schema.mapper.from_internal(tree)
    tree.setdefault("id", format_id(namespace, name))
    tree.setdefault("type", schema.full_type)
    return tree


def _object_key(schema: Schema, object_id: str) -> ObjectKey:
    """Return namespace and name of an id. Raises `NormanError` NotFound for an id of the wrong form."""
    namespaced = schema.scope is Scope.NAMESPACE
    namespace, name = split_id(object_id) if namespaced else ("", object_id)
    if not name or bool(namespace) != namespaced or path_segment(name) or path_segment(namespace):
        raise not_found(object_id)
    return ObjectKey(namespace, name)


def _namespaces_of(schema: Schema, query: ObjectQuery) -> list[str] | None:
    """Return the namespaces that a query reads, or None for all."""
    if schema.scope is not Scope.NAMESPACE:
        return None
    for item in query.filters:
        first = item[0]
        if first.path in _NAMESPACE_FIELDS and first.operator is FilterOperator.EQUALS and len(item) == 1:
            return [name for name in first.values if not path_segment(name)]
    return None if query.visible.everything else sorted(query.visible.namespaces)


def _key_of(obj: Unstructured) -> ObjectKey:
    return ObjectKey(obj.metadata.namespace or "", obj.metadata.name)


async def _retry_timeouts(read: Callable[[], Awaitable[T]]) -> T:
    """Await a read, and retry it twice after a timeout."""
    for _ in range(_TIMEOUT_TRIES - 1):
        try:
            return await read()
        except DeadlineError:
            continue
    return await read()
