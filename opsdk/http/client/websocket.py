"""Client side of a WebSocket over an upgraded connection. The ``websockets`` library handles the frames."""

from __future__ import annotations

import base64
import hashlib
import os
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NoReturn

from opsdk.base.extras import RequiredExtra
from opsdk.errors import ConnectionLostError, ResponseLimitError, TransportError
from opsdk.http.client.request import NORMAL_CLOSES, SWITCHED, Check, Pairs, closed_with
from opsdk.http.client.upgrade import UpgradeConnection, UpgradedExchange, upgrade_on

_ACCEPT_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
MAX_MESSAGE_BYTES = 4 << 20
"""Largest message, in bytes. The kubelet sends at most 32 KiB."""


class ClientWebSocket:
    """A `MessageStream` on a connection. A response other than 101 has a body in place of messages.

    Args:
        exchange: the response to the upgrade request.
        release: closes the connection.

    Raises:
        ConfigError: the ``websockets`` library is missing.
    """

    def __init__(self, exchange: UpgradedExchange, release: Callable[[], Awaitable[None]]) -> None:
        with RequiredExtra("pods", "a WebSocket to the API server"):
            from websockets.protocol import CLIENT, OPEN, Protocol

        self.status = exchange.status
        self.headers = exchange.headers
        self._exchange = exchange
        self._release = release
        self._protocol = Protocol(CLIENT, state=OPEN, max_size=MAX_MESSAGE_BYTES)
        self._messages: deque[bytes] = deque()
        self._partial = bytearray()
        self._close_received = False

    async def read(self) -> bytes:
        """Return the next message that is not empty, or empty bytes after the server's close frame.

        Raises:
            ConnectionLostError: the connection ended without a normal close frame.
            ResponseLimitError: a message has more than `MAX_MESSAGE_BYTES`.
        """
        if self.status != SWITCHED:
            return await self._exchange.read()
        while not self._messages:
            if self._close_received:
                return self._end()
            if not (data := await self._exchange_read()):
                raise ConnectionLostError("the server ended the WebSocket without a close frame")
            self._protocol.receive_data(data)
            self._receive_frames()
            with suppress(ConnectionLostError):  # the answer to a ping or a close; the next read raises the error
                await self._flush()
        return self._messages.popleft()

    async def _exchange_read(self) -> bytes:
        try:
            return await self._exchange.read()
        except ConnectionLostError as error:
            self._raise_lost(error)

    def _receive_frames(self) -> None:
        """Assemble the messages of the frames that have arrived. Raises what `read` raises."""
        with RequiredExtra("pods", "a WebSocket to the API server"):
            from websockets.frames import Frame, Opcode

        for frame in self._protocol.events_received():
            assert isinstance(frame, Frame)  # the handshake is over
            if frame.opcode is Opcode.CLOSE:
                self._close_received = True
            elif frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                self._partial += frame.data
                if frame.fin:
                    self._messages += [bytes(self._partial)] if self._partial else []
                    self._partial.clear()
        if (problem := self._protocol.parser_exc) is not None:
            self._raise_malformed(problem)

    def _end(self) -> bytes:
        """Return empty bytes after a normal close frame. Raises `ConnectionLostError` after another one."""
        close = self._protocol.close_rcvd
        if close is not None and close.code not in NORMAL_CLOSES:
            raise ConnectionLostError(closed_with(close.code, close.reason))
        return b""

    @staticmethod
    def _raise_malformed(problem: Exception) -> NoReturn:
        with RequiredExtra("pods", "a WebSocket to the API server"):
            from websockets.exceptions import PayloadTooBig

        if isinstance(problem, PayloadTooBig):
            raise ResponseLimitError(f"a WebSocket message has more than {MAX_MESSAGE_BYTES} bytes") from problem
        raise ConnectionLostError(f"the server does not send valid WebSocket frames: {problem}") from problem

    async def send(self, message: bytes) -> None:
        """Send a message, and wait while the server does not read. Raises `ConnectionLostError`."""
        if self._close_received or self._protocol.close_expected():
            raise ConnectionLostError("the WebSocket is closed")
        self._protocol.send_binary(message)
        await self._flush()

    async def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                try:
                    await self._exchange.write(data)
                except ConnectionLostError as error:
                    self._raise_lost(error)

    def _raise_lost(self, error: ConnectionLostError) -> NoReturn:
        """Raise the reason of a lost connection: the check of the request, such as a fence, or the network."""
        if (refusal := self._exchange.refusal) is not None:
            raise refusal from None
        raise error

    def abort(self) -> None:
        """Close the connection at once; what was not sent is lost. Idempotent."""
        self._exchange.abort()

    async def aclose(self) -> None:
        """Send what was written, then close the connection. Idempotent."""
        try:
            await self._exchange.aclose()
            with suppress(TimeoutError):  # a server that does not read
                await self._exchange.wait_closed()
        finally:
            await self._release()

    def __repr__(self) -> str:
        return f"<ClientWebSocket on {self._exchange!r}>"


async def open_websocket(
    connection: UpgradeConnection,
    target: str,
    headers: Pairs,
    *,
    check: Check | None,
    release: Callable[[], Awaitable[None]],
) -> ClientWebSocket:
    """Return the WebSocket of a new connection, or the response that refuses it. The caller closes it after an error.

    Raises:
        ConnectionLostError: the connection broke before the response.
        TransportError: the server switched to another protocol.
    """
    key = base64.b64encode(os.urandom(16)).decode()
    handshake = (
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", key),
    )
    exchange = await upgrade_on(connection, "GET", target, (*headers, *handshake), check=check)
    digest = hashlib.sha1(key.encode() + _ACCEPT_GUID, usedforsecurity=False).digest()
    accepted = exchange.headers.get("sec-websocket-accept", "").strip()
    if exchange.status == SWITCHED and accepted != base64.b64encode(digest).decode():
        raise TransportError("the server, or a proxy before it, did not accept a WebSocket")
    return ClientWebSocket(exchange, release)
