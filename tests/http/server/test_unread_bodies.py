"""Small bodies that clients do not read, over real sockets in virtual time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable

import pytest

from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, StreamResponse
from opsdk.http.server.server import WebServer
from opsdk.http.server.unread import STALL_SECONDS, UNREAD, WHOLE_BYTES

KERNEL_BYTES = 2 * 1024 * 1024
"""More than the kernel holds for a connection."""


async def _parts(part: bytes, pause: float) -> AsyncGenerator[bytes, None]:
    for _ in range(KERNEL_BYTES // len(part)):
        yield part
        await asyncio.sleep(pause)


async def _handler(request: HttpRequest) -> HttpResponse:
    """Respond with as many bytes as the path says, or with a log."""
    if request.path == "/log":
        return StreamResponse(user="ann", chunks=_parts(bytes(WHOLE_BYTES), 0), is_patient=True)
    return HttpResponse(body=bytes(int(request.path[1:])), user="ann")


async def _send(server: WebServer, path: str, count: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send requests on one connection that does not read."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", server.port))
    reader, writer = await asyncio.open_connection(sock=client, limit=2**16)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode() * count)
    return reader, writer


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10 * STALL_SECONDS):
        while not condition():
            await asyncio.sleep(0.5)


def _connections(server: WebServer) -> int:
    return len(server.service.connections)


@pytest.mark.parametrize("size", [1000, 30_000, 64 * 1024, 100_000, WHOLE_BYTES])
async def test_bodies_that_are_not_read_count_until_the_client_is_cut(size: int) -> None:
    """The write buffer counts, and the body that waits for it; after 60 s the client is disconnected."""
    async with WebServer(asgi(_handler)) as server:
        _, writer = await _send(server, f"/{size}", KERNEL_BYTES // size)
        await _until(lambda: UNREAD.held.get("ann", 0) > 64 * 1024)
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(STALL_SECONDS / 2)
        assert _connections(server) == 1
        assert 64 * 1024 < UNREAD.held["ann"] <= 2 * 64 * 1024 + size + 1000
        await _until(lambda: not _connections(server))
        assert asyncio.get_running_loop().time() - began == pytest.approx(STALL_SECONDS, abs=1)
        await _until(lambda: not UNREAD.held)
        writer.close()


@pytest.mark.parametrize("leave", ["read", "close", "abort"])
async def test_bytes_count_until_the_client_has_read_or_left(leave: str) -> None:
    """Nothing is held after a client that reads again, or that leaves."""
    async with WebServer(asgi(_handler)) as server:
        reader, writer = await _send(server, "/100000", KERNEL_BYTES // 100_000)
        await _until(lambda: UNREAD.held.get("ann", 0) > 64 * 1024)
        if leave == "read":
            body = bytes(100_000)
            for _ in range(KERNEL_BYTES // 100_000):
                await reader.readuntil(b"\r\n\r\n")
                assert await reader.readexactly(len(body)) == body
        elif leave == "close":
            writer.close()
        else:
            writer.transport.abort()
        await _until(lambda: not UNREAD.held)
        writer.close()


async def test_a_patient_stream_may_pause() -> None:
    """A log counts too, and its client may pause for hours."""
    async with WebServer(asgi(_handler)) as server:
        _, writer = await _send(server, "/log", 1)
        await _until(lambda: UNREAD.held.get("ann", 0) > 64 * 1024)
        await asyncio.sleep(100 * STALL_SECONDS)
        assert _connections(server) == 1
        writer.close()
        await _until(lambda: not UNREAD.held)


async def test_a_client_that_reads_is_never_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual request pays nothing: a connection that is not full makes no call."""
    calls: list[str] = []

    def hold(user: str, *_: object) -> None:
        calls.append(user)

    monkeypatch.setattr(UNREAD, "hold", hold)
    monkeypatch.setattr(UNREAD, "hold_buffer", hold)
    async with WebServer(asgi(_handler)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for _ in range(20):
            writer.write(b"GET /30000 HTTP/1.1\r\nHost: a\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(30_000)
        writer.close()
    assert calls == []
