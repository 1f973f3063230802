"""Forwards a port of this machine to a port of a Pod, over WebSockets to the API server.

Each local connection has a WebSocket of its own. Channel 0 carries the bytes, channel 1 the error of the Pod's side;
each begins with the port number.

Upstream: k8s.io/kubelet/pkg/cri/streaming/portforward/websocket.go (v1.36)
Deviates: kubectl tunnels SPDY through a WebSocket, so that one connection carries many; this subprotocol needs no SPDY.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import Iterator
from typing import Self

from opsdk.aio.closing import Closing
from opsdk.aio.tasks import TaskOwner
from opsdk.base.extras import RequiredExtra
from opsdk.errors import ConnectError, ConnectionLostError, OpsdkError, TransportError, UsageError
from opsdk.http.client.request import merge_headers
from opsdk.http.client.upgrade import UpgradeConnection, UpgradedExchange, upgrade
from opsdk.rest.config import RestConfig
from opsdk.rest.credentials import credentials_for
from opsdk.rest.dial import Dialer
from opsdk.rest.proxy import proxy_for
from opsdk.rest.request import RestRequest, resource_path
from opsdk.rest.response import RestResponse, raise_for_status
from opsdk.rest.tls import TlsContexts
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

_PROTOCOL = "v4.channel.k8s.io"
_ACCEPT_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
# The channels of the first port.
_DATA, _ERROR = 0, 1
# Bytes of one message. The server refuses longer ones.
_PIECE = 32 * 1024
_MAX_MESSAGE = 4 << 20
# Bytes of the body of a refused upgrade.
_MAX_REFUSAL = 64 * 1024
# Seconds for the server to accept a WebSocket.
_OPEN_TIMEOUT = 30.0


class PortForward(Closing):
    """A local port that leads to a port of a Pod, from `start` to `aclose`.

    ::

        async with PortForward(config, namespace="default", pod="site-0", port=6060) as forward:
            ...  # connect to forward.url

    Args:
        config: address and credentials of the API server.
        namespace: of the Pod.
        pod: its name.
        port: the port in the Pod. A server there sees a connection of its own host.

    Attributes:
        last_error: why the last connection to the Pod failed; None after one that succeeded.
    """

    def __init__(self, config: RestConfig, *, namespace: str, pod: str, port: int) -> None:
        if config.app is not None:
            raise UsageError("a port-forward needs an API server with a network address")
        self._request = RestRequest(
            "GET",
            resource_path("", "v1", "pods", namespace, pod, "portforward"),
            query=[("ports", str(port))],
            verb="create",
            resource="pods",
            subresource="portforward",
            namespace=namespace,
            name=pod,
            version="v1",
        )
        self._config = config
        self._endpoint = config.endpoint
        self._credentials = credentials_for(config)
        self._generation = 0
        self._tls = TlsContexts(config, on_change=lambda: None)
        self._dialer = Dialer(
            self._endpoint, self._tls, proxy=proxy_for(self._endpoint, proxy_url=config.proxy_url, env=os.environ)
        )
        self._tasks = TaskOwner(f"port-forward {namespace}/{pod}", on_error=self._on_task_error)
        self._server: asyncio.Server | None = None
        self._port = 0
        self.last_error: OpsdkError | None = None

    @property
    def url(self) -> str:
        """The address on this machine."""
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Open the local port, and check with one WebSocket that the Pod can be reached.

        Raises:
            ApiError: the server refuses the port-forward, for example because the Pod does not exist.
            TransportError: the server cannot be reached.
        """
        await (await self._open()).aclose()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]

    async def aclose(self) -> None:
        """Close the port and its connections. Idempotent."""
        if self._server is not None:
            self._server.close()
        await self._tasks.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    # -------------------------------------------------------------- connections
    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.start(self._serve(reader, writer), name="connection")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one local connection. It is closed when the Pod closes its own, or cannot be reached."""
        try:
            socket = await self._open()
        except OpsdkError as error:
            self.last_error = error
            log.debug("%r: %s", self, error)
            writer.close()
            return
        self.last_error = None
        sending = asyncio.ensure_future(_send_all(reader, socket))
        receiving = asyncio.ensure_future(self._receive_all(socket, writer))
        try:
            await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            receiving.cancel()
            await asyncio.gather(sending, receiving, return_exceptions=True)
            await socket.aclose()
            writer.close()

    async def _receive_all(self, socket: _ChannelSocket, writer: asyncio.StreamWriter) -> None:
        """Pass what the Pod sends to the local connection."""
        begun: set[int] = set()
        while (message := await socket.receive()) is not None:
            channel, data = message[:1], message[1:]
            if channel not in (b"\x00", b"\x01"):
                continue
            if channel[0] not in begun:
                begun.add(channel[0])
                data = data[2:]  # the port number
            if channel[0] == _ERROR and data:
                self.last_error = ConnectError(data.decode(errors="replace").strip())
                return
            if channel[0] == _DATA and data:
                writer.write(data)
                await writer.drain()

    async def _open(self) -> _ChannelSocket:
        """Return a new WebSocket to the port of the Pod. Raises what `start` raises."""
        key = base64.b64encode(os.urandom(16)).decode()
        try:
            async with asyncio.timeout(_OPEN_TIMEOUT):
                exchange = await self._upgrade(key)
                if exchange.status == 401 and self._credentials.invalidate(self._generation):
                    exchange.abort()
                    exchange = await self._upgrade(key)
                return await _accepted(exchange, key, self._request)
        except TimeoutError as error:
            raise ConnectError(f"{self!r}: no answer within {_OPEN_TIMEOUT:g} s") from error

    async def _upgrade(self, key: str) -> UpgradedExchange:
        """Send the upgrade request with fresh credentials, and return the response."""
        credentials = await self._credentials.headers()
        self._generation = self._credentials.generation
        self._tls.use(self._credentials.client_cert)
        self._tls.refresh()
        headers = merge_headers(
            (
                ("Host", self._endpoint.authority),
                ("User-Agent", self._config.user_agent),
                *self._config.impersonate.headers(),
                *self._dialer.extra_headers,
            ),
            tuple(credentials.items()),
            (
                ("Connection", "Upgrade"),
                ("Upgrade", "websocket"),
                ("Sec-WebSocket-Version", "13"),
                ("Sec-WebSocket-Key", key),
                ("Sec-WebSocket-Protocol", _PROTOCOL),
            ),
        )
        prefix = str(self._endpoint) if self._dialer.absolute_targets else self._endpoint.base_path
        return await upgrade(
            lambda: self._dialer.dial_as(UpgradeConnection), "GET", prefix + self._request.target, headers
        )

    def _on_task_error(self, name: str, error: BaseException) -> None:
        log.debug("%r: %s ended: %r", self, name, error)

    def __repr__(self) -> str:
        return f"<PortForward {self._request.namespace}/{self._request.name} at port {self._port}>"


async def _send_all(reader: asyncio.StreamReader, socket: _ChannelSocket) -> None:
    """Pass what the local connection sends to the Pod."""
    while data := await reader.read(_PIECE):
        await socket.send(bytes((_DATA,)) + data)


async def _accepted(exchange: UpgradedExchange, key: str, request: RestRequest) -> _ChannelSocket:
    """Return the WebSocket of an accepted upgrade. Raises the error of a refused one."""
    try:
        await _check_accepted(exchange, key, request)
        return _ChannelSocket(exchange)
    except BaseException:
        exchange.abort()
        raise


async def _check_accepted(exchange: UpgradedExchange, key: str, request: RestRequest) -> None:
    if exchange.status != 101:
        body = b""
        while len(body) < _MAX_REFUSAL and (piece := await exchange.read()):
            body += piece
        raise_for_status(RestResponse(exchange.status, exchange.headers, body), request)
        raise TransportError(f"{request.description}: HTTP {exchange.status} in place of an upgrade")
    digest = hashlib.sha1(key.encode() + _ACCEPT_GUID, usedforsecurity=False).digest()
    if exchange.headers.get("sec-websocket-accept", "").strip() != base64.b64encode(digest).decode():
        raise TransportError(f"{request.description}: the server did not accept a WebSocket")


class _ChannelSocket:
    """The client's side of a WebSocket with binary messages."""

    def __init__(self, exchange: UpgradedExchange) -> None:
        with RequiredExtra("cli", "a port-forward"):
            from websockets.protocol import CLIENT, OPEN, Protocol  # noqa: PLC0415 - start-up time: rarely needed

        self._exchange = exchange
        self._protocol = Protocol(CLIENT, state=OPEN, max_size=_MAX_MESSAGE)
        self._messages: Iterator[bytes] = iter(())
        self._partial = bytearray()
        self._closed = False

    async def receive(self) -> bytes | None:
        """Return the next message, or None at the end."""
        while True:
            if (message := next(self._messages, None)) is not None:
                return message
            if self._closed:
                return None
            try:
                data = await self._exchange.read()
            except ConnectionLostError:
                data = b""
            if data:
                self._protocol.receive_data(data)
            else:
                self._closed = True
            self._messages = iter(self._whole_messages())
            await self._flush()

    def _whole_messages(self) -> list[bytes]:
        with RequiredExtra("cli", "a port-forward"):
            from websockets.frames import Frame, Opcode  # noqa: PLC0415 - as above

        messages: list[bytes] = []
        for frame in self._protocol.events_received():
            assert isinstance(frame, Frame)  # the handshake is over
            if frame.opcode is Opcode.CLOSE:
                self._closed = True
            elif frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                self._partial += frame.data
                if len(self._partial) > _MAX_MESSAGE:
                    self._closed = True
                    return messages
                if frame.fin:
                    messages.append(bytes(self._partial))
                    self._partial.clear()
        self._closed = self._closed or self._protocol.close_expected()
        return messages

    async def send(self, message: bytes) -> None:
        """Send a message. Raises `ConnectionLostError`."""
        self._protocol.send_binary(message)
        await self._flush()

    async def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data and not self._closed:
                await self._exchange.write(data)

    async def aclose(self) -> None:
        """Close the connection. Idempotent."""
        await self._exchange.aclose()

    def __repr__(self) -> str:
        return f"<_ChannelSocket on {self._exchange!r}>"
