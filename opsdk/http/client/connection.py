"""A client connection on asyncio. The parser has no I/O and is in `opsdk.http.client.parser`."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import TypeVar, cast

from opsdk.errors import ConnectionLostError
from opsdk.http.body_stream import BodyStream
from opsdk.http.client.checked_socket import CheckedSocket, open_socket
from opsdk.http.client.errors import PARSE_ERRORS, translate
from opsdk.http.client.parser import ResponseParser, ResponseState
from opsdk.http.client.request import Check
from opsdk.http.receive_buffer import SharedBufferProtocol
from opsdk.http.tls_session import TlsSession
from opsdk.http.tls_transport import connect_tls

# Stop reading from the socket while more bytes than this are unread.
_HIGH_WATER = 1 << 20
TLS_TIMEOUT = 10.0
# TCP keep-alive detects a silent peer after 45 s in all, like the HTTP/2 health check of client-go
# (k8s.io/apimachinery/pkg/util/net/http.go, ReadIdleTimeout and PingTimeout).
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 45_000}

# Python 3.11 searches the metaclass for each member of an enum that is named: not for each object.
_HEAD, _DONE = ResponseState.HEAD, ResponseState.DONE

Connected = TypeVar("Connected", bound="ClientConnection")


class ClientConnection(SharedBufferProtocol):
    """One HTTP/1.1 connection with one exchange at a time.

    Attributes:
        where: the address, for error messages.
        idle_since: clock time of the last release to the pool.
        draining: no new exchange may use the connection.
        socket: the TCP socket below TLS.
    """

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where
        self.socket: CheckedSocket | None = None
        self.reader = ResponseParser()
        self.idle_since = 0.0
        self.draining = False
        self.transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: BaseException | None = None
        self._paused = False
        self._writable: asyncio.Future[None] | None = None
        self._closed = asyncio.get_running_loop().create_future()

    # -- asyncio.Protocol
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`. Enables TCP keep-alive."""
        # Not an assertion: transports of uvloop have no base class.
        self.transport = transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        if sock is None or sock.family not in {socket.AF_INET, socket.AF_INET6}:
            return
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if (option := getattr(socket, name, None)) is not None:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        try:
            self.reader.feed(data)
        except PARSE_ERRORS as error:
            self._error = self._error or error
            self.abort()
            self._wake()
            return
        if self.reader.buffered > _HIGH_WATER and not self._paused and self.transport is not None:
            self._paused = True
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        """See `asyncio.Protocol`. Returns False, so asyncio closes the transport."""
        self.reader.eof()
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`. Only a clean end completes a response without a length."""
        if exc is None:
            self.reader.eof()
        if self._error is None:
            self._error = exc or EOFError("closed by the server")
        if not self._closed.done():
            self._closed.set_result(None)
        self.resume_writing()
        self._wake()

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`: the peer does not read."""
        self._writable = self._writable or asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        writable, self._writable = self._writable, None
        if writable is not None:
            writable.set_result(None)

    # -- for exchange and pool
    @property
    def reusable(self) -> bool:
        """Whether another request may use the connection."""
        alive = self.transport is not None and not self.transport.is_closing() and self._error is None
        return alive and self.reader.reusable and not self.draining

    @property
    def is_complete(self) -> bool:
        """Whether the whole response has arrived, and another request may use the connection."""
        return self.reader.state is _DONE and not self._paused and self.reusable

    @property
    def refusal(self) -> BaseException | None:
        """The exception of the exchange's check, which ended the connection."""
        return None if self.socket is None else self.socket.refusal

    def send(self, method: str, payload: bytes, check: Check | None = None) -> None:
        """Start an exchange. asyncio buffers what the socket does not take at once.

        Args:
            method: the request's.
            payload: the whole request.
            check: called before each piece goes to the socket. If it raises, the connection ends, see `refusal`.
        """
        assert self.transport is not None
        if self.socket is not None:
            self.socket.check = check
        self.reader.begin(method)
        self.transport.write(payload)

    async def send_stream(self, method: str, head: bytes, body: BodyStream, check: Check | None = None) -> None:
        """Send a request whose body arrives in chunks, and wait for status and headers of the response.

        The response ends the request: the rest of the body stays unread, and no other request may use the connection.
        Raises what `head` and the body raise. `check` as for `send`.

        Deviates: net/http's Transport sends the rest of a body while the response is read.
        """
        self.send(method, head, check)
        sending, responding = asyncio.ensure_future(self._send_chunks(body)), asyncio.ensure_future(self.head())
        try:
            await asyncio.wait((sending, responding), return_when=asyncio.FIRST_COMPLETED)
            if not responding.done():
                sending.result()
            await responding
        finally:
            for task in (sending, responding):
                task.cancel()
            outcome, _ = await asyncio.gather(sending, responding, return_exceptions=True)
            if outcome is not None:
                self.draining = True

    async def _send_chunks(self, body: BodyStream) -> None:
        is_chunked = body.length is None
        async with aclosing(aiter(body)) as chunks:
            async for chunk in chunks:
                try:
                    await self.write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if is_chunked else chunk)
                except ConnectionLostError:
                    # A server that closes its side has often sent a response first. The wait for the head reports it.
                    return
        if is_chunked:
            with suppress(ConnectionLostError):
                await self.write(b"0\r\n\r\n")

    async def write(self, data: bytes) -> None:
        """Send bytes behind the head, and wait while the peer does not read. Raises `ConnectionLostError`."""
        if self.transport is None or self.transport.is_closing():
            raise ConnectionLostError(f"{self.where}: the connection has ended")
        self.transport.write(data)
        if self._writable is not None:
            await asyncio.shield(self._writable)

    def change(self) -> asyncio.Future[None]:
        """Return the next data or end of the connection, to be awaited. Raises if the connection has already ended."""
        if self._error is not None:
            raise translate(self._error, sent=True, where=self.where) from self._error
        self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter

    async def head(self) -> None:
        """Wait for status and headers. Raises `TransportError` if the connection breaks."""
        while self.reader.state is _HEAD:
            await self.change()

    async def read(self) -> bytes:
        """Return the next bytes of the body, empty at its end. Raises `ConnectionLostError`."""
        while not self.reader.chunks:
            if self.reader.state is _DONE:
                return b""
            await self.change()
        data = self.reader.take()
        if self._paused and self.transport is not None:
            self._paused = False
            with suppress(RuntimeError):  # closed in the meantime
                self.transport.resume_reading()
        return data

    def abort(self) -> None:
        """Close the connection at once. Unsent data is lost, also what the kernel has not delivered yet."""
        self.draining = True
        if self.transport is None:
            return
        if self.reader.state is _HEAD:
            # SO_LINGER 0 makes the close a reset. Else the kernel delivers a cancelled write after a network
            # partition of up to 45 s, when another replica may lead.
            sock = self.transport.get_extra_info("socket")
            if sock is not None and sock.fileno() >= 0 and sock.family in {socket.AF_INET, socket.AF_INET6}:
                with suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    async def wait_closed(self) -> None:
        """Return when the socket is closed."""
        if self.transport is not None:
            await asyncio.shield(self._closed)

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def __repr__(self) -> str:
        state = "draining" if self.draining else self.reader.state.name.lower()
        return f"<ClientConnection {self.where}: {state}>"


async def connect(
    host: str,
    port: int,
    context: ssl.SSLContext | None,
    server_name: str,
    make: Callable[[], Connected],
    *,
    resumed: ssl.SSLSession | None = None,
    sock: CheckedSocket | None = None,
) -> Connected:
    """Return a new connection, with TLS if `context` is given.

    Args:
        host: name or address.
        port: TCP port.
        context: TLS context, or None for plain HTTP.
        server_name: the name to verify; empty for `host`.
        make: creates the protocol object.
        resumed: see `TlsSession`.
        sock: a socket that leads there, such as through a proxy; None connects to `host`.

    Raises:
        OSError: and other exceptions in `TRANSPORT_ERRORS`; the caller translates them.
    """
    session = None if context is None else TlsSession(context, server_hostname=server_name or host, resumed=resumed)
    sock = sock or await open_socket(host, port)
    connection = make()
    connection.socket = sock
    if session is None:
        await asyncio.get_running_loop().create_connection(lambda: connection, sock=sock)
    else:
        await connect_tls(sock, connection, session, handshake_timeout=TLS_TIMEOUT)
    return connection
