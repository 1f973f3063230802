"""Clients that take their time, in virtual time over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, StreamResponse, text_response
from opsdk.http.server.server import ServeOptions, WebServer


async def _handler(request: HttpRequest) -> HttpResponse:
    if request.path == "/body":
        return text_response(f"{len(await request.body(1 << 22))}")
    if request.path == "/minutes":
        await asyncio.sleep(300)
    return text_response("ok")


async def _until_closed(server: WebServer, *parts: tuple[bytes, float]) -> float:
    """Seconds until the server ends a connection on which `parts` are said, each with a pause after it."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)

    async def say() -> None:
        for part, pause in parts:
            writer.write(part)
            await asyncio.sleep(pause)

    saying = asyncio.ensure_future(say())
    await reader.read()
    ended = loop.time() - began
    saying.cancel()
    writer.close()
    return ended


async def test_a_head_must_arrive_within_30_seconds() -> None:
    """Whether the client sends nothing, or a byte now and then."""
    async with WebServer(asgi(_handler)) as server:
        assert round(await _until_closed(server)) == 32
        slow = [(bytes([byte]), 1.0) for byte in b"GET / HTTP/1.1\r\nX: " + b"y" * 100]
        assert round(await _until_closed(server, *slow)) == 32
        assert round(await _until_closed(server, (b"GE", 20), (b"T / H", 20))) == 32


async def test_an_idle_connection_closes_after_90_seconds() -> None:
    """The head of the next request again has 30 seconds."""
    async with WebServer(asgi(_handler)) as server:
        whole = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        assert round(await _until_closed(server, (whole, 10))) == 90
        assert round(await _until_closed(server, (whole, 80), (whole, 80), (b"GET", 1))) == 160 + 32


async def test_responses_and_bodies_have_no_timeout() -> None:
    """The connection limits only heads and idle time."""
    async with WebServer(asgi(_handler)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /minutes HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"200 OK" in await reader.readline()
        await reader.readuntil(b"ok")
        writer.write(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
        for _ in range(10):
            await asyncio.sleep(60)
            writer.write(b"x")
        assert b"200 OK" in await reader.readline()
        writer.close()


async def test_a_stream_waits_for_a_client_that_does_not_read() -> None:
    """The stream ends when the client disconnects; other streams do not wait."""
    made = 0
    closed = asyncio.Event()

    async def endless() -> AsyncGenerator[bytes, None]:
        nonlocal made
        try:
            while True:
                made += 1
                yield b"x" * 65536
        finally:
            closed.set()

    async def handler(request: HttpRequest) -> HttpResponse:
        return StreamResponse(chunks=endless()) if request.path == "/endless" else text_response("ok")

    async with WebServer(asgi(handler), ServeOptions(shutdown_timeout=0.1)) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1)
        writer.write(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.sleep(10)
        before = made
        assert before < 400
        reader, other = await asyncio.open_connection("127.0.0.1", server.port)
        other.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await reader.readuntil(b"ok")
        assert made == before
        assert not closed.is_set()
        writer.transport.abort()
        await asyncio.wait_for(closed.wait(), 5)
        other.close()
