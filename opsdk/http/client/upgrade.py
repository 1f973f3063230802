"""Client side of a protocol upgrade: the request, and the connection after the 101 response."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httptools

from opsdk.http.client.connection import ClientConnection
from opsdk.http.client.errors import TRANSPORT_ERRORS, translate
from opsdk.http.client.parser import ResponseParser, ResponseState
from opsdk.http.client.request import Check, Pairs, encode_request

# Seconds for a server that does not read to take the rest.
_CLOSE_TIMEOUT = 5.0


class UpgradeParser(ResponseParser):
    """A response parser that treats every byte after a 101 response as body."""

    switched = False

    def feed(self, data: bytes) -> None:
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
        super().eof()
        if self.switched:
            self.state = ResponseState.DONE


class UpgradeConnection(ClientConnection):
    """A connection for one upgrade request. After the response it also sends bytes."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.reader = UpgradeParser()


class UpgradedExchange:
    """The response to an upgrade request: 101 with both directions open, or any other response with its body.

    A `ResponseStream`; `aclose` closes the connection.
    """

    def __init__(self, connection: UpgradeConnection) -> None:
        self._connection = connection
        self.status = connection.reader.status
        self.headers = connection.reader.headers

    def __repr__(self) -> str:
        return f"<UpgradedExchange {self.status} on {self._connection!r}>"

    async def read(self) -> bytes:
        """Return the next bytes, empty at the end. Raises `ConnectionLostError`."""
        return await self._connection.read()

    async def aclose(self) -> None:
        """Send what was written, then close the connection. Idempotent."""
        transport = self._connection.transport
        if transport is not None:
            transport.close()
        self._connection.draining = True

    async def write(self, data: bytes) -> None:
        """Send bytes after a 101 response. Waits while the peer does not read. Raises `ConnectionLostError`."""
        await self._connection.write(data)

    async def wait_closed(self) -> None:
        """Return when the socket is closed, at the latest after 5 s. Raises ``TimeoutError``."""
        async with asyncio.timeout(_CLOSE_TIMEOUT):
            await self._connection.wait_closed()

    def abort(self) -> None:
        """Close the connection at once. Idempotent."""
        self._connection.abort()

    @property
    def refusal(self) -> BaseException | None:
        """The exception of the request's check, which ended the connection."""
        return self._connection.refusal


async def upgrade(
    dial: Callable[[], Awaitable[UpgradeConnection]], method: str, target: str, headers: Pairs
) -> UpgradedExchange:
    """Send one upgrade request and return when the response head has arrived. Cancellation closes the connection.

    Raises:
        ConnectError: no connection was made.
        ConnectionLostError: the connection broke before the response.
    """
    try:
        connection = await dial()
    except TRANSPORT_ERRORS as error:
        raise translate(error, sent=False, where="dial") from error
    return await upgrade_on(connection, method, target, headers)


async def upgrade_on(
    connection: UpgradeConnection, method: str, target: str, headers: Pairs, *, check: Check | None = None
) -> UpgradedExchange:
    """Send one upgrade request on a new connection. See `upgrade`; `check` as for `ClientConnection.send`."""
    connection.send(method, encode_request(method, target, headers, b""), check)
    try:
        await connection.head()
    except BaseException:
        connection.abort()
        await connection.wait_closed()
        raise
    return UpgradedExchange(connection)
