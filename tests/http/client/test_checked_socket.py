"""The check below TLS: what is refused after the request was written never reaches the server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from http_servers import Seen, Server, always, answer, listening, make_ca, port_of

from opsdk.aio.fence import FENCE
from opsdk.errors import ConnectError, LeaderElectionLostError
from opsdk.http.client.checked_socket import open_socket
from opsdk.rest.config import RestConfig
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport

GET = RestRequest("GET", "/a", verb="get", resource="things", name="a")
PUT = RestRequest("PUT", "/a", body=b"{}", verb="update", resource="things", name="a")


class Gate:
    """A fence that closes after so many checks."""

    def __init__(self, left: int) -> None:
        self.left = left

    def check(self, action: str) -> None:
        if self.left == 0:
            raise LeaderElectionLostError(f"{action}: closed")
        self.left -= 1


@pytest.mark.parametrize("encrypted", [False, True])
async def test_a_fence_that_closes_before_the_system_call(encrypted: bool, tmp_path: Path) -> None:
    """The server sees nothing of the write, the error is the fence's, and the next request has a new connection."""
    authority = make_ca()
    tls = authority.issue("127.0.0.1", "127.0.0.1").server_context(tmp_path) if encrypted else None
    ca = authority.cert if encrypted else b""
    async with (
        Server(always(answer()), tls) as server,
        Transport(RestConfig(host=server.host, ca_data=ca)) as transport,
    ):
        await transport.send(GET)
        token = FENCE.set(Gate(1))
        with pytest.raises(LeaderElectionLostError, match=r"^PUT /a: closed"):
            await transport.send(PUT)
        FENCE.reset(token)
        await transport.send(GET)
        assert [(request.method, request.connection) for request in server.seen] == [("GET", 1), ("GET", 2)]


async def test_a_closed_fence_stops_a_partly_sent_body() -> None:
    """After the fence closes, the rest of a body is not sent, so the server never has the whole request."""
    received = 0
    ended = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        await read.wait()
        try:
            while data := await reader.read(1 << 16):
                received += len(data)
        except ConnectionError:
            received += 0
        finally:
            ended.set()
            writer.close()

    read = asyncio.Event()
    body = bytes(64 << 20)
    async with (
        listening(accept) as server,
        Transport(RestConfig(host=f"http://127.0.0.1:{port_of(server)}")) as transport,
    ):
        gate = Gate(2)
        FENCE.set(gate)
        write = asyncio.create_task(transport.send(RestRequest("PUT", "/a", body=body)))
        while gate.left:
            await asyncio.sleep(0)
        read.set()
        with pytest.raises(LeaderElectionLostError):
            await write
        await ended.wait()
    assert received < len(body)


async def test_a_cancelled_write_stays_cancelled() -> None:
    """A refusal does not replace a cancellation."""

    async def deaf(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await seen.gone()

    async with Server(deaf) as server, Transport(RestConfig(host=server.host)) as transport:
        FENCE.set(Gate(2))
        write = asyncio.create_task(transport.send(PUT))
        await server.has_seen(1)
        write.cancel()
        with pytest.raises(asyncio.CancelledError):
            await write


async def test_connecting_tries_every_address() -> None:
    """A connection uses the first address that accepts; if none does, the first error is raised."""
    async with (
        Server(always(answer())) as server,
        Transport(RestConfig(host=f"http://localhost:{server.port}")) as client,
    ):
        assert (await client.send(GET)).status == 200
    with pytest.raises(OSError, match="Connect call failed"):
        await open_socket("127.0.0.1", server.port)
    async with Transport(RestConfig(host=f"http://localhost:{server.port}")) as transport:
        with pytest.raises(ConnectError):
            await transport.send(GET, retry=False)
