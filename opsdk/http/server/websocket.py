"""WebSocket messages over an upgraded connection. The ``websockets`` library handles the frames."""

from __future__ import annotations

import base64
import hashlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from opsdk.base.extras import RequiredExtra
from opsdk.errors import BadRequestError, ConnectionLostError, ForbiddenError
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import UpgradeResponse
from opsdk.http.server.upgrade import UpgradedStream

_ACCEPT_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
MAX_MESSAGE_BYTES = 4 << 20
"""Largest message, in bytes."""


def wants_websocket(request: HttpRequest) -> bool:
    """Whether the request asks for a WebSocket and the connection supports an upgrade."""
    words = {word.strip().lower() for word in request.header("connection").split(",")}
    return "upgrade" in words and request.header("upgrade").lower() == "websocket" and request.upgrade is not None


def accept_websocket(
    request: HttpRequest,
    protocols: Sequence[str],
    run: Callable[[WebSocket, str], Awaitable[None]],
    *,
    release: Callable[[], None] | None = None,
) -> UpgradeResponse:
    """Return the response that upgrades. `run` gets the socket and the subprotocol.

    Args:
        request: the upgrade request.
        protocols: the supported subprotocols; ``""`` accepts clients that name none. The client's order decides.
        run: handles the socket; the connection closes when it returns.
        release: called at the end, even if `run` never started.

    Raises:
        BadRequestError: the handshake is invalid.
        ForbiddenError: none of the client's subprotocols is supported.
    """
    key = request.header("sec-websocket-key")
    if request.method != "GET" or not key or request.header("sec-websocket-version") != "13":
        raise BadRequestError("not websocket protocol")
    requested = [word.strip() for word in request.header("sec-websocket-protocol").split(",") if word.strip()] or [""]
    chosen = next((word for word in requested if word in protocols), None)
    if chosen is None:
        listed = " ".join(filter(None, protocols))
        raise ForbiddenError(f"requested protocol(s) are not supported: [{' '.join(requested)}]; supports [{listed}]")
    digest = base64.b64encode(hashlib.sha1(key.encode() + _ACCEPT_GUID, usedforsecurity=False).digest()).decode()
    headers = [("sec-websocket-accept", digest)]
    if chosen:
        headers.append(("sec-websocket-protocol", chosen))

    async def begin(stream: UpgradedStream) -> None:
        await run(WebSocket(stream), chosen)

    async def messages(socket: WebSocket) -> None:
        await run(socket, chosen)

    return UpgradeResponse(
        101, headers, protocol="websocket", run=begin, release=release, messages=messages, subprotocol=chosen
    )


class WebSocket:
    """Messages in both directions: text as `str`, binary as `bytes`. Pings get a response while `receive` runs."""

    def __init__(self, stream: UpgradedStream) -> None:
        with RequiredExtra("apiserver", "a WebSocket"):
            from websockets.protocol import OPEN, SERVER, Protocol

        self._stream = stream
        self._protocol = Protocol(SERVER, state=OPEN, max_size=MAX_MESSAGE_BYTES)
        self._messages: deque[bytes | str] = deque()
        self._message = bytearray()
        self._is_text: bool | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<WebSocket on {self._stream!r}>"

    async def receive(self) -> bytes | str | None:
        """Return the next message, or None at the end."""
        while not self._messages:
            if self._closed:
                return None
            data = await self._stream.read()
            if data:
                self._protocol.receive_data(data)
            else:
                self._protocol.receive_eof()
                self._closed = True
            self._receive_frames()
            await self._flush()
        return self._messages.popleft()

    def _receive_frames(self) -> None:
        """Assemble the messages of the frames that have arrived. One that is too long ends the connection."""
        with RequiredExtra("apiserver", "a WebSocket"):
            from websockets.frames import Frame, Opcode

        for frame in self._protocol.events_received():
            assert isinstance(frame, Frame)  # requests and answers come before the upgrade
            if frame.opcode is Opcode.CLOSE:
                self._closed = True
            elif frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                if self._is_text is None:
                    self._is_text = frame.opcode is Opcode.TEXT
                self._message += frame.data
                if len(self._message) > MAX_MESSAGE_BYTES:
                    self._protocol.fail(1009, "the message is too long")
                    self._closed = True
                    return
                if frame.fin:
                    whole = bytes(self._message)
                    self._messages.append(whole.decode("utf-8", "replace") if self._is_text else whole)
                    self._message.clear()
                    self._is_text = None
        if self._protocol.close_expected():
            self._closed = True

    async def send(self, message: bytes | str) -> None:
        """Send a message, and wait while the client does not read.

        Raises:
            ConnectionLostError: the socket is closed.
        """
        with RequiredExtra("apiserver", "a WebSocket"):
            from websockets.exceptions import InvalidState

        try:
            if isinstance(message, str):
                self._protocol.send_text(message.encode())
            else:
                self._protocol.send_binary(message)
        except InvalidState as error:
            raise ConnectionLostError("the socket is closed") from error
        await self._flush()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Send a close frame. Idempotent; no error if the client has disconnected."""
        with RequiredExtra("apiserver", "a WebSocket"):
            from websockets.exceptions import InvalidState

        try:
            self._protocol.send_close(code, reason)
            await self._flush()
        except (InvalidState, ConnectionLostError):
            return  # it is closed

    async def _flush(self) -> None:
        data = b"".join(self._protocol.data_to_send())
        if data:
            await self._stream.write(data)
