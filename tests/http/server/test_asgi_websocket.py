"""WebSockets behind another ASGI server, which passes messages."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from opsdk.errors import ConnectionLostError
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, text_response
from opsdk.http.server.websocket import WebSocket, accept_websocket, wants_websocket

SCOPE: dict[str, Any] = {
    "type": "websocket",
    "path": "/echo",
    "query_string": b"",
    "scheme": "wss",
    "headers": [(b"host", b"example.com")],
    "extensions": {"websocket.http.response": {}},
}


class Server:
    """An ASGI server with one WebSocket."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        for message in ({"type": "websocket.connect"}, *messages):
            self.incoming.put_nowait(message)
        self.sent: list[dict[str, Any]] = []
        self.broken = False

    async def send(self, message: Any) -> None:
        """Take a message of the application."""
        if self.broken:
            raise OSError("gone")
        self.sent.append(dict(message))

    async def run(self, handler: Any, **scope: Any) -> list[dict[str, Any]]:
        """Run the application, and return what it sent."""
        await asgi(handler)({**SCOPE, **scope}, self.incoming.get, self.send)
        return self.sent


def echo(released: list[str]) -> Any:
    """Return a handler that sends each message back, and remembers its end."""

    async def run(socket: WebSocket, _: str) -> None:
        while (message := await socket.receive()) is not None:
            await socket.send(message)

    async def handle(request: HttpRequest) -> HttpResponse:
        assert wants_websocket(request)
        assert (request.method, request.scheme, request.header("host")) == ("GET", "https", "example.com")
        return accept_websocket(request, ("",), run, release=lambda: released.append("released"))

    return handle


async def test_messages_go_in_both_directions() -> None:
    """Text and bytes, until the client leaves; the end is released once."""
    released: list[str] = []
    server = Server(
        {"type": "websocket.receive", "text": "a"},
        {"type": "websocket.receive", "bytes": b"b", "text": None},
        {"type": "websocket.disconnect", "code": 1000},
    )
    sent = await server.run(echo(released))
    assert sent == [
        {"type": "websocket.accept", "subprotocol": None},
        {"type": "websocket.send", "text": "a"},
        {"type": "websocket.send", "bytes": b"b"},
    ]
    assert released == ["released"]


async def test_an_application_closes_the_socket() -> None:
    """The socket is closed when the application's function returns."""

    async def run(socket: WebSocket, _: str) -> None:
        await socket.send("bye")

    async def handle(request: HttpRequest) -> HttpResponse:
        return accept_websocket(request, ("",), run)

    sent = await Server().run(handle)
    assert sent[-1] == {"type": "websocket.close", "code": 1000, "reason": ""}


async def test_a_refusal_is_a_response_where_the_server_can_send_one() -> None:
    """Other servers close the handshake, which clients see as a 403."""

    async def handle(request: HttpRequest) -> HttpResponse:
        return text_response("no", status=404)

    start, body = await Server().run(handle)
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 404)
    assert body == {"type": "websocket.http.response.body", "body": b"no"}
    assert await Server().run(handle, extensions={}) == [{"type": "websocket.close", "code": 1008}]


async def test_a_lost_connection_is_named() -> None:
    """A lost connection is a ConnectionLostError, whatever the server raises."""
    released: list[str] = []
    server = Server({"type": "websocket.receive", "text": "a"})

    async def run(socket: WebSocket, _: str) -> None:
        await socket.receive()
        server.broken = True
        for _ in range(2):
            with pytest.raises(ConnectionLostError):
                await socket.send("a")

    async def handle(request: HttpRequest) -> HttpResponse:
        return accept_websocket(request, ("",), run, release=lambda: released.append("released"))

    await server.run(handle)
    assert released == ["released"]
