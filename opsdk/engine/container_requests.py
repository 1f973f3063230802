"""Requests of an operator that only a running container can answer: a plan has none, and refuses them."""

from __future__ import annotations

import json
import re

from opsdk.apiserver.endpoints.status import status_of
from opsdk.errors import ApiError
from opsdk.http.asgi_types import Message, Receive, Scope, Send
from opsdk.http.client.request import CONNECT

__all__ = ["REFUSED_STATUS", "container_request", "refuse_container_request"]

REFUSED_STATUS = 501
"""The HTTP status of a request that a plan cannot answer."""
_CONTAINER_PATH = re.compile(r"/api/v1/namespaces/[^/]+/pods/[^/]+/(log|exec|attach|portforward)")


def container_request(scope: Scope) -> str:
    """Return the method of a request that needs a running container; empty for other requests.

    >>> container_request({"type": "http", "method": "GET", "path": "/api/v1/namespaces/a/pods/b/log"})
    'GET'
    >>> container_request({"type": "http", "method": "GET", "path": "/api/v1/namespaces/a/pods/b"})
    ''
    """
    if scope["type"] not in {"http", "websocket"} or not _CONTAINER_PATH.fullmatch(scope["path"]):
        return ""
    return CONNECT if scope["type"] == "websocket" else str(scope["method"])


async def refuse_container_request(scope: Scope, receive: Receive, send: Send) -> bytes:
    """Answer the request with a Status, and return the Status."""
    subresource = scope["path"].rpartition("/")[2]
    message = (
        f"a plan runs no containers, so pods/{subresource} has no answer: "
        "pass the operator an object that does this work, and a double of it to the plan"
    )
    body = json.dumps(status_of(ApiError(message, code=REFUSED_STATUS, reason="NotImplemented"))).encode()
    kind = "http.response"
    if scope["type"] == "websocket":
        kind = "websocket.http.response"
        await receive()  # websocket.connect
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    start: Message = {"type": f"{kind}.start", "status": REFUSED_STATUS, "headers": headers}
    await send(start)
    await send({"type": f"{kind}.body", "body": body})
    return body
