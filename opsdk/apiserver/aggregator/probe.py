"""Fetches discovery documents from other servers and checks that they serve their group version.

Upstream: k8s.io/apiserver/pkg/endpoints/discovery/aggregated (v1.36).
"""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec.structs import replace

from opsdk.apiserver.aggregator.api_services import PASSED, Availability, RemoteService
from opsdk.apiserver.aggregator.documents import find_digest, find_version, from_resource_list, read_swagger
from opsdk.apiserver.aggregator.proxy import AggregatorProxy, UnreachableError, user_headers
from opsdk.apiserver.auth.user import MASTERS, User
from opsdk.apiserver.endpoints.discovery import RemoteDocuments
from opsdk.apiserver.webhook_client.client import WebhookCallError
from opsdk.apiserver.webhook_client.connection_pools import Endpoint
from opsdk.apiserver.webhook_client.endpoint import ClientConfigError
from opsdk.base.limits import LIMITS
from opsdk.errors import OpsdkError

TIMEOUT: Final = 5.0
"""Seconds for one response, as in kube-aggregator."""
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
_ASKER = User(name="system:kube-aggregator", groups=(MASTERS,))


class Probe:
    """Sends discovery requests through an `AggregatorProxy`."""

    def __init__(self, proxy: AggregatorProxy) -> None:
        self._proxy = proxy

    def __repr__(self) -> str:
        return f"<Probe by {self._proxy!r}>"

    async def check(self, remote: RemoteService) -> tuple[Availability, RemoteDocuments | None]:
        """Return the availability of a server, and its documents if it responds."""
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
        return PASSED, RemoteDocuments(
            document=find_version(groups, remote) or from_resource_list(raw, remote),
            digest=find_digest(index, remote),
            swagger=read_swagger(swagger, remote),
        )

    async def _get(self, endpoint: Endpoint, path: str, accept: str) -> tuple[int, bytes]:
        """Get a document of a backend. Raises `UnreachableError`, also for one that is too large."""
        headers = [("Accept", accept), ("User-Agent", "kube-aggregator"), *user_headers(_ASKER)]
        try:
            async with asyncio.timeout(TIMEOUT):
                exchange = await self._proxy.request(endpoint, "GET", path, headers)
                try:
                    pieces, size = [], 0
                    while piece := await exchange.read():
                        pieces.append(piece)
                        size += len(piece)
                        if size > LIMITS.discovery_bytes:
                            raise UnreachableError(f"the document has more than {LIMITS.discovery_bytes} bytes")
                    return exchange.status, b"".join(pieces)
                finally:
                    await exchange.aclose()
        except TimeoutError:
            raise UnreachableError("context deadline exceeded") from None
        except (OpsdkError, ClientConfigError) as error:
            raise UnreachableError(str(error)) from error

    async def _document(self, endpoint: Endpoint, path: str, accept: str) -> bytes:
        """Fetch a document; empty on failure."""
        try:
            status, raw = await self._get(endpoint, path, accept)
        except UnreachableError:
            return b""
        return raw if status == 200 else b""


def _failed(message: str) -> Availability:
    return Availability("False", "FailedDiscoveryCheck", message)


def stale(version: str, documents: RemoteDocuments | None) -> RemoteDocuments:
    """Return the last documents of an unreachable server, marked stale; without any, only the version."""
    document = {"version": version} if documents is None else documents.document
    document_copy = {**document, "freshness": "Stale"}
    return RemoteDocuments(document=document_copy) if documents is None else replace(documents, document=document_copy)
