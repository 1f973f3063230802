"""The store of a type: reads and writes single objects as the user.

Upstream: github.com/rancher/steve/pkg/stores/proxy/proxy_store.go
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from opsdk.apimachinery.validation import path_segment
from opsdk.apiserver.auth.user import User
from opsdk.norman.codes import ErrorCode
from opsdk.norman.errors import NormanError
from opsdk.norman.steve.cluster_schemas import SteveSchema
from opsdk.norman.stores.proxy import check_namespace, generate_name_prefix
from opsdk.norman.user_transports import UserTransports
from opsdk.rest.request import RestRequest, resource_path
from opsdk.rest.response import raise_for_status
from opsdk.structured_merge.value import JsonObject

Pairs = Sequence[tuple[str, str]]
"""Query parameters."""

_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force", "gracePeriodSeconds", "propagationPolicy")
_PATCHES = (
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
)


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The target of a request.

    Attributes:
        user: the user of the request, whom the cluster authorizes.
        schema: the type.
        namespace: empty for cluster-scoped objects.
        name: empty for a collection.
        query: of the request; parameters of Kubernetes writes are forwarded.
    """

    user: User
    schema: SteveSchema
    namespace: str = ""
    name: str = ""
    query: Pairs = ()


class SteveStore(Protocol):
    """Reads and writes the objects of a type. A `SchemaTemplate` may replace the cluster's store."""

    async def get(self, target: Target) -> JsonObject:
        """Return an object."""
        ...

    async def list(self, target: Target) -> Sequence[JsonObject]:
        """Return all objects; for types that cannot be watched."""
        ...

    async def create(self, target: Target, tree: JsonObject) -> JsonObject:
        """Create an object, and return it."""
        ...

    async def update(self, target: Target, tree: JsonObject) -> JsonObject:
        """Replace an object, and return it."""
        ...

    async def patch(self, target: Target, content_type: str, body: bytes) -> JsonObject:
        """Patch an object, and return it."""
        ...

    async def delete(self, target: Target) -> JsonObject | None:
        """Delete an object. Return it if it still exists."""
        ...


class ClusterStore:
    """The objects of the cluster, through its API server. All methods raise `ApiError` as the cluster does."""

    def __init__(self, transports: UserTransports) -> None:
        self._transports = transports

    async def get(self, target: Target) -> JsonObject:
        """Return an object, as the cluster has it now."""
        return await self._send("GET", "get", target)

    async def list(self, target: Target) -> Sequence[JsonObject]:
        """Return the objects of the namespace, or of all namespaces, in one request."""
        return (await self._send("GET", "list", target)).get("items") or ()

    async def create(self, target: Target, tree: JsonObject) -> JsonObject:
        """Create an object in its namespace, or in that of the target. One without name gets one from its kind.

        Raises:
            NormanError: a namespaced object has no namespace.
        """
        metadata = dict(tree.get("metadata") or {})
        namespace = metadata.get("namespace") or target.namespace if target.schema.namespaced else ""
        if target.schema.namespaced:
            check_namespace(namespace, "metadata.namespace")
        if not metadata.get("name") and not metadata.get("generateName"):
            metadata["generateName"] = generate_name_prefix(target.schema.kind)
        body = {**_typed(target.schema, tree), "metadata": metadata}
        place = Target(user=target.user, schema=target.schema, namespace=namespace, query=target.query)
        return await self._send("POST", "create", place, msgspec.json.encode(body))

    async def update(self, target: Target, tree: JsonObject) -> JsonObject:
        """Replace an object; its name and namespace are those of the target.

        Raises:
            NormanError: the object has no resource version, so that the update could undo another one.
        """
        metadata = {**(tree.get("metadata") or {}), "name": target.name}
        if not metadata.get("resourceVersion"):
            raise ErrorCode.MISSING_REQUIRED.error(field_name="metadata.resourceVersion")
        if target.namespace:
            metadata["namespace"] = target.namespace
        body = {**_typed(target.schema, tree), "metadata": metadata}
        return await self._send("PUT", "update", target, msgspec.json.encode(body))

    async def patch(self, target: Target, content_type: str, body: bytes) -> JsonObject:
        """Patch an object; JSON is a merge patch. Raises `NormanError` (415) for a media type that is not a patch."""
        kind = content_type.partition(";")[0].strip().lower()
        if kind in ("", "application/json"):
            kind = _PATCHES[0]
        if kind not in _PATCHES:
            message = f"{kind!r} is not a patch type: send one of {', '.join(_PATCHES)}"
            raise NormanError(message, status=415, code="InvalidFormat")
        return await self._send("PATCH", "patch", target, body, content_type=kind)

    async def delete(self, target: Target) -> JsonObject | None:
        """Delete an object. Returns it while its finalizers run."""
        result = await self._send("DELETE", "delete", target)
        return None if result.get("kind") == "Status" else result

    async def _send(
        self, method: str, verb: str, target: Target, body: bytes = b"", *, content_type: str = "application/json"
    ) -> JsonObject:
        """Send a request as the user, and return the decoded response. Raises `ApiError`."""
        schema = target.schema
        if path_segment(target.namespace) or path_segment(target.name):
            raise ErrorCode.NOT_FOUND.error("a namespace or name that cannot exist")
        headers: Mapping[str, str] = {"Accept": "application/json", **({"Content-Type": content_type} if body else {})}
        request = RestRequest(
            method,
            resource_path(schema.group, schema.version, schema.resource, target.namespace, target.name),
            query=[pair for pair in target.query if pair[0] in _WRITE_PARAMETERS] if method != "GET" else (),
            headers=headers,
            body=body,
            verb=verb,
            group=schema.group,
            version=schema.version,
            resource=schema.resource,
            namespace=target.namespace,
            name=target.name,
        )
        async with self._transports.transport(target.user) as transport:
            response = await transport.send(request)
        raise_for_status(response, request)
        tree: JsonObject = msgspec.json.decode(response.body)
        return tree


def _typed(schema: SteveSchema, tree: JsonObject) -> JsonObject:
    return {**tree, "apiVersion": schema.gvk.api_version, "kind": schema.kind}
