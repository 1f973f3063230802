"""An ASGI application as the server: requests are answered in this process, without sockets."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Protocol
from urllib.parse import unquote

from opsdk.aio.tasks import TaskOwner
from opsdk.errors import ConnectionLostError, UsageError
from opsdk.http.client.request import Pairs, encode_request
from opsdk.structured_merge.value import JsonObject

Message = MutableMapping[str, Any]
App = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]

_log = logging.getLogger("opsdk.http.client")
# As the application knows it: a function in the extensions of the scope that ends the connection.
_CUT = "opsdk.cut"
# The application's `send` waits while this many bytes are unread.
_HIGH_WATER = 1 << 20
# Turns of the loop that an application gets to see ``http.disconnect`` before it is cancelled.
_FAREWELL_TURNS = 3


class Origin(Protocol):
    """Where the application pretends to be."""

    @property
    def scheme(self) -> str:
        """``http`` or ``https``."""
        ...

    @property
    def host(self) -> str:
        """A name or an address."""
        ...

    @property
    def port(self) -> int:
        """The port."""
        ...


class AsgiBackend:
    """Runs `app` once per request, each in a task of its own with an empty context, as a real server would.

    Args:
        extensions: what the application finds in ``scope["extensions"]``, e.g. a certificate of the client.
    """

    def __init__(self, app: App, endpoint: Origin, *, extensions: Mapping[str, Any] | None = None) -> None:
        self._app = app
        self._extensions = dict(extensions or {})
        self._endpoint = endpoint
        self._tasks = TaskOwner("asgi")
        self._open: set[AsgiExchange] = set()
        self._closed = False

    async def exchange(self, method: str, target: str, headers: Pairs, body: bytes) -> AsgiExchange:
        """Start the application, and wait for the head of its answer; cancelled, the application is ended."""
        if self._closed:
            raise UsageError("this transport is closed; make a new one")
        encode_request(method, target, headers, b"")  # the same bytes are refused as on a socket
        exchange = AsgiExchange(body, self._open.discard)
        self._open.add(exchange)
        scope = self._scope(method, target, headers, body)
        scope["extensions"] = {**self._extensions, _CUT: exchange.cut}
        coro = exchange.run(self._app, scope)
        exchange.task = contextvars.Context().run(self._tasks.start, coro, name=f"{method} {target}")
        try:
            await exchange.head()
        except BaseException:
            await exchange.aclose()
            raise
        return exchange

    def _scope(self, method: str, target: str, headers: Pairs, body: bytes) -> JsonObject:
        path, _, query = target.partition("?")
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers]
        if body or method in {"POST", "PUT", "PATCH"}:
            pairs.append((b"content-length", str(len(body)).encode()))
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": self._endpoint.scheme,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": pairs,
            "server": (self._endpoint.host, self._endpoint.port),
            "client": ("127.0.0.1", 0),
        }

    def drain(self) -> None:
        """There are no connections."""

    async def aclose(self) -> None:
        """End every request; idempotent."""
        self._closed = True
        for exchange in list(self._open):
            await exchange.aclose()
        await self._tasks.aclose()

    def __repr__(self) -> str:
        return f"<AsgiBackend: {len(self._open)} open{', closed' if self._closed else ''}>"


class AsgiExchange:
    """One request inside the application."""

    def __init__(self, body: bytes, on_close: Callable[[AsgiExchange], None]) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.task: asyncio.Task[object] | None = None
        self._request_body: bytes | None = body
        self._on_close = on_close
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._whole = False
        self._failed: BaseException | None = None
        self._disconnected = asyncio.Event()
        self._changed = asyncio.Event()
        self._drained = asyncio.Event()

    # -- the application's side
    async def run(self, app: App, scope: JsonObject) -> None:
        """Call the application; a failure of it is the server's failure, not this task's."""
        try:
            await app(scope, self._receive, self._send)
            if not self._whole:
                self._fail(RuntimeError("the application returned before its answer was whole"))
        except asyncio.CancelledError:
            self._failed = self._failed or EOFError("the application was cancelled")
            raise
        except Exception as error:  # noqa: BLE001 - it is logged, and answered with 500 or a cut
            if not self._disconnected.is_set():
                _log.exception("the ASGI application failed on %s %s", scope["method"], scope["path"])
            self._fail(error)
        finally:
            self._changed.set()

    def cut(self) -> None:
        """The application ends the connection, whatever of its answer is under way."""
        self._failed = EOFError("the server closed the connection")
        self._disconnected.set()
        self._drained.set()
        self._changed.set()

    def _fail(self, error: BaseException) -> None:
        if self._whole or self._failed is not None:
            return
        if not self.status:
            # What any server makes of an application that fails before it answers.
            self.status, self.headers = 500, {"content-type": "text/plain; charset=utf-8"}
            self._chunks.append(b"Internal Server Error")
            self._whole = True
        else:
            self._failed = error

    async def _receive(self) -> Message:
        if self._request_body is not None and not self._disconnected.is_set():
            body, self._request_body = self._request_body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self._disconnected.is_set():
            return
        if message["type"] == "http.response.start":
            self._start(message)
            return
        if message["type"] != "http.response.body" or self._whole or not self.status:
            raise RuntimeError(f"{message['type']} is out of order")
        if body := bytes(message.get("body", b"")):
            self._chunks.append(body)
            self._buffered += len(body)
        self._whole = not message.get("more_body", False)
        self._changed.set()
        while self._buffered > _HIGH_WATER and not self._disconnected.is_set():
            self._drained.clear()
            await self._drained.wait()

    def _start(self, message: Message) -> None:
        if self.status:
            raise RuntimeError("http.response.start was sent twice")
        for name, value in message.get("headers", ()):
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text
        self.status = message["status"]
        self._changed.set()

    # -- the client's side
    async def head(self) -> None:
        """Wait for status and headers."""
        while not self.status:
            await self._more()

    async def read(self) -> bytes:
        """See `opsdk.http.client.connection.ServerExchange`."""
        while not self._chunks:
            if self._whole:
                return b""
            await self._more()
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._buffered = 0
        self._drained.set()
        return data

    async def _more(self) -> None:
        if self._failed is not None:
            raise ConnectionLostError(f"the application ended in the middle: {self._failed!r}") from self._failed
        self._changed.clear()
        await self._changed.wait()

    async def aclose(self) -> None:
        """Tell the application that the client is gone, then cancel it, and wait until it has ended."""
        self._on_close(self)
        self._disconnected.set()
        self._drained.set()
        task = self.task
        if task is None or task.done() or self._whole:
            # After a whole answer the application may go on as long as it likes, as on a real server.
            return
        try:
            for _ in range(_FAREWELL_TURNS):
                await asyncio.sleep(0)
                if task.done():
                    return
        finally:
            task.cancel()
            await asyncio.wait({task})

    def __repr__(self) -> str:
        return f"<AsgiExchange {self.status or 'no head yet'}{', whole' if self._whole else ''}>"
