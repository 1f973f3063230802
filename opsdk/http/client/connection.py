"""HTTP/1.1 on asyncio: a parser without I/O, one connection, a pool of them. No httpx here."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from opsdk.http.client.errors import PARSE_ERRORS, translate
from opsdk.http.client.parser import ResponseParser, ResponseState

# Above this many unread bytes the socket is not read any more, until a half is left.
_HIGH_WATER = 1 << 20
TLS_TIMEOUT = 10.0
# Seconds and counts after which the kernel gives up a silent peer: 45 in all, what HTTP/2's pings give client-go.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 45_000}

Connected = TypeVar("Connected", bound="ClientConnection")


# ------------------------------------------------------------------ the parser


# ------------------------------------------------------------------ one connection
class ClientConnection(asyncio.Protocol):
    """One HTTP/1.1 connection; one exchange at a time, which `ConnectionExchange` drives."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.reader = ResponseParser()
        self.idle_since = 0.0
        self.draining = False
        self.transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._lost: BaseException | None = None
        self._paused = False
        self._gone = asyncio.get_running_loop().create_future()

    # -- what asyncio calls
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        _keep_alive(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        try:
            self.reader.feed(data)
        except PARSE_ERRORS as error:
            self._fail(error)
            return
        if self.reader.buffered > _HIGH_WATER and not self._paused and self.transport is not None:
            self._paused = True
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        """No more bytes will come; asyncio closes the transport."""
        self.reader.eof()
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        self.reader.eof()
        if self._lost is None:
            self._lost = exc or EOFError("closed by the server")
        if not self._gone.done():
            self._gone.set_result(None)
        self._wake()

    # -- what the exchange and the pool call
    @property
    def reusable(self) -> bool:
        """Whether another request may be sent on it."""
        alive = self.transport is not None and not self.transport.is_closing() and self._lost is None
        return alive and self.reader.reusable and not self.draining

    def send(self, method: str, payload: bytes) -> None:
        """Start an exchange; asyncio buffers what the socket does not take at once."""
        assert self.transport is not None
        self.reader.begin(method)
        self.transport.write(payload)

    async def head(self) -> None:
        """Wait for status and headers."""
        while self.reader.state is ResponseState.HEAD:
            await self._more()

    async def read(self) -> bytes:
        """The next bytes of the body; empty at its end."""
        while not self.reader.chunks:
            if self.reader.state is ResponseState.DONE:
                return b""
            await self._more()
        data = self.reader.take()
        if self._paused and self.transport is not None:
            self._paused = False
            with suppress(RuntimeError):  # closed meanwhile
                self.transport.resume_reading()
        return data

    def abort(self) -> None:
        """Close at once, without saying goodbye."""
        self.draining = True
        if self.transport is not None:
            self.transport.abort()

    async def wait_closed(self) -> None:
        """Until the socket is gone."""
        if self.transport is not None:
            await asyncio.shield(self._gone)

    async def _more(self) -> None:
        """Wait until something changes; raises where nothing can."""
        if self._lost is not None:
            raise translate(self._lost, sent=True, where=self.where) from self._lost
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._lost is None:
            self._lost = error
        self.abort()
        self._wake()

    def __repr__(self) -> str:
        state = "retired" if self.draining else self.reader.state.name.lower()
        return f"<Connection {self.where}: {state}>"


def _keep_alive(sock: Any) -> None:
    """Have the kernel notice a peer that vanished."""
    if sock is None or sock.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


async def connect(
    host: str, port: int, context: ssl.SSLContext | None, server_name: str, make: Callable[[], Connected]
) -> Connected:
    """A fresh connection, its TLS done (against `server_name`, or the host where that is empty); foreign errors."""
    loop = asyncio.get_running_loop()
    if context is None:
        _, connection = await loop.create_connection(make, host, port)
        return connection
    _, connection = await loop.create_connection(
        make,
        host,
        port,
        ssl=context,
        server_hostname=server_name or host,
        ssl_handshake_timeout=TLS_TIMEOUT,
    )
    return connection


# ------------------------------------------------------------------ the pool
