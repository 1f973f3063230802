"""HTTP/1.1 on asyncio: a parser without I/O, one connection, a pool of them. No httpx here."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, Protocol, TypeVar

import httptools

from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.errors import ConnectionLostError, UsageError
from opsdk.wire.failures import FOREIGN, NO_HTTP, translate

# Above this many unread bytes the socket is not read any more, until a half is left.
_HIGH_WATER = 1 << 20
# Go's numbers, which servers are used to.
MAX_IDLE = 25
IDLE_TIMEOUT = 90.0
TLS_TIMEOUT = 10.0
# Seconds and counts after which the kernel gives up a silent peer: 45 in all, what HTTP/2's pings give client-go.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 45_000}
_BODYLESS = frozenset({204, 304})

Pairs = Sequence[tuple[str, str]]
Connected = TypeVar("Connected", bound="Connection")


class Exchange(Protocol):
    """An answer whose head has arrived; the body is read piece by piece."""

    status: int
    headers: dict[str, str]

    async def read(self) -> bytes:
        """The next bytes, empty at the end; `ConnectionLostError` where the answer was cut."""
        ...

    async def aclose(self) -> None:
        """Give the connection back, or end it if the body was not read whole; idempotent."""
        ...


class Backend(Protocol):
    """Where exchanges happen: a pool of connections, or an application in this process."""

    async def exchange(self, method: str, target: str, headers: Pairs, body: bytes) -> Exchange:
        """Send one request, and wait for the head of the answer."""
        ...

    def retire(self) -> None:
        """Use no present connection for a new exchange; those underway go on."""
        ...

    async def aclose(self) -> None:
        """End everything; idempotent."""
        ...


# ------------------------------------------------------------------ the parser
class Reading(Enum):
    """How far an answer is read."""

    IDLE = "no request is underway; any byte is a mistake of the server"
    HEAD = "status and headers are still coming"
    BODY = "the head is known"
    DONE = "the answer is whole"


class AnswerReader:
    """Bytes to one answer at a time; no I/O. The parser calls the ``on_`` methods."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._method = ""
        self._until_eof = False
        self.state = Reading.IDLE
        self.status = 0
        self.headers: dict[str, str] = {}
        self.chunks: deque[bytes] = deque()
        self.buffered = 0
        self.reusable = False

    def begin(self, method: str) -> None:
        """Expect the answer to a request of this method."""
        self._method, self.state, self.reusable = method, Reading.HEAD, False

    def feed(self, data: bytes) -> None:
        """Take bytes from the network; raises ``httptools.HttpParserError`` on what is no HTTP."""
        if self.state in {Reading.IDLE, Reading.DONE}:
            self.reusable = False
            raise httptools.HttpParserError("bytes that nobody asked for")
        self._parser.feed_data(data)

    def eof(self) -> None:
        """The server sends no more: the end of an answer that says no length."""
        self.reusable = False
        if self.state is Reading.BODY and self._until_eof:
            self.state = Reading.DONE

    def take(self) -> bytes:
        """All body bytes read so far."""
        data = self.chunks.popleft() if len(self.chunks) == 1 else b"".join(self.chunks)
        self.chunks.clear()
        self.buffered = 0
        return data

    def on_message_begin(self) -> None:
        """A head starts; perhaps another one, after an interim answer."""
        if self.state is Reading.DONE:
            raise ValueError("a second answer to one request")
        self.headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        """The head is whole, if it is not an interim one (1xx)."""
        self.status = self._parser.get_status_code()
        if self.status < 200:
            return
        sized = "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "").lower()
        self._until_eof = not sized and self.status not in _BODYLESS
        self.state = Reading.DONE if self._method in {"HEAD", "CONNECT"} else Reading.BODY

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        self.chunks.append(data)
        self.buffered += len(data)

    def on_message_complete(self) -> None:
        """The answer is whole; an interim one was only the prelude."""
        if self.status >= 200:
            # A parser that was told of a body which HEAD leaves out cannot go on.
            self.reusable = self._parser.should_keep_alive() and self._method != "HEAD"
            self.state = Reading.DONE


# ------------------------------------------------------------------ one connection
class Connection(asyncio.Protocol):
    """One HTTP/1.1 connection; one exchange at a time, which `ConnectionExchange` drives."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.reader = AnswerReader()
        self.idle_since = 0.0
        self.retired = False
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
        except NO_HTTP as error:
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
        return alive and self.reader.reusable and not self.retired

    def send(self, method: str, payload: bytes) -> None:
        """Start an exchange; asyncio buffers what the socket does not take at once."""
        assert self.transport is not None
        self.reader.begin(method)
        self.transport.write(payload)

    async def head(self) -> None:
        """Wait for status and headers."""
        while self.reader.state is Reading.HEAD:
            await self._more()

    async def read(self) -> bytes:
        """The next bytes of the body; empty at its end."""
        while not self.reader.chunks:
            if self.reader.state is Reading.DONE:
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
        self.retired = True
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
        state = "retired" if self.retired else self.reader.state.name.lower()
        return f"<Connection {self.where}: {state}>"


def _keep_alive(sock: Any) -> None:
    """Have the kernel notice a peer that vanished."""
    if sock is None or sock.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


class ConnectionExchange:
    """One request's answer on one connection of a pool."""

    __slots__ = ("_connection", "_pool", "headers", "status")

    def __init__(self, pool: Pool, connection: Connection) -> None:
        self._pool = pool
        self._connection: Connection | None = connection
        self.status = connection.reader.status
        self.headers = connection.reader.headers

    async def read(self) -> bytes:
        """See `Exchange`."""
        if self._connection is None:
            return b""
        return await self._connection.read()

    async def aclose(self) -> None:
        """See `Exchange`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._pool.release(connection)

    def __repr__(self) -> str:
        return f"<ConnectionExchange {self.status}{'' if self._connection else ', closed'}>"


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
def encode_request(method: str, target: str, headers: Pairs, body: bytes) -> bytes:
    """The bytes of a request; `UsageError` on anything that would end a line early."""
    if not method.isalpha() or not target.isascii() or not target.isprintable() or " " in target:
        raise UsageError(f"{method} {target!r} is no request line: escape the path and the query")
    lines = [f"{method} {target} HTTP/1.1\r\n"]
    for name, value in headers:
        if not name or not name.isascii() or any(c in name for c in " :\r\n\0") or any(c in value for c in "\r\n\0"):
            # The value may be a secret.
            raise UsageError(f"header {name!r} holds a character that ends a line or is no header name")
        lines.append(f"{name}: {value}\r\n")
    if body or method in {"POST", "PUT", "PATCH"}:
        lines.append(f"Content-Length: {len(body)}\r\n")
    lines.append("\r\n")
    return "".join(lines).encode() + body


class Pool:
    """Keeps connections to one server for the next request; the last used is taken first.

    The number of connections is not limited: the callers' concurrency is.
    """

    def __init__(
        self,
        dial: Callable[[], Awaitable[Connection]],
        *,
        clock: Clock = LOOP_CLOCK,
        max_idle: int = MAX_IDLE,
        idle_timeout: float = IDLE_TIMEOUT,
    ) -> None:
        self._dial = dial
        self._clock = clock
        self._max_idle = max_idle
        self._idle_timeout = idle_timeout
        self._idle: deque[Connection] = deque()
        self._busy: set[Connection] = set()
        self._closed = False

    @property
    def idle(self) -> int:
        """How many connections wait for the next request."""
        return len(self._idle)

    async def exchange(self, method: str, target: str, headers: Pairs, body: bytes) -> ConnectionExchange:
        """Send one request, and wait for the head of the answer; cancelled, the connection is closed."""
        payload = encode_request(method, target, headers, body)
        connection = self._take() or await self._connect()
        try:
            connection.send(method, payload)
            await connection.head()
        except BaseException:
            connection.abort()
            await self.release(connection)
            raise
        return ConnectionExchange(self, connection)

    def _take(self) -> Connection | None:
        """An idle connection that is still good."""
        if self._closed:
            raise UsageError("this transport is closed; make a new one")
        now = self._clock.now()
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and now - connection.idle_since < self._idle_timeout:
                self._busy.add(connection)
                return connection
            connection.abort()
        return None

    async def _connect(self) -> Connection:
        try:
            connection = await self._dial()
        except FOREIGN as error:
            raise translate(error, sent=False, where="dial") from error
        if self._closed:
            connection.abort()
            await connection.wait_closed()
            raise ConnectionLostError(f"{connection.where}: closed while connecting")
        self._busy.add(connection)
        return connection

    async def release(self, connection: Connection) -> None:
        """Take back a connection after its exchange: keep it, or close it and wait until it is gone."""
        self._busy.discard(connection)
        if connection.reusable and not self._closed:
            connection.idle_since = self._clock.now()
            self._idle.append(connection)
            while len(self._idle) > self._max_idle:
                self._idle.popleft().abort()
            return
        connection.abort()
        await connection.wait_closed()

    def retire(self) -> None:
        """Use no present connection for a new exchange; those underway go on."""
        for connection in self._busy:
            connection.retired = True
        while self._idle:
            self._idle.pop().abort()

    async def aclose(self) -> None:
        """Close every connection, also those in use; idempotent."""
        self._closed = True
        doomed = [*self._idle, *self._busy]
        self._idle.clear()
        for connection in doomed:
            connection.abort()
        for connection in doomed:
            await connection.wait_closed()

    def __repr__(self) -> str:
        return f"<Pool: {len(self._busy)} busy, {len(self._idle)} idle{', closed' if self._closed else ''}>"
