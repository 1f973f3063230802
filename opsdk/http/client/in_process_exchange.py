"""One request to an ASGI application in this process."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from opsdk.aio.containment import contain
from opsdk.errors import ConnectionLostError
from opsdk.http.asgi_types import App, Message
from opsdk.http.body_stream import Body, BodyStream
from opsdk.http.client.request import Check
from opsdk.http.server.upgrade import SENDS_AT_ONCE
from opsdk.structured_merge.value import JsonObject

_log = logging.getLogger("opsdk.http.client")
# The application's `send` waits while more bytes than this are unread.
_HIGH_WATER = 1 << 20
# Event loop iterations for the application to handle ``http.disconnect`` before its task is cancelled.
_DISCONNECT_TURNS = 3


class AsgiExchange:
    """One request inside the application."""

    def __init__(self, body: Body, on_close: Callable[[AsgiExchange], object], *, check: Check | None = None) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.task: asyncio.Task[object] | None = None
        self._request_body: bytes | None = None
        self._request_chunks: AsyncGenerator[bytes, None] | None = None
        if isinstance(body, BodyStream):
            self._request_chunks = aiter(body)
        else:
            self._request_body = body
        self._check = check
        self._body_error: Exception | None = None
        self._on_close = on_close
        self._chunks: deque[bytes] = deque()
        self._buffered = self._sends = 0
        self._complete = False
        self._failed: BaseException | None = None
        self._disconnected = asyncio.Event()
        self._changed = asyncio.Event()
        self._drained = asyncio.Event()

    # -- application side
    async def run(self, app: App, scope: JsonObject) -> None:
        """Call the application. Its exceptions become an error response or a broken connection."""
        try:
            await app(scope, self._receive, self._send)
            if not self._complete:
                self._fail(RuntimeError("the application returned before its response was complete"))
        except asyncio.CancelledError:
            self._failed = self._failed or EOFError("the application was cancelled")
            raise
        except BaseException as error:  # noqa: BLE001 - logged, and turned into 500 or a broken connection
            contain(error, task=asyncio.current_task())
            if not self._disconnected.is_set():
                _log.exception("the ASGI application failed on %s %s", scope["method"], scope["path"])
            self._fail(error)
        finally:
            self._changed.set()

    def cut(self) -> None:
        """Close the connection from the application's side."""
        self._failed = EOFError("the server closed the connection")
        self._disconnected.set()
        self._drained.set()
        self._changed.set()

    def _fail(self, error: BaseException) -> None:
        if self._complete or self._failed is not None or self._body_error is not None:
            return
        if not self.status:
            # As an HTTP server responds when the application fails before it sends a head.
            self.status, self.headers = 500, {"content-type": "text/plain; charset=utf-8"}
            self._chunks.append(b"Internal Server Error")
            self._complete = True
        else:
            self._failed = error

    async def _receive(self) -> Message:
        if self._request_body is not None and not self._disconnected.is_set():
            body, self._request_body = self._request_body, None
            return {"type": "http.request", "body": body, "more_body": False}
        if self._request_chunks is not None and not self._disconnected.is_set():
            return await self._receive_chunk(self._request_chunks)
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def _receive_chunk(self, chunks: AsyncGenerator[bytes, None]) -> Message:
        """Return the next chunk of the request's body. An exception of it ends the request, as a lost client does."""
        try:
            chunk = await anext(chunks, b"")
            if self._check is not None:
                self._check()
        except Exception as error:  # noqa: BLE001 - the caller of the exchange gets it
            self._body_error, self._request_chunks = error, None
            self._disconnected.set()
            self._changed.set()
            return {"type": "http.disconnect"}
        if not chunk:
            self._request_chunks = None
        return {"type": "http.request", "body": chunk, "more_body": bool(chunk)}

    async def _send(self, message: Message) -> None:
        """Take a message of the application. It waits while the reader is slow, as `ServerExchange.send` does.

        Raises:
            ConnectionLostError: the client has left.
        """
        if self._disconnected.is_set():
            raise ConnectionLostError("the client has left, so nothing more can be sent")
        if message["type"] == "http.response.start":
            if self.status:
                raise RuntimeError("http.response.start was sent twice")
            for name, value in message.get("headers", ()):
                key, text = name.decode("latin-1").lower(), value.decode("latin-1")
                self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text
            self.status = message["status"]
            self._changed.set()
            return
        if message["type"] != "http.response.body" or self._complete or not self.status:
            raise RuntimeError(f"the application sent {message['type']} at the wrong time")
        if body := bytes(message.get("body", b"")):
            self._chunks.append(body)
            self._buffered += len(body)
        self._complete = not message.get("more_body", False)
        self._changed.set()
        while self._buffered > _HIGH_WATER and not self._disconnected.is_set():
            self._drained.clear()
            await self._drained.wait()
        self._sends += 1
        if self._sends % SENDS_AT_ONCE == 0:
            await asyncio.sleep(0)

    # -- client side
    async def head(self) -> None:
        """Wait for status and headers."""
        while not self.status:
            await self._wait_for_change()

    async def read(self) -> bytes:
        while not self._chunks:
            if self._complete:
                return b""
            await self._wait_for_change()
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._buffered = 0
        self._drained.set()
        return data

    async def _wait_for_change(self) -> None:
        if self._body_error is not None:
            raise self._body_error
        if self._failed is not None:
            raise ConnectionLostError(f"the application ended during the response: {self._failed!r}") from self._failed
        self._changed.clear()
        await self._changed.wait()

    async def aclose(self) -> None:
        """Send ``http.disconnect`` to the application, then cancel it, and wait until it has ended."""
        self._on_close(self)
        self._disconnected.set()
        self._drained.set()
        task = self.task
        if task is None or task.done() or self._complete:
            # After a complete response the application may continue, as on an HTTP server.
            await self._close_request()
            return
        try:
            for _ in range(_DISCONNECT_TURNS):
                await asyncio.sleep(0)
                if task.done():
                    break
        finally:
            task.cancel()
            await asyncio.wait({task})
            await self._close_request()

    async def _close_request(self) -> None:
        chunks, self._request_chunks = self._request_chunks, None
        if chunks is not None:
            with suppress(RuntimeError):  # the application waits for the next chunk, and is cancelled
                await chunks.aclose()

    def __repr__(self) -> str:
        return f"<AsgiExchange {self.status or 'no head yet'}{', complete' if self._complete else ''}>"
