"""A client connection that sends a request piece by piece, with backpressure.

Deviates: net/http's Transport sends the rest of a body while it reads the response. Here the response ends the request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from opsdk.errors import ConnectionLostError
from opsdk.http.client.connection import ClientConnection
from opsdk.http.client.errors import TRANSPORT_ERRORS, translate
from opsdk.http.client.request import Pairs, encode_head


class WritableConnection(ClientConnection):
    """A connection for one request that also sends bytes after the request's head."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self._writable = asyncio.Event()
        self._writable.set()

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`: the peer does not read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._writable.set()
        super().connection_lost(exc)

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait while the peer does not read. Raises `ConnectionLostError`."""
        if self.transport is None or self.transport.is_closing():
            raise ConnectionLostError(f"{self.where}: the connection has ended")
        self.transport.write(data)
        await self._writable.wait()


Written = TypeVar("Written", bound=WritableConnection)


class WritableExchange:
    """The response to a request on its own connection. A `ResponseStream`; `aclose` closes the connection."""

    def __init__(self, connection: WritableConnection) -> None:
        self._connection = connection
        self.status = connection.reader.status
        self.headers = connection.reader.headers

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.status} on {self._connection!r}>"

    async def read(self) -> bytes:
        """Return the next bytes, empty at the end. Raises `ConnectionLostError`."""
        return await self._connection.read()

    async def aclose(self) -> None:
        """Send what was written, then close the connection. Idempotent."""
        transport = self._connection.transport
        if transport is not None:
            transport.close()
        self._connection.draining = True


async def dial_and_send(dial: Callable[[], Awaitable[Written]], method: str, head: bytes) -> Written:
    """Open a connection and send a request's head on it. Raises `ConnectError`."""
    try:
        connection = await dial()
    except TRANSPORT_ERRORS as error:
        raise translate(error, sent=False, where="dial") from error
    connection.send(method, head)
    return connection


async def stream_request(
    dial: Callable[[], Awaitable[WritableConnection]],
    method: str,
    target: str,
    headers: Pairs,
    chunks: AsyncIterator[bytes],
    *,
    length: int | None,
) -> WritableExchange:
    """Send a request whose body arrives in chunks, and return when the response head has arrived.

    The response ends the request: chunks that are not sent by then stay unread. Cancellation closes the connection.

    Args:
        dial: opens a connection.
        method: the request's.
        target: path and query.
        headers: without Content-Length and Transfer-Encoding.
        chunks: the body; its exceptions are raised.
        length: the body's size in bytes, or None for a chunked body.

    Raises:
        ConnectError: no connection was made.
        ConnectionLostError: the connection broke before the response.
    """
    framing = "Transfer-Encoding: chunked\r\n" if length is None else f"Content-Length: {length}\r\n"
    connection = await dial_and_send(dial, method, encode_head(method, target, headers, framing))

    async def send() -> None:
        # A peer that closes its side has often sent a response first; the wait for the head reports which.
        with contextlib.suppress(ConnectionLostError):
            async for chunk in chunks:
                if chunk:
                    await connection.write(chunk if length is not None else b"%x\r\n%b\r\n" % (len(chunk), chunk))
            if length is None:
                await connection.write(b"0\r\n\r\n")

    sending, head = asyncio.ensure_future(send()), asyncio.ensure_future(connection.head())
    try:
        await asyncio.wait((sending, head), return_when=asyncio.FIRST_COMPLETED)
        if not head.done():
            sending.result()
        await head
    except BaseException:
        connection.abort()
        raise
    finally:
        for task in (sending, head):
            task.cancel()
        await asyncio.gather(sending, head, return_exceptions=True)
        if connection.draining:
            await connection.wait_closed()
    return WritableExchange(connection)
