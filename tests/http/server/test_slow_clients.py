"""Clients that take their time, in virtual time over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from envtest.plane.certificates import Authority
from opsdk.base.limits import Limits
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, StreamResponse, text_response
from opsdk.http.server.server import ServeOptions, Tls, WebServer


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
    """A connection whose head is incomplete after 30 seconds is closed, however slowly bytes arrive."""
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


async def test_a_body_that_makes_progress_has_no_timeout() -> None:
    """The connection limits heads, idle time, and the time without a byte of a body."""
    async with WebServer(asgi(_handler)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /minutes HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"200 OK" in await reader.readline()
        await reader.readuntil(b"ok")
        writer.write(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
        for _ in range(10):
            await asyncio.sleep(29)
            writer.write(b"x")
        assert b"200 OK" in await reader.readline()
        writer.close()


_BODY = b"POST /body HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize(
    "begin", [b"Content-Length: 10\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n", b"Content-Length: 10\r\n\r\n"]
)
async def test_a_body_without_progress_gets_408(begin: bytes) -> None:
    """A body without progress for 30 seconds gets a 408 response, and the connection closes."""
    async with WebServer(asgi(_handler)) as server:
        loop = asyncio.get_running_loop()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        started = loop.time()
        writer.write(_BODY + begin)
        assert (await reader.read()).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert 30 <= loop.time() - started < 31
        writer.close()
        await server.service.wait_empty(60)
        assert not server.service.connections


async def test_a_slow_body_behind_another_request_waits_its_turn() -> None:
    """While the server does not read, the client cannot make progress."""
    async with WebServer(asgi(_handler)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /minutes HTTP/1.1\r\nHost: a\r\n\r\n" + _BODY + b"Content-Length: 2\r\n\r\na")
        await reader.readuntil(b"ok")
        await asyncio.sleep(20)
        writer.write(b"b")
        assert b"200 OK" in await reader.readline()
        writer.close()


async def test_connections_beyond_the_limit_are_closed() -> None:
    """A connection that ends makes room for the next one."""
    async with WebServer(asgi(_handler), ServeOptions(limits=Limits(connections=2))) as server:
        pairs = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2)]
        await asyncio.sleep(1)
        refused, third = await asyncio.open_connection("127.0.0.1", server.port)
        assert await refused.read() == b""
        third.close()
        pairs[0][1].close()
        await asyncio.sleep(1)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"200 OK" in await reader.readline()
        writer.close()
        pairs[1][1].close()


async def test_a_stream_waits_for_a_client_that_does_not_read() -> None:
    """The stream ends when the client disconnects; other streams do not wait."""
    created = 0
    closed = asyncio.Event()

    async def endless() -> AsyncGenerator[bytes, None]:
        nonlocal created
        try:
            while True:
                created += 1
                yield b"x" * 65536
        finally:
            closed.set()

    async def handler(request: HttpRequest) -> HttpResponse:
        return StreamResponse(chunks=endless()) if request.path == "/endless" else text_response("ok")

    async with WebServer(asgi(handler), ServeOptions(shutdown_timeout=0.1)) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1)
        writer.write(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.sleep(10)
        before = created
        assert before < 400
        reader, other = await asyncio.open_connection("127.0.0.1", server.port)
        other.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await reader.readuntil(b"ok")
        assert created == before
        assert not closed.is_set()
        writer.transport.abort()
        await asyncio.wait_for(closed.wait(), 5)
        other.close()


@pytest.mark.parametrize("parts", [[], [b"\x16"], [b"\x16\x03\x01\x02\x00", *[b"\x01"] * 100]])
async def test_a_tls_handshake_must_end_within_the_time_of_a_head(parts: list[bytes], tmp_path: Path) -> None:
    """An incomplete TLS handshake ends after the head's timeout, and counts as a connection from its start."""
    cert, key = Authority.load_or_create(None).serving("127.0.0.1").write(tmp_path, "tls")
    options = ServeOptions(tls=Tls(cert_file=cert, key_file=key), limits=Limits(connections=1))
    async with WebServer(asgi(_handler), options) as server:
        first = asyncio.ensure_future(_until_closed(server, *((part, 1.0) for part in parts)))
        await asyncio.sleep(5)
        assert await _until_closed(server) < 1
        assert await first <= 2 * 32 + 1
