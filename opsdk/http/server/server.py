"""Serve an ASGI application inside the running event loop.

The socket is bound first, so a busy port is an error before anything runs and port 0 is known at once. Signals stay
with the caller. Stopping has three steps: no new connections; open answers get `grace` seconds; then they are cut.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from opsdk.aio.closing import Closing
from opsdk.aio.tasks import TaskOwner
from opsdk.errors import ConfigError
from opsdk.http.asgi_types import App
from opsdk.http.server.request_rules import HTTP_ON_HTTPS_PORT, looks_like_http

if TYPE_CHECKING:
    from opsdk.http.server.connection import Service

_LOG = logging.getLogger("opsdk.http.server")
_CUT = 0.2
"""Seconds that an answer which is cut gets to end in good form."""
_TLS_END = 5.0
"""Seconds that a client gets to say goodbye in TLS."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 1.0
"""Seconds between attempts to accept where there are no files left; Go's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Certificates of a server.

    Attributes:
        cert_file: PEM chain of the server.
        key_file: PEM private key.
        client_ca_file: ask clients for a certificate and check it against these CAs; None never asks.
        require_client: refuse clients without a certificate; False lets them in without one.
    """

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    require_client: bool = False

    def context(self) -> ssl.SSLContext:
        """An SSL context with these files; files that cannot be read are a `ConfigError`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self.cert_file, self.key_file)
            if self.client_ca_file is not None:
                context.load_verify_locations(self.client_ca_file)
                context.verify_mode = ssl.CERT_REQUIRED if self.require_client else ssl.CERT_OPTIONAL
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"cannot load {self.cert_file} and {self.key_file}: {error}") from error
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """How to serve.

    Attributes:
        host: the address to bind.
        port: the TCP port; 0 takes a free one.
        tls: certificates, or a ready SSL context, or None for plain HTTP.
        grace: seconds that open answers get when the server stops; streams of a watch never end by themselves,
            so this is short.
        backlog: connections that may wait to be accepted.
    """

    host: str = "127.0.0.1"
    port: int = 0
    tls: Tls | ssl.SSLContext | None = None
    shutdown_timeout: float = 1.0
    backlog: int = 2048


class WebServer(Closing):
    """Serves one application; an async context manager.

    ::

        async with WebServer(app, ServeOptions(port=0)) as server:
            print(server.url)
    """

    def __init__(self, app: App, options: ServeOptions | None = None) -> None:
        self.options = options or ServeOptions()
        self._app = app
        self._service: Service | None = None
        self._socket: socket.socket | None = None
        self._tasks = TaskOwner("web", on_error=_log_failure)
        self._accepting: asyncio.Task[object] | None = None

    @property
    def port(self) -> int:
        """The port it listens on; meaningful after `start`."""
        return int(self._socket.getsockname()[1]) if self._socket is not None else self.options.port

    @property
    def url(self) -> str:
        """Where clients reach it."""
        host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
        return f"{'https' if self.options.tls else 'http'}://{host}:{self.port}"

    async def start(self) -> None:
        """Bind and serve; a port that is taken is a `ConfigError`."""
        from opsdk.http.server.connection import Service  # noqa: PLC0415 - tests that stay in the process never need it

        tls = self.options.tls
        context = tls.context() if isinstance(tls, Tls) else tls
        listening = self._bind()
        self._socket, self._service = listening, Service(self._app)
        self._accepting = self._tasks.start(self._accept(listening, self._service, context), name="accept")

    def _bind(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.options.host else socket.AF_INET
        # asyncio turns Nagle's algorithm off only where the protocol is named; with it each answer waits 40 ms.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((self.options.host, self.options.port))
            listening.listen(self.options.backlog)
        except OSError as error:
            listening.close()
            where = f"{self.options.host}:{self.options.port}"
            raise ConfigError(f"cannot listen on {where}: {error}; choose another address or port 0") from error
        listening.setblocking(False)
        return listening

    async def _accept(self, listening: socket.socket, service: Service, tls: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        pause = 0.0
        while True:
            try:
                client, _ = await loop.sock_accept(listening)
            except OSError as error:
                # Too many files, or a client that has gone again: as Go does, try again a little later.
                pause = min(max(pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
                _LOG.warning("cannot accept a connection: %s; trying again in %.3f s", error, pause)
                await asyncio.sleep(pause)
                continue
            pause = 0.0
            self._tasks.start(self._connect(client, service, tls), name="connect")

    async def _connect(self, found: socket.socket, service: Service, tls: ssl.SSLContext | None) -> None:
        from opsdk.http.server.connection import HEAD_TIMEOUT, ServerConnection  # noqa: PLC0415 - see `start`

        loop = asyncio.get_running_loop()
        found.setblocking(False)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        handed_over = False
        try:
            if tls is not None and not await _greeted(found, HEAD_TIMEOUT):
                return
            times = {} if tls is None else {"ssl_handshake_timeout": HEAD_TIMEOUT, "ssl_shutdown_timeout": _TLS_END}
            handed_over = True
            await loop.connect_accepted_socket(lambda: ServerConnection(service), found, ssl=tls, **times)
        except (OSError, TimeoutError) as error:
            # Handshakes fail for many reasons, all of them the client's.
            _LOG.debug("a connection ended before its first request: %s", error)
        finally:
            if not handed_over:
                found.close()

    def drop_connections(self) -> None:
        """Cut every connection, as a server that dies; new ones are welcome."""
        for connection in tuple(self._service.connections) if self._service is not None else ():
            connection.abort()

    async def aclose(self) -> None:
        """Stop: refuse new connections, wait `grace` seconds for open answers, cut the rest; idempotent."""
        if self._accepting is not None:
            self._accepting.cancel()
        if self._socket is not None:
            self._socket.close()
        if self._service is not None:
            await self._drain(self._service)
        await self._tasks.aclose()

    async def _drain(self, service: Service) -> None:
        service.draining = True
        for connection in tuple(service.connections):
            connection.stop()
        if service.tasks:
            await asyncio.wait(service.tasks, timeout=self.options.shutdown_timeout)
        for task in tuple(service.tasks):
            task.cancel()
        if service.tasks:
            await asyncio.wait(service.tasks, timeout=_CUT)
        # What has been answered gets the time to leave.
        await service.wait_empty(_CUT)
        self.drop_connections()

    async def __aenter__(self) -> Self:
        await self.start()
        return self


def _log_failure(name: str, error: BaseException) -> None:
    _LOG.error("%s failed", name, exc_info=error)


async def _greeted(found: socket.socket, seconds: float) -> bool:
    """Whether a client begins to speak TLS; one that speaks HTTP is told so."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(found, ready.set)
    try:
        async with asyncio.timeout(seconds):
            await ready.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(found)
    first = found.recv(5, socket.MSG_PEEK)
    if not looks_like_http(first):
        return bool(first)
    await loop.sock_sendall(found, HTTP_ON_HTTPS_PORT)
    found.shutdown(socket.SHUT_WR)
    # What the client goes on to say is taken in: else it would never see the answer.
    try:
        async with asyncio.timeout(_CUT):
            while await loop.sock_recv(found, 65536):
                pass
    except TimeoutError:
        pass
    return False
