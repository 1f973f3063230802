"""The manager's HTTP endpoints: health, readiness, metrics, debug pages."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace

from opsdk.aio.waiting import finish
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, text_response
from opsdk.http.server.server import ServeOptions, WebServer
from opsdk.manager.address import parse_address
from opsdk.recording.boundary import listens
from opsdk.recording.calls import call_method

Endpoint = Callable[[HttpRequest], Awaitable[HttpResponse | None]]
"""Returns the response to a request, or None if the path does not match."""


class HttpServer:
    """Serves endpoints. A Runnable that runs on every replica.

    `start` binds the port and raises `ConfigError` with the address if it is taken, or if a certificate cannot be
    loaded.

    Args:
        name: for logs.
        address: ``host:port``.
        endpoints: the first response of one is sent.
        tls: makes the TLS context at the start; None for plain HTTP.
        guard: called for every request before the endpoints; if it returns a response, that is sent.
        methods: the methods that the endpoints accept; others get 405.
    """

    def __init__(
        self,
        name: str,
        address: str,
        endpoints: Sequence[Endpoint],
        *,
        tls: Callable[[], ssl.SSLContext] | None = None,
        guard: Endpoint | None = None,
        methods: Collection[str] = ("GET", "HEAD"),
    ) -> None:
        self.name = name
        self._methods = frozenset(methods)
        self.address = address
        self._endpoints = tuple(endpoints)
        self._guard = guard
        host, port = parse_address(address)
        self._make_tls = tls
        self._server = WebServer(asgi(self._handle), ServeOptions(host=host, port=port))
        self._listening = asyncio.Event()

    @property
    def port(self) -> int:
        """The TCP port, known once the server is ready."""
        return self._server.port

    def needs_leader_election(self) -> bool:
        """Return False: every replica serves its health."""
        return False

    async def start(self) -> None:
        """Serve until cancelled."""
        try:
            if listens():
                if self._make_tls is not None:
                    self._server.options = replace(self._server.options, tls=self._make_tls())
                await self._server.start()
            self._listening.set()
            await asyncio.get_running_loop().create_future()
        finally:
            # Release the port also after a cancellation during bind.
            closing = call_method(f"{self.name} server.aclose", self._server.aclose)
            await finish(closing, name=f"{self.name}/close")

    async def wait_ready(self) -> None:
        """Return when the port is open."""
        await self._listening.wait()

    async def _handle(self, request: HttpRequest) -> HttpResponse:
        if self._guard is not None and (denied := await self._guard(request)) is not None:
            return denied
        if request.method not in self._methods:
            return text_response("method not allowed", status=405)
        for endpoint in self._endpoints:
            if (response := await endpoint(request)) is not None:
                return response
        return text_response("404 page not found\n", status=404)

    def __repr__(self) -> str:
        return f"<HttpServer {self.name} at {self.address}>"
