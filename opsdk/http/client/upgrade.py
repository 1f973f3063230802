"""Connections that leave HTTP: a request that asks for another protocol, and what comes after the answer 101."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httptools

from opsdk.errors import ConnectionLostError
from opsdk.http.client.connection import ClientConnection
from opsdk.http.client.errors import TRANSPORT_ERRORS, translate
from opsdk.http.client.parser import ResponseParser, ResponseState
from opsdk.http.client.request import Pairs, encode_request


class SwitchingReader(ResponseParser):
    """Takes 101 for the end of HTTP: from then on every byte is body."""

    switched = False

    def feed(self, data: bytes) -> None:
        """See `ResponseParser`."""
        if self.switched:
            self.on_body(data)
            return
        try:
            super().feed(data)
        except httptools.HttpParserUpgrade as rest:
            self.switched, self.state = True, ResponseState.BODY
            if len(data) > rest.args[0]:
                self.on_body(data[rest.args[0] :])

    def eof(self) -> None:
        """See `ResponseParser`."""
        super().eof()
        if self.switched:
            self.state = ResponseState.DONE


class SwitchingConnection(ClientConnection):
    """A connection for one request that asks to switch; bytes can be sent after its answer."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.reader = SwitchingReader()
        self._flowing = asyncio.Event()
        self._flowing.set()

    def pause_writing(self) -> None:
        """The other side does not read; see asyncio."""
        self._flowing.clear()

    def resume_writing(self) -> None:
        """It does again."""
        self._flowing.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        self._flowing.set()
        super().connection_lost(exc)

    async def write(self, data: bytes) -> None:
        """Send; waits while the other side does not read, `ConnectionLostError` where it is gone."""
        if self.transport is None or self.transport.is_closing():
            raise ConnectionLostError(f"{self.where}: the connection has ended")
        self.transport.write(data)
        await self._flowing.wait()


class Switched:
    """The answer to a request that asked to switch: 101 and both directions, or any other answer and its body.

    An `ServerExchange` of a connection of its own: closed, the connection ends.
    """

    def __init__(self, connection: SwitchingConnection) -> None:
        self._connection = connection
        self.status = connection.reader.status
        self.headers = connection.reader.headers

    def __repr__(self) -> str:
        return f"<Switched {self.status} on {self._connection!r}>"

    async def read(self) -> bytes:
        """The next bytes, empty at the end; `ConnectionLostError` where the connection broke."""
        return await self._connection.read()

    async def write(self, data: bytes) -> None:
        """Send after a 101; waits while the other side does not read, `ConnectionLostError` where it is gone."""
        await self._connection.write(data)

    def abort(self) -> None:
        """End the connection at once; idempotent."""
        self._connection.abort()

    async def aclose(self) -> None:
        """End the connection; idempotent. What was written is sent before."""
        transport = self._connection.transport
        if transport is not None:
            transport.close()
        self._connection.draining = True


async def upgrade(
    dial: Callable[[], Awaitable[SwitchingConnection]], method: str, target: str, headers: Pairs
) -> Switched:
    """Send one request that asks to switch, and wait for the head of the answer; cancelled, the connection is closed.

    Raises:
        ConnectError: there is no connection.
        ConnectionLostError: it broke before the answer.
    """
    payload = encode_request(method, target, headers, b"")
    try:
        connection = await dial()
    except TRANSPORT_ERRORS as error:
        raise translate(error, sent=False, where="dial") from error
    try:
        connection.send(method, payload)
        await connection.head()
    except BaseException:
        connection.abort()
        await connection.wait_closed()
        raise
    return Switched(connection)
