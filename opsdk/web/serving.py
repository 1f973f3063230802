"""Serve an ASGI application inside the running event loop.

The socket is bound first, so a busy port is an error before anything runs and port 0 is known at once. Signals stay
with the caller. Stopping has three steps: no new connections; open answers get `grace` seconds; then they are cut.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from opsdk.aio.closing import Closing
from opsdk.aio.tasks import TaskOwner
from opsdk.errors import ConfigError
from opsdk.web.types import CUT, PEER_CERTIFICATE, App, Message, Receive, Scope, Send

if TYPE_CHECKING:
    import uvicorn


_CUT = 0.2
"""Seconds that an answer which is cut gets to end in good form."""


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
    grace: float = 1.0
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
        self._server: uvicorn.Server | None = None
        self._socket: socket.socket | None = None
        self._serving: asyncio.Task[Any] | None = None
        self._tasks = TaskOwner("web")
        self._open: set[asyncio.Task[Any]] = set()

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
        self._socket = self._bind()
        self._server = _new_server(self._track, self.options)
        serving = self._tasks.start(self._server.serve(sockets=[self._socket]), name="serve")
        self._serving = serving
        while not self._server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.001)
        if serving.done():
            serving.result()

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

    async def _track(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._open.add(task)
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            # The server is stopping: end the answer where it stands.
            await _end(send)
        finally:
            self._open.discard(task)

    def drop_connections(self) -> None:
        """Cut every connection, as a server that dies; new ones are welcome."""
        for connection in tuple(self._server.server_state.connections) if self._server is not None else ():
            if connection.transport is not None:
                connection.transport.abort()

    async def aclose(self) -> None:
        """Stop: refuse new connections, wait `grace` seconds for open answers, cut the rest; idempotent."""
        if self._server is not None:
            self._server.should_exit = True
            if self._open:
                await asyncio.wait(self._open, timeout=self.options.grace)
            if self._open:
                for task in tuple(self._open):
                    task.cancel()
                await asyncio.wait(self._open, timeout=_CUT)
            # What is open now is idle: nobody waits for an answer on it.
            self._server.force_exit = True
            if self._serving is not None:
                await asyncio.wait((self._serving,))
        await self._tasks.aclose()
        if self._socket is not None:
            self._socket.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self


async def _end(send: Send) -> None:
    message: Message = {"type": "http.response.body", "body": b"", "more_body": False}
    try:
        await send(message)
    except (RuntimeError, OSError):
        # Nothing was begun, or the client is gone: there is nobody to tell.
        return


def _new_server(app: App, options: ServeOptions) -> uvicorn.Server:
    import uvicorn  # noqa: PLC0415 - tests that stay in the process never need it
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol  # noqa: PLC0415

    class Protocol(HttpToolsProtocol):
        """Shows the application the client's certificate."""

        def on_message_begin(self) -> None:
            super().on_message_begin()
            tls = self.transport.get_extra_info("ssl_object")
            der = tls.getpeercert(binary_form=True) if tls is not None else None
            extensions: dict[str, Any] = {CUT: self.transport.abort}
            if der:
                extensions[PEER_CERTIFICATE] = der
            self.scope["extensions"] = extensions

    class Server(uvicorn.Server):
        """Leaves signals to the program around it."""

        def install_signal_handlers(self) -> None:
            """Nothing: `uvicorn` before 0.29 asks here."""

        def capture_signals(self) -> Any:
            """Nothing: later versions ask here."""
            from contextlib import nullcontext  # noqa: PLC0415

            return nullcontext()

    config = uvicorn.Config(
        cast("Any", app),
        http=Protocol,
        interface="asgi3",
        proxy_headers=False,
        loop="none",
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
    )
    config.load()
    tls = options.tls
    config.ssl = tls.context() if isinstance(tls, Tls) else tls
    return Server(config)
