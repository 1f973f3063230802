"""Responders that send again and again, without another await."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from opsdk.errors import ConnectionLostError
from opsdk.http.asgi_types import App, Message, Receive, Scope, Send
from opsdk.http.client.in_process_exchange import AsgiExchange
from opsdk.http.server.application import asgi
from opsdk.http.server.exchange import ServerExchange
from opsdk.http.server.response import StreamResponse
from opsdk.http.server.upgrade import SENDS_AT_ONCE, UpgradedStream
from opsdk.http.server.websocket import WebSocket

SENDS = 10_000
"""More than any connection takes before it knows that its client has left."""
START: Message = {"type": "http.response.start", "status": 200, "headers": []}


class Port:
    """A connection whose client reads all that is written at once, and then leaves."""

    full = closing = False

    def write(self, data: bytes) -> None:
        """See `ServerConnectionPort`."""

    async def drained(self) -> None:
        """See `ServerConnectionPort`."""

    def date(self) -> bytes:
        """See `ServerConnectionPort`."""
        return b"now"

    def hold(self, *, reading: bool) -> None:
        """See `ServerConnectionPort`."""

    def response_complete(self) -> None:
        """See `ServerConnectionPort`."""

    def leave(self) -> None:
        """The client leaves."""
        self.closing = True


def sending(body: bytes) -> App:
    """Return an application that sends parts in a loop."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(START)
        for _ in range(SENDS):
            await send({"type": "http.response.body", "body": body, "more_body": True})

    return app


def streaming(body: bytes) -> App:
    """Return an application whose response is a stream."""

    async def chunks() -> AsyncGenerator[bytes, None]:
        for _ in range(SENDS):
            yield body

    async def handler(_: Any) -> StreamResponse:
        return StreamResponse(chunks=chunks())

    return asgi(handler)


async def over_the_network(app: App, method: str) -> None:
    """Run an application whose client leaves at the loop's next turn."""
    scope: Scope = {"type": "http", "method": method, "path": "/", "raw_path": b"/", "http_version": "1.1"}
    scope |= {"query_string": b"", "headers": [], "scheme": "http", "extensions": {}}
    exchange = ServerExchange(Port(), scope, app, keep_alive=True, expects=False, length=None)
    exchange.end_body()
    for _ in range(3):  # a stream begins in a task of its own
        await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0, exchange.disconnect)
    await app(scope, exchange.receive, exchange.send)
    assert exchange.disconnected


async def in_process(app: App, method: str) -> None:
    """Run an application whose client is in this process."""
    exchange = AsgiExchange(b"", lambda _: None)
    leaving = asyncio.ensure_future(exchange.aclose())
    scope: Scope = {"type": "http", "method": method, "path": "/", "raw_path": b"/", "query_string": b""}
    await exchange.run(app, {**scope, "headers": [], "scheme": "http", "extensions": {}})
    await leaving


@pytest.mark.parametrize("transport", [over_the_network, in_process])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("body", [b"", b"x", b"x" * 100_000], ids=["empty", "small", "large"])
@pytest.mark.parametrize("responder", [sending, streaming])
async def test_a_response_ends_when_its_client_leaves(
    responder: Callable[[bytes], App], body: bytes, method: str, transport: Callable[[App, str], Awaitable[None]]
) -> None:
    """It learns that soon, also if it writes nothing."""
    sent = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            nonlocal sent
            sent += 1
            await send(message)

        await responder(body)(scope, receive, counted)

    with suppress(ConnectionLostError):
        await transport(app, method)
    assert 0 < sent < 100


@pytest.mark.parametrize("data", [b"", b"x"])
async def test_an_upgraded_stream_ends_when_its_client_leaves(data: bytes) -> None:
    """A WebSocket or a forwarded port too."""
    for kind in (lambda stream: stream.write, lambda stream: WebSocket(stream).send):
        port = Port()
        send = kind(UpgradedStream(port, port.leave))
        asyncio.get_running_loop().call_soon(port.leave)
        for _ in range(SENDS_AT_ONCE):
            await send(data)
        with pytest.raises(ConnectionLostError):
            await send(data)


async def test_a_large_body_leaves_turns_to_others() -> None:
    """A client that reads at once does not get 20 MB in one turn of the loop."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(others())
    scope: Scope = {"method": "GET", "path": "/", "http_version": "1.1"}
    exchange = ServerExchange(Port(), scope, sending(b""), keep_alive=True, expects=False, length=None)
    exchange.end_body()
    await exchange.send(START)
    await exchange.send({"type": "http.response.body", "body": bytes(20 * 1024 * 1024), "more_body": False})
    task.cancel()
    assert turns >= 20
