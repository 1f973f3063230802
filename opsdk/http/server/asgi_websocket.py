"""WebSockets of other ASGI servers, which speak the protocol themselves and pass messages.

Upstream: https://asgi.readthedocs.io/en/latest/specs/www.html (WebSocket, and the extension websocket.http.response)
"""

from __future__ import annotations

from opsdk.errors import ConnectionLostError
from opsdk.http.asgi_types import Receive, Scope, Send
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, UpgradeResponse
from opsdk.http.server.upgrade import UpgradedStream
from opsdk.http.server.websocket import WebSocket

_DENIAL = "websocket.http.response"
_SCHEMES = {"ws": "http", "wss": "https"}


class AsgiWebSocket(WebSocket):
    """A WebSocket whose server passes whole messages. It is used as `WebSocket` is."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._closed = False

    async def receive(self) -> bytes | str | None:
        """Return the next message, or None at the end."""
        if self._closed:
            return None
        event = await self._receive()
        if event["type"] != "websocket.receive":
            self._closed = True
            return None
        text: str | None = event.get("text")
        data: bytes = event.get("bytes") or b""
        return data if text is None else text

    async def send(self, message: bytes | str) -> None:
        """Send a message. Raises `ConnectionLostError` if the socket is closed."""
        if self._closed:
            raise ConnectionLostError("the socket is closed")
        key = "text" if isinstance(message, str) else "bytes"
        try:
            await self._send({"type": "websocket.send", key: message})
        except (OSError, RuntimeError) as error:  # the specification leaves the class of the error to the server
            self._closed = True
            raise ConnectionLostError("the socket is closed") from error

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the socket. Idempotent; no error if the client has disconnected."""
        if not self._closed:
            self._closed = True
            await self._send({"type": "websocket.close", "code": code, "reason": reason})

    def __repr__(self) -> str:
        return "<AsgiWebSocket>"


def websocket_request(scope: Scope, receive: Receive) -> HttpRequest:
    """Return the handshake of a scope as the request for an upgrade."""
    request = HttpRequest.from_scope({**scope, "method": "GET"}, receive)
    request.scheme = _SCHEMES.get(request.scheme, request.scheme)
    request.upgrade = _no_stream
    # Servers may leave out what they have checked.
    handshake = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "-",
    }
    request.headers = {**handshake, **request.headers}
    return request


async def serve_websocket(scope: Scope, response: HttpResponse, receive: Receive, send: Send) -> None:
    """Accept the WebSocket of a scope and run it, or refuse it with the response."""
    await receive()  # websocket.connect
    if not isinstance(response, UpgradeResponse) or response.messages is None:
        await _refuse(scope, response, send)
        return
    socket = AsgiWebSocket(receive, send)
    try:
        await send({"type": "websocket.accept", "subprotocol": response.subprotocol or None})
        await response.messages(socket)
        await socket.close()
    finally:
        if response.release is not None:
            response.release()


async def _refuse(scope: Scope, response: HttpResponse, send: Send) -> None:
    if _DENIAL not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 1008})  # servers make it a 403
        return
    headers = [(name.encode("latin-1"), value.encode("utf-8", "replace")) for name, value in response.headers]
    await send({"type": f"{_DENIAL}.start", "status": response.status, "headers": headers})
    await send({"type": f"{_DENIAL}.body", "body": response.body})


def _no_stream(_: object) -> UpgradedStream:
    raise RuntimeError("this server passes messages, not bytes")
