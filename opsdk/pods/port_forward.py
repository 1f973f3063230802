"""Connections to ports of a Pod, over WebSockets to the API server.

Each connection has a WebSocket of its own. Channel 0 carries the bytes, channel 1 the error of the Pod's side; each
begins with the port number.

Upstream: k8s.io/kubelet/pkg/cri/streaming/portforward/websocket.go (v1.36)
Deviates: kubectl tunnels SPDY through a WebSocket, so that one connection carries many; this subprotocol needs no SPDY.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from opsdk.aio.closing import Closing
from opsdk.aio.tasks import TaskOwner
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.errors import ConnectError, OpsdkError, UsageError
from opsdk.http.client.request import MessageStream
from opsdk.pods.requests import OPEN_TIMEOUT, connect_request
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport
from opsdk.telemetry.safe_logger import SafeLogger

__all__ = ["PortForward", "PortStream"]

log = SafeLogger(__name__)

_PROTOCOL = "v4.channel.k8s.io"
# The channels of the first port.
_DATA, _ERROR = 0, 1
# Bytes of one message. The server refuses those above 4 MiB.
_PIECE = 32 * 1024
_PORT_BYTES = 2


class PortStream:
    """A connection to a port of a Pod: bytes in both directions. See `PodClient.open_port`."""

    def __init__(self, socket: MessageStream, target: str) -> None:
        self._socket = socket
        self._target = target
        self._port_bytes = {_DATA: _PORT_BYTES, _ERROR: _PORT_BYTES}

    async def read(self) -> bytes:
        """Wait for bytes of the Pod, and return them; empty when the Pod has closed the connection.

        Raises:
            ConnectError: nothing listens on the port, or the Pod cannot be reached.
            ConnectionLostError: the connection broke.
        """
        while message := await self._socket.read():
            channel, data = message[0], message[1:]
            if channel not in self._port_bytes:
                continue
            # Each channel begins with the number of the port.
            skipped = min(self._port_bytes[channel], len(data))
            self._port_bytes[channel] -= skipped
            data = data[skipped:]
            if data and channel == _ERROR:
                raise ConnectError(f"{self._target}: {data.decode(errors='replace').strip()}")
            if data:
                return data
        return b""

    async def write(self, data: bytes) -> None:
        """Send bytes to the Pod, and wait while it does not read. Raises `ConnectionLostError`."""
        for start in range(0, len(data), _PIECE):
            await self._socket.send(bytes((_DATA,)) + data[start : start + _PIECE])

    def __repr__(self) -> str:
        return f"<PortStream to {self._target}>"


def port_request(pod: ObjectKey | str, port: int) -> RestRequest:
    """Return the request for a connection to a port. Raises `UsageError`."""
    if not 0 < port < 1 << 16:
        raise UsageError(f"the port is {port}: pass a number from 1 to 65535")
    return connect_request(pod, "portforward", [("ports", str(port))], _PROTOCOL)


@asynccontextmanager
async def open_port(transport: Transport, request: RestRequest, port: int) -> AsyncIterator[PortStream]:
    """Connect to a port of a Pod. Leaving the block closes the connection."""
    async with transport.connect(request, timeout=OPEN_TIMEOUT) as socket:
        yield PortStream(socket, f"port {port} of Pod {request.namespace}/{request.name}")


class PortForward(Closing):
    """A local port that leads to a port of a Pod, from `start` to `aclose`. See `PodClient.port_forward`.

    Args:
        transport: of the API server.
        pod: ``namespace/name``.
        port: the port in the Pod. A server there sees a connection of its own host.
        local_port: on 127.0.0.1; 0 for a free one.

    Attributes:
        last_error: why the last connection to the Pod failed; None after one that succeeded.
    """

    def __init__(self, transport: Transport, pod: ObjectKey | str, port: int, *, local_port: int = 0) -> None:
        self._transport = transport
        self._request = port_request(pod, port)
        self._pod_port = port
        self._tasks = TaskOwner(f"port-forward {pod}", on_error=self._on_task_error)
        self._server: asyncio.Server | None = None
        self._port = local_port
        self.last_error: OpsdkError | None = None

    @property
    def port(self) -> int:
        """The port on this machine."""
        return self._port

    @property
    def url(self) -> str:
        """The address on this machine, for HTTP."""
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Open the local port, and check with one WebSocket that the Pod can be reached.

        Raises:
            ApiError: the server refuses the port-forward, for example because the Pod does not exist.
            TransportError: the server cannot be reached.
        """
        async with open_port(self._transport, self._request, self._pod_port):
            pass
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
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
            async with open_port(self._transport, self._request, self._pod_port) as stream:
                self.last_error = None
                await _carry(stream, reader, writer)
        except OpsdkError as error:
            self.last_error = error
            log.debug("%r: %s", self, error)
        finally:
            writer.close()

    def _on_task_error(self, name: str, error: BaseException) -> None:
        log.debug("%r: %s ended: %r", self, name, error)

    def __repr__(self) -> str:
        return f"<PortForward {self._request.namespace}/{self._request.name} at port {self._port}>"


async def _carry(stream: PortStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes in both directions until one side ends. Raises the error of the Pod's side."""
    sending = asyncio.ensure_future(_send_all(reader, stream))
    receiving = asyncio.ensure_future(_receive_all(stream, writer))
    try:
        await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
        if receiving.done():
            receiving.result()
    finally:
        sending.cancel()
        receiving.cancel()
        await asyncio.gather(sending, receiving, return_exceptions=True)


async def _send_all(reader: asyncio.StreamReader, stream: PortStream) -> None:
    while data := await reader.read(_PIECE):
        await stream.write(data)


async def _receive_all(stream: PortStream, writer: asyncio.StreamWriter) -> None:
    while data := await stream.read():
        writer.write(data)
        await writer.drain()
