"""Requests for subresources of a Pod. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.client.client import as_key
from opsdk.errors import UsageError
from opsdk.http.client.request import CONNECT
from opsdk.rest.request import RestRequest, resource_path

OPEN_TIMEOUT: Final = 30.0
"""Seconds for the API server, and the kubelet behind it, to accept a WebSocket."""


def pod_request(method: str, pod: ObjectKey | str, subresource: str, query: list[tuple[str, str]]) -> RestRequest:
    """Return the request for a subresource of a Pod. Raises `UsageError` for a key without namespace."""
    key = as_key(pod)
    if not key.namespace:
        raise UsageError(f"the Pod is {str(pod)!r}: write its namespace too, 'namespace/name'")
    return RestRequest(
        method,
        resource_path("", "v1", "pods", key.namespace, key.name, subresource),
        query=query,
        verb="get" if method == "GET" else "create",
        resource="pods",
        subresource=subresource,
        namespace=key.namespace,
        name=key.name,
        version="v1",
    )


def connect_request(
    pod: ObjectKey | str, subresource: str, query: list[tuple[str, str]], protocols: str
) -> RestRequest:
    """Return the request for a WebSocket with one of the subprotocols, see `Transport.connect`."""
    request = pod_request(CONNECT, pod, subresource, query)
    return msgspec.structs.replace(request, headers={"Sec-WebSocket-Protocol": protocols})
