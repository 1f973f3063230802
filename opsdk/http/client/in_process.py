"""Runs an ASGI application in this process instead of sending requests over a socket."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from typing import Protocol, TypeVar
from urllib.parse import unquote

from opsdk.aio.tasks import TaskOwner
from opsdk.errors import UsageError
from opsdk.http.asgi_types import CUT, App
from opsdk.http.body_stream import Body, BodyStream
from opsdk.http.client.in_process_exchange import AsgiExchange
from opsdk.http.client.in_process_websocket import DENIAL, AsgiWebSocketExchange
from opsdk.http.client.request import CONNECT, Check, CheckFactory, Pairs, encode_head, raw_headers, unchecked
from opsdk.structured_merge.value import JsonObject

X = TypeVar("X", bound=AsgiExchange)
_WEBSOCKET_SCHEMES = {"http": "ws", "https": "wss"}


class Origin(Protocol):
    """Scheme, host and port that the application sees."""

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
        """The TCP port."""
        ...


class AsgiBackend:
    """A `ConnectionBackend` that runs `app` once for each request, in a task with an empty context.

    Args:
        app: the ASGI application.
        endpoint: scheme, host and port of the scope.
        extensions: added to ``scope["extensions"]``, for example a client certificate.
        check_factory: returns the check that a request must pass before the application gets it.
    """

    def __init__(
        self,
        app: App,
        endpoint: Origin,
        *,
        extensions: Mapping[str, object] | None = None,
        check_factory: CheckFactory = unchecked,
    ) -> None:
        self._app = app
        self._check_factory = check_factory
        self._extensions = dict(extensions or {})
        self._endpoint = endpoint
        self._tasks = TaskOwner("asgi")
        self._open: dict[AsgiExchange, None] = {}  # in order, so that runs repeat
        self._closed = False

    async def exchange(self, method: str, target: str, headers: Pairs, body: Body) -> AsgiExchange:
        """Start the application and return when the response head has arrived. Cancellation ends the application."""
        check = self._checked(method, target, headers)
        exchange = AsgiExchange(body, self._forget, check=check)
        return await self._begin(exchange, self._scope(method, target, headers, body))

    async def connect(self, target: str, headers: Pairs) -> AsgiWebSocketExchange:
        """Start the application with a WebSocket, and return when it was accepted or refused."""
        check = self._checked(CONNECT, target, headers)
        scope = self._scope("GET", target, headers, b"")
        scope["type"] = "websocket"
        scope["scheme"] = _WEBSOCKET_SCHEMES.get(self._endpoint.scheme, self._endpoint.scheme)
        by_name = {name.lower(): value for name, value in headers}
        offered = by_name.get("sec-websocket-protocol", "")
        scope["subprotocols"] = [word.strip() for word in offered.split(",") if word.strip()]
        exchange = AsgiWebSocketExchange(self._forget, check=check)
        return await self._begin(exchange, scope, {DENIAL: {}})

    def _checked(self, method: str, target: str, headers: Pairs) -> Check | None:
        """Check that the request may be sent, and return its check."""
        if self._closed:
            raise UsageError("this transport is closed; create a new one")
        encode_head(method, target, headers, "")  # rejects the same requests as a socket
        if (check := self._check_factory(method, target)) is not None:
            check()
        return check

    def _forget(self, ended: AsgiExchange) -> None:
        self._open.pop(ended, None)

    async def _begin(self, exchange: X, scope: JsonObject, extensions: Mapping[str, object] | None = None) -> X:
        """Start the application, and return the exchange when its head has arrived."""
        self._open[exchange] = None
        scope["extensions"] = {**self._extensions, **(extensions or {}), CUT: exchange.cut}
        name = f"{scope['method']} {scope['path']}"
        coro = exchange.run(self._app, scope)
        exchange.task = contextvars.Context().run(self._tasks.start, coro, name=name)
        try:
            await exchange.head()
        except BaseException:
            await exchange.aclose()
            raise
        return exchange

    def _scope(self, method: str, target: str, headers: Pairs, body: Body) -> JsonObject:
        """Return the ASGI scope of a request."""
        path, _, query = target.partition("?")
        pairs = [*raw_headers(headers)]
        if isinstance(body, BodyStream):
            name, value = body.framing
            pairs.append((name.lower().encode(), value.encode()))
        elif body or method in {"POST", "PUT", "PATCH"}:
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
        """Do nothing: there are no connections."""

    async def aclose(self) -> None:
        """End every request. Idempotent."""
        self._closed = True
        for exchange in list(self._open):
            await exchange.aclose()
        await self._tasks.aclose()

    def __repr__(self) -> str:
        return f"<AsgiBackend: {len(self._open)} open{', closed' if self._closed else ''}>"
