"""The manager's HTTP endpoints: health, readiness, metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from opsdk.aio.waiting import finish
from opsdk.errors import ConfigError, UsageError
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, text_response
from opsdk.http.server.server import ServeOptions, WebServer

Endpoint = Callable[[HttpRequest], Awaitable[HttpResponse | None]]
"""Returns the response to a request, or None if the path does not match."""


class HttpServer:
    """Serves endpoints. A Runnable that runs on every replica.

    `start` binds the port and raises `ConfigError` with the address if it is taken.
    """

    def __init__(self, name: str, address: str, endpoints: Sequence[Endpoint]) -> None:
        self.name = name
        self.address = address
        self._endpoints = tuple(endpoints)
        host, port = parse_address(address)
        self._server = WebServer(asgi(self._answer), ServeOptions(host=host, port=port))
        self._bound = asyncio.Event()

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
            await self._server.start()
            self._bound.set()
            await asyncio.get_running_loop().create_future()
        finally:
            # Also after a cancellation during bind: the port must be released.
            await finish(self._server.aclose(), name=f"{self.name}/close")

    async def wait_ready(self) -> None:
        """Return when the port is open."""
        await self._bound.wait()

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        if request.method not in ("GET", "HEAD"):
            return text_response("method not allowed", status=405)
        for endpoint in self._endpoints:
            if (response := await endpoint(request)) is not None:
                return response
        return text_response("404 page not found\n", status=404)

    def __repr__(self) -> str:
        return f"<HttpServer {self.name} at {self.address}>"


def is_enabled(address: str) -> bool:
    """Whether an address enables a server: empty and ``"0"`` disable it."""
    return address not in ("", "0")


def parse_address(address: str) -> tuple[str, int]:
    """Return host and port of ``host:port`` or ``:port`` (all interfaces). Raises `ConfigError` or `UsageError`.

    >>> parse_address(":8080"), parse_address("[::1]:0")
    (('0.0.0.0', 8080), ('::1', 0))
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"{address!r} is not an address: write host:port, or :port for all interfaces")
    if host.startswith("[") != host.endswith("]"):
        raise UsageError(f"{address!r}: write an IPv6 host in brackets")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - what ":port" means
