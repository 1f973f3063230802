"""Serves an ASGI application inside the running event loop.

`start` binds the socket first, so a busy port raises before anything runs, and port 0 is resolved at once. Signals stay
with the caller. Stopping has three steps: no new connections; responses finish within `shutdown_timeout`; abort.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from opsdk.aio.closing import Closing
from opsdk.aio.tasks import TaskOwner
from opsdk.base.limits import LIMITS, Limits
from opsdk.errors import ConfigError
from opsdk.http.asgi_types import App
from opsdk.http.server.listening import listen
from opsdk.http.server.request_rules import HTTP_ON_HTTPS_PORT, looks_like_http
from opsdk.http.server.service import Service
from opsdk.http.server.serving_certificate import trust_clients
from opsdk.http.tls_session import TlsSession
from opsdk.http.tls_transport import connect_tls

_LOG = logging.getLogger("opsdk.http.server")
_CANCEL_GRACE = 0.2
"""Seconds for a cancelled response to end."""
_WARNING_SECONDS = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 1.0
"""Seconds between attempts to accept when file descriptors run out (net/http, Server.Serve)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Certificates of a server.

    Attributes:
        cert_file: PEM certificate chain.
        key_file: PEM private key.
        client_ca_file: request a client certificate and verify it with these CAs; None never requests one.
        require_client: reject clients without a certificate.
    """

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    require_client: bool = False

    def context(self) -> ssl.SSLContext:
        """Return an SSL context with these files. Raises `ConfigError` if one cannot be loaded."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self.cert_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"cannot load {self.cert_file} and {self.key_file}: {error}") from error
        if self.client_ca_file is not None:
            trust_clients(context, self.client_ca_file, required=self.require_client)
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Options of a `WebServer`.

    Attributes:
        host: the address to bind; empty for all interfaces, with IPv6 and IPv4.
        port: the TCP port; 0 selects a free one.
        tls: certificates, or an SSL context, or None for plain HTTP.
        shutdown_timeout: seconds for open responses to finish at stop. Short, because watches never end by themselves.
        backlog: length of the accept queue.
        limits: sizes, times, and the number of connections.
    """

    host: str = "127.0.0.1"
    port: int = 0
    tls: Tls | ssl.SSLContext | None = None
    shutdown_timeout: float = 1.0
    backlog: int = 2048
    limits: Limits = LIMITS


class WebServer(Closing):
    """Serves one application, until it is closed for good. An async context manager.

    ::

        async with WebServer(app, ServeOptions(port=0)) as server:
            print(server.url)

    Attributes:
        options: see `ServeOptions`. Its `tls` may change before `start`.
        service: the open connections and the running requests.
    """

    def __init__(self, app: App, options: ServeOptions | None = None) -> None:
        self.options: ServeOptions = options or ServeOptions()
        self.service: Service = Service(app, self.options.limits)
        self._socket: socket.socket | None = None
        self._port = 0
        self._tasks = TaskOwner("web", on_error=lambda name, error: _LOG.error("%s failed", name, exc_info=error))
        self._accept_task: asyncio.Task[object] | None = None
        self._handshakes = 0
        self._next_warning = 0.0

    @property
    def port(self) -> int:
        """The TCP port, known after `start`."""
        return self._port or self.options.port

    @property
    def url(self) -> str:
        """The URL of the server."""
        host = self.options.host or "localhost"
        host = f"[{host}]" if ":" in host else host
        return f"{'https' if self.options.tls else 'http'}://{host}:{self.port}"

    async def start(self) -> None:
        """Bind and serve. Raises `ConfigError` if the port is taken or a certificate cannot be loaded."""
        tls = self.options.tls
        context = tls.context() if isinstance(tls, Tls) else tls
        listening = listen(self.options.host, self.options.port, self.options.backlog)
        self._socket = listening
        # Known after the stop too: logs and errors name it.
        self._port = int(listening.getsockname()[1])
        self._accept_task = self._tasks.start(self._accept(listening, context), name="accept")

    async def _accept(self, listening: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Accept connections until cancelled. Those above the limit are closed."""
        loop, service = asyncio.get_running_loop(), self.service
        pause = 0.0
        while True:
            try:
                client, _ = await loop.sock_accept(listening)
            except OSError as error:
                # Out of file descriptors, or the client has gone: retry after a pause, as Server.Serve does.
                pause = min(max(pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
                _LOG.warning("cannot accept a connection: %s; retrying in %.3f s", error, pause)
                await asyncio.sleep(pause)
                continue
            pause = 0.0
            if len(service.connections) + self._handshakes >= service.limits.connections:
                client.close()
                self._warn_full()
                continue
            self._handshakes += 1
            self._tasks.start(self._start_connection(client, tls), name="connect")

    async def _start_connection(self, client: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Start TLS if needed, and give the socket to a connection."""
        from opsdk.http.server.connection import ServerConnection  # noqa: PLC0415 - start-up time: in-process tests never need it

        loop, service = asyncio.get_running_loop(), self.service
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        handed_over = False
        try:
            if tls is not None and not await _starts_tls(client, service.limits.head_seconds):
                return
            handed_over = True
            if tls is None:
                await loop.connect_accepted_socket(lambda: ServerConnection(service), client)
            else:
                session = TlsSession(tls, server_side=True)
                seconds = service.limits.head_seconds
                await connect_tls(client, ServerConnection(service), session, handshake_timeout=seconds)
        except (OSError, TimeoutError) as error:
            # A failed handshake is the client's problem.
            _LOG.debug("a connection ended before its first request: %s", error)
        finally:
            self._handshakes -= 1
            if not handed_over:
                client.close()

    def _warn_full(self) -> None:
        """Log once a minute that connections are closed at once."""
        now = asyncio.get_running_loop().time()
        if now >= self._next_warning:
            self._next_warning = now + _WARNING_SECONDS
            _LOG.warning("%s has %d connections: new ones are closed", self.url, self.service.limits.connections)

    def drop_connections(self) -> None:
        """Abort every connection, and keep accepting new ones. For tests."""
        for connection in tuple(self.service.connections):
            connection.abort()

    async def aclose(self) -> None:
        """Stop accepting, let responses finish within `shutdown_timeout`, then abort them. Idempotent."""
        if self._accept_task is not None:
            self._accept_task.cancel()
        if self._socket is not None:
            self._socket.close()
        service = self.service
        for connection in tuple(service.connections):
            connection.stop()
        service.drain()
        if service.tasks:
            await asyncio.wait(service.tasks, timeout=self.options.shutdown_timeout)
        for task in tuple(service.tasks):
            task.cancel()
        if service.tasks:
            await asyncio.wait(service.tasks, timeout=_CANCEL_GRACE)
        # Let the last responses leave the write buffers.
        await service.wait_empty(_CANCEL_GRACE)
        self.drop_connections()
        await self._tasks.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self


async def _starts_tls(client: socket.socket, seconds: float) -> bool:
    """Whether the client starts a TLS handshake. A client that sends plain HTTP gets an error response."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(client, ready.set)
    try:
        async with asyncio.timeout(seconds):
            await ready.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(client)
    first = client.recv(5, socket.MSG_PEEK)
    if not looks_like_http(first):
        return bool(first)
    await loop.sock_sendall(client, HTTP_ON_HTTPS_PORT)
    client.shutdown(socket.SHUT_WR)
    # Read what the client still sends: otherwise a reset hides the response.
    try:
        async with asyncio.timeout(_CANCEL_GRACE):
            while await loop.sock_recv(client, 65536):
                pass
    except TimeoutError:
        pass
    return False
