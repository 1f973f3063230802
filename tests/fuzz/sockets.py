"""Bytes from a client, as a server's connection takes them in: without a socket."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

SEEDS = [
    b"GET /a%20b?c=d HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"PUT /x HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na",
    b"BREW * HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\nUpgrade: h2c\r\n\r\n",
]


class Pipe(asyncio.Transport):
    """Keeps what is written; what is read comes from the fuzzer."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.closed = False

    def write(self, data: Any) -> None:
        """See asyncio."""
        self.sent += data

    def is_closing(self) -> bool:
        """See asyncio."""
        return self.closed

    def close(self) -> None:
        """See asyncio."""
        self.closed = True

    def abort(self) -> None:
        """See asyncio."""
        self.closed = True

    def can_write_eof(self) -> bool:
        """See asyncio."""
        return True

    def write_eof(self) -> None:
        """See asyncio."""

    def pause_reading(self) -> None:
        """See asyncio."""

    def resume_reading(self) -> None:
        """See asyncio."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See asyncio."""


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def connection(data: bytes) -> object:
    """Two halves of it arrive, then the client has nothing more to say; then it is gone."""
    return _loop().run_until_complete(_connection(data))


async def _connection(data: bytes) -> bytes:
    from opsdk.http.server.application import asgi
    from opsdk.http.server.connection import ServerConnection
    from opsdk.http.server.request import HttpRequest
    from opsdk.http.server.response import HttpResponse, text_response
    from opsdk.http.server.service import Service

    async def handler(request: HttpRequest) -> HttpResponse:
        if request.path == "/echo":
            try:
                return text_response(f"{len(await request.body(1000))}")
            except Exception as error:  # noqa: BLE001 - bodies break off
                return text_response(type(error).__name__, status=400)
        return text_response(request.path)

    service = Service(asgi(handler))
    pipe, line = Pipe(), ServerConnection(service)
    line.connection_made(pipe)
    for part in (data[: len(data) // 2], data[len(data) // 2 :]):
        if part:
            line.data_received(part)
            await asyncio.sleep(0)
    line.eof_received()
    for _ in range(20):
        await asyncio.sleep(0)
    line.connection_lost(None)
    while service.tasks:
        await asyncio.wait(tuple(service.tasks), timeout=1)
        if service.tasks:
            raise AssertionError(f"{len(service.tasks)} requests are never answered")
    if pipe.sent and not pipe.sent.startswith(b"HTTP/1."):
        raise AssertionError(f"no answer: {bytes(pipe.sent[:100])!r}")
    if service.connections:
        raise AssertionError("the connection is still known")
    return bytes(pipe.sent)
