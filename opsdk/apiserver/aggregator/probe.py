"""Fetches discovery documents from other servers and checks that they serve their group version.

Upstream: k8s.io/apiserver/pkg/endpoints/discovery/aggregated (v1.36).
"""

from __future__ import annotations

import asyncio
import json
from typing import Final

from msgspec.structs import replace

from opsdk.apiserver.aggregator.api_services import PASSED, Availability, RemoteService
from opsdk.apiserver.aggregator.proxy import AggregatorProxy, UnreachableError, user_headers
from opsdk.apiserver.auth.user import MASTERS, User
from opsdk.apiserver.endpoints.discovery import RemoteDocuments
from opsdk.apiserver.endpoints.openapi.merge import filter_spec_by_paths
from opsdk.apiserver.webhook_client.client import WebhookCallError
from opsdk.apiserver.webhook_client.connection_pools import Endpoint
from opsdk.apiserver.webhook_client.endpoint import ClientConfigError
from opsdk.errors import OpsdkError
from opsdk.structured_merge.value import JsonObject, JsonValue

TIMEOUT: Final = 5.0
"""Seconds for one answer: what kube-aggregator gives a server before it counts as gone."""
MAX_DOCUMENT: Final = 32 << 20
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
_ASKER = User(name="system:kube-aggregator", groups=(MASTERS,))


class Probe:
    """Asks by `proxy`'s connections."""

    def __init__(self, proxy: AggregatorProxy) -> None:
        self._proxy = proxy

    def __repr__(self) -> str:
        return f"<Probe by {self._proxy!r}>"

    async def check(self, remote: RemoteService) -> tuple[Availability, RemoteDocuments | None]:
        """Whether it answers, and its documents as far as it has them."""
        try:
            place = self._proxy.resolve_endpoint(remote)
        except WebhookCallError as error:
            return _failed(str(error)), None
        url = f"https://{place.joined}{remote.root}"
        try:
            status, raw = await self._get(place, remote.root, "application/json")
        except UnreachableError as error:
            return _failed(f'failing or missing response from {url}: Get "{url}": {error}'), None
        if not 200 <= status < 300:
            return _failed(f"failing or missing response from {url}: bad status from {url}: {status}"), None
        groups = await self._document(place, "/apis", _AGGREGATED)
        index = await self._document(place, "/openapi/v3", "application/json")
        swagger = await self._document(place, "/openapi/v2", "application/json")
        entry = (index.get("paths") or {}).get(remote.root.removeprefix("/")) or {}
        return PASSED, RemoteDocuments(
            document=_find_version(groups, remote) or _from_resource_list(_tree(raw), remote),
            digest=str(entry.get("serverRelativeURL") or "").partition("hash=")[2],
            swagger=filter_spec_by_paths(swagger, remote.root) if swagger else None,
        )

    async def _get(self, endpoint: Endpoint, path: str, accept: str) -> tuple[int, bytes]:
        headers = [("Accept", accept), ("User-Agent", "kube-aggregator"), *user_headers(_ASKER)]
        try:
            async with asyncio.timeout(TIMEOUT):
                exchange = await self._proxy.request(endpoint, "GET", path, headers)
                try:
                    pieces, size = [], 0
                    while (piece := await exchange.read()) and size <= MAX_DOCUMENT:
                        pieces.append(piece)
                        size += len(piece)
                    return exchange.status, b"".join(pieces)
                finally:
                    await exchange.aclose()
        except TimeoutError:
            raise UnreachableError("context deadline exceeded") from None
        except (OpsdkError, ClientConfigError) as error:
            raise UnreachableError(str(error)) from error

    async def _document(self, endpoint: Endpoint, path: str, accept: str) -> JsonObject:
        """A document; empty if the server has none."""
        try:
            status, raw = await self._get(endpoint, path, accept)
        except UnreachableError:
            return {}
        return _tree(raw) if status == 200 else {}


def _failed(message: str) -> Availability:
    return Availability("False", "FailedDiscoveryCheck", message)


def _tree(raw: bytes) -> JsonObject:
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def stale(version: str, documents: RemoteDocuments | None) -> RemoteDocuments:
    """Return the last documents of an unreachable server, marked stale; without any, only the version."""
    document = {"version": version} if documents is None else documents.document
    document_copy = {**document, "freshness": "Stale"}
    return RemoteDocuments(document=document_copy) if documents is None else replace(documents, document=document_copy)


def _find_version(groups: JsonObject, remote: RemoteService) -> JsonObject | None:
    """The version's part of aggregated discovery."""
    for group in groups.get("items") or ():
        if (group.get("metadata") or {}).get("name", "") == remote.group:
            for version in group.get("versions") or ():
                if version.get("version") == remote.version:
                    return {**version, "freshness": "Current"}
    return None


def _from_resource_list(resources: JsonObject, remote: RemoteService) -> JsonObject:
    """The same from the older document."""
    main: dict[str, JsonObject] = {}
    for resource in resources.get("resources") or ():
        name, _, subresource = str(resource.get("name", "")).partition("/")
        kind = {
            "group": resource.get("group") or remote.group,
            "version": resource.get("version") or remote.version,
            "kind": resource.get("kind", ""),
        }
        verbs: JsonValue = resource.get("verbs") or []
        if subresource:
            part = {"subresource": subresource, "responseKind": kind, "verbs": verbs}
            main.setdefault(name, {"resource": name}).setdefault("subresources", []).append(part)
            continue
        main[name] = {
            "resource": name,
            "responseKind": kind,
            "scope": "Namespaced" if resource.get("namespaced") else "Cluster",
            "singularResource": resource.get("singularName", ""),
            "verbs": verbs,
            **{key: resource[key] for key in ("shortNames", "categories") if resource.get(key)},
            **{key: value for key, value in main.get(name, {}).items() if key == "subresources"},
        }
    return {"version": remote.version, "resources": list(main.values()), "freshness": "Current"}
