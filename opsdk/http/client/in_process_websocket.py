"""A WebSocket to an ASGI application in this process: whole messages, no frames.

Upstream: https://asgi.readthedocs.io/en/latest/specs/www.html (WebSocket, and the extension websocket.http.response)
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from opsdk.errors import ConnectionLostError
from opsdk.http.asgi_types import App, Message
from opsdk.http.client.in_process_exchange import AsgiExchange
from opsdk.http.client.request import NORMAL_CLOSES, Check, closed_with
from opsdk.structured_merge.value import JsonObject

DENIAL: Final = "websocket.http.response"
"""The extension by which an application refuses a WebSocket with a response."""
# `send` waits while more bytes than this were not received.
_HIGH_WATER = 256 * 1024


class AsgiWebSocketExchange(AsgiExchange):
    """A `MessageStream` inside the application."""

    def __init__(self, on_close: Callable[[AsgiExchange], object], *, check: Check | None = None) -> None:
        super().__init__(b"", on_close, check=check)
        self._outgoing: deque[bytes] = deque()
        self._unreceived = 0
        self._arrived = asyncio.Event()
        self._received = asyncio.Event()
        self._connected = False
        self._ended = False

    # -- application side
    async def run(self, app: App, scope: JsonObject) -> None:
        try:
            await super().run(app, scope)
        finally:
            self._ended = True
            self._received.set()

    def cut(self) -> None:
        super().cut()
        self._arrived.set()
        self._received.set()

    async def _receive(self) -> Message:
        if not self._connected:
            self._connected = True
            return {"type": "websocket.connect"}
        while not self._outgoing:
            if self._disconnected.is_set():
                return {"type": "websocket.disconnect", "code": 1006}
            self._arrived.clear()
            await self._arrived.wait()
        message = self._outgoing.popleft()
        self._unreceived -= len(message)
        self._received.set()
        return {"type": "websocket.receive", "bytes": message}

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "websocket.accept":
            protocol = (message.get("subprotocol") or "").encode()
            headers = [*message.get("headers", ()), *([(b"sec-websocket-protocol", protocol)] if protocol else [])]
            await super()._send({"type": "http.response.start", "status": 101, "headers": headers})
        elif kind == "websocket.send":
            text: str | None = message.get("text")
            body = text.encode() if text is not None else message.get("bytes") or b""
            await super()._send({"type": "http.response.body", "body": body, "more_body": True})
        elif kind == "websocket.close":
            await self._close(message)
        else:
            await super()._send({**message, "type": kind.removeprefix("websocket.")})

    async def _close(self, message: Message) -> None:
        """End the messages, or refuse the WebSocket."""
        if not self.status:
            await super()._send({"type": "http.response.start", "status": 403, "headers": []})
        elif (code := message.get("code", 1000)) not in NORMAL_CLOSES:
            self._fail(EOFError(closed_with(code, message.get("reason") or "")))
            self._changed.set()
            return
        await super()._send({"type": "http.response.body"})

    # -- client side
    async def read(self) -> bytes:
        """Return the next message, or empty bytes at the end. Raises `ConnectionLostError`."""
        while not self._chunks:
            if self._complete:
                return b""
            await self._wait_for_change()
        message = self._chunks.popleft()
        self._buffered -= len(message)
        self._drained.set()
        return message

    async def send(self, message: bytes) -> None:
        """Send a message, and wait while the application does not receive. Raises `ConnectionLostError`."""
        if self._check is not None:
            self._check()
        self._outgoing.append(message)
        self._unreceived += len(message)
        self._arrived.set()
        while not (self._ended or self._complete or self._disconnected.is_set()):
            if self._unreceived <= _HIGH_WATER:
                return
            self._received.clear()
            await self._received.wait()
        raise ConnectionLostError("the WebSocket is closed")

    def abort(self) -> None:
        """Close the connection at once. Idempotent."""
        self.cut()

    async def aclose(self) -> None:
        self._disconnected.set()
        self._arrived.set()
        self._received.set()
        await super().aclose()

    def __repr__(self) -> str:
        return f"<AsgiWebSocketExchange {self.status or 'no head yet'}{', complete' if self._complete else ''}>"
