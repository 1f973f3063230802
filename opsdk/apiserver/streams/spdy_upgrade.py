"""Upgrades to SPDY/3.1, on the connection itself or inside a WebSocket.

Upstream: k8s.io/apimachinery/pkg/util/httpstream/spdy (v1.36).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from opsdk.apiserver.streams.pipe import Pipe
from opsdk.apiserver.streams.remote_command import command
from opsdk.apiserver.streams.spdy_streams import Forwarding, SpdyConnection, SpdyStream, stream_types
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, UpgradeResponse, text_response
from opsdk.http.server.upgrade import UpgradedStream
from opsdk.http.server.websocket import WebSocket

PROTOCOL = "SPDY/3.1"
VERSIONS = {
    "v4.channel.k8s.io": True,
    "v3.channel.k8s.io": False,
    "v2.channel.k8s.io": False,
    "channel.k8s.io": False,
}
"""Protocol versions of commands; whether the final status is a Status object."""
PORTS = "portforward.k8s.io"
TUNNEL = f"{PROTOCOL}+{PORTS}"
"""The WebSocket subprotocol that tunnels a SPDY connection."""
_VERSION_HEADER = "x-stream-protocol-version"


def wants_spdy(request: HttpRequest) -> bool:
    """Report whether the client requests SPDY on a connection that can be upgraded."""
    return request.header("upgrade").lower() == PROTOCOL.lower() and request.upgrade is not None


def accept_command(
    request: HttpRequest, run: Callable[[Pipe], Awaitable[int | None]], streams: Mapping[str, bool]
) -> HttpResponse:
    """Return the response that upgrades to SPDY and runs a command.

    `streams` are the flags stdin, stdout, stderr and tty of the request.
    """
    version = _negotiated_version(request, list(VERSIONS))
    if version is None:
        return _refused(request, list(VERSIONS))

    async def begin(tunnel: UpgradedStream) -> None:
        connection = SpdyConnection(tunnel.read, tunnel.write)
        line = SpdyStream(connection, status=VERSIONS[version])
        if await line.open(stream_types(version, **streams)):
            await command(line, run, stdin=streams["stdin"])
        await connection.close()

    return _upgraded(version, begin)


def accept_ports(request: HttpRequest, run: Callable[[int, Pipe], Awaitable[None]]) -> HttpResponse:
    """Return the response that upgrades to SPDY and forwards ports."""
    version = _negotiated_version(request, [PORTS])
    if version is None:
        return _refused(request, [PORTS])

    async def begin(tunnel: UpgradedStream) -> None:
        connection = SpdyConnection(tunnel.read, tunnel.write)
        await Forwarding(connection, run).serve()
        await connection.close()

    return _upgraded(version, begin)


async def tunnel_ports(socket: WebSocket, run: Callable[[int, Pipe], Awaitable[None]]) -> None:
    """Forward ports over SPDY inside WebSocket messages."""

    async def read() -> bytes:
        while (message := await socket.receive()) is not None:
            if message:
                return message.encode() if isinstance(message, str) else message
        return b""

    connection = SpdyConnection(read, socket.send)
    await Forwarding(connection, run).serve()
    await connection.close()
    await socket.close()


def _requested_versions(request: HttpRequest) -> list[str]:
    return [word.strip() for word in request.header(_VERSION_HEADER).split(",") if word.strip()]


def _negotiated_version(request: HttpRequest, supported: Sequence[str]) -> str | None:
    return next((version for version in _requested_versions(request) if version in supported), None)


def _refused(request: HttpRequest, supported: Sequence[str]) -> HttpResponse:
    client_protocols = " ".join(_requested_versions(request))
    message = (
        "unable to upgrade: unable to negotiate protocol: "
        f"client supports [{client_protocols}], server accepts {list(supported)}"
    )
    response = text_response(message, status=403)
    for version in supported:
        response.add_header("x-accepted-stream-protocol-versions", version)
    return response


def _upgraded(version: str, serve: Callable[[UpgradedStream], Awaitable[None]]) -> UpgradeResponse:
    return UpgradeResponse(101, [(_VERSION_HEADER, version)], protocol=PROTOCOL, run=serve)
