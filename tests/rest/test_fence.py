"""The fence: a replica that no longer leads sends no writes, whatever happened on the way to the socket."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from http_servers import Seen, Server, always, answer, in_turn

from opsdk.aio.clock import monotonic
from opsdk.aio.fence import FENCE, check_fence
from opsdk.errors import LeaderElectionLostError
from opsdk.http.client.connection import ClientConnection
from opsdk.rest.config import RestConfig
from opsdk.rest.dial import Dialer
from opsdk.rest.httpx_client import httpx_client
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport

GET = RestRequest("GET", "/a", verb="get", resource="things", name="a")
PUT = RestRequest("PUT", "/a", body=b"{}", verb="update", resource="things", name="a")


class Gate:
    """A fence that closes at a time of the loop."""

    def __init__(self, closes_at: float = 1e9) -> None:
        self.closes_at = closes_at
        self._loop = asyncio.get_running_loop()

    def check(self, action: str) -> None:
        if self._loop.time() >= self.closes_at:
            raise LeaderElectionLostError(f"{action}: closed")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "put"])
async def test_a_write_behind_a_closed_fence_is_not_sent(method: str) -> None:
    """The error names the request without its query; the server sees nothing, and the connection stays usable."""
    async with Server(always(answer())) as server, Transport(RestConfig(host=server.host)) as transport:
        await transport.send(GET)
        FENCE.set(Gate(0))
        with pytest.raises(LeaderElectionLostError, match=rf"^{method} /a: closed"):
            await transport.send(RestRequest(method, "/a", query=[("secret", "x")]))
        await transport.send(GET)
        assert [request.method for request in server.seen] == ["GET", "GET"]
        assert server.accepted == 1


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
async def test_reads_pass_a_closed_fence(method: str) -> None:
    """A replica that does not lead may read."""
    async with Server(always(answer(body=b""))) as server, Transport(RestConfig(host=server.host)) as transport:
        FENCE.set(Gate(0))
        assert (await transport.send(RestRequest(method, "/a"))).status == 200


async def test_each_attempt_is_checked() -> None:
    """The leadership ends while the client waits to repeat a request."""
    answers = in_turn(answer(429, Retry_After="5"), answer())
    async with Server(answers) as server, Transport(RestConfig(host=server.host)) as transport:
        FENCE.set(Gate(monotonic() + 3))
        with pytest.raises(LeaderElectionLostError):
            await transport.send(PUT)
        assert len(server.seen) == 1


async def test_the_check_comes_after_the_throttling() -> None:
    """The leadership ends while the request waits for its turn."""
    async with (
        Server(always(answer())) as server,
        Transport(RestConfig(host=server.host, qps=0.1, burst=1)) as transport,
    ):
        await transport.send(GET)
        FENCE.set(Gate(monotonic() + 3))
        with pytest.raises(LeaderElectionLostError):
            await transport.send(PUT)
        assert [request.method for request in server.seen] == ["GET"]


async def test_the_check_comes_after_connecting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leadership ends while the connection is made."""
    dial = Dialer.dial

    async def slow(dialer: Dialer) -> ClientConnection:
        await asyncio.sleep(5)
        return await dial(dialer)

    monkeypatch.setattr(Dialer, "dial", slow)
    async with Server(always(answer())) as server, Transport(RestConfig(host=server.host)) as transport:
        FENCE.set(Gate(monotonic() + 3))
        with pytest.raises(LeaderElectionLostError):
            await transport.send(PUT)
        assert not server.seen


async def test_a_running_write_is_not_touched() -> None:
    """A write that was sent while leading gets its response."""

    async def slow(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)
        writer.write(answer())

    async with Server(slow) as server, Transport(RestConfig(host=server.host)) as transport:
        FENCE.set(Gate(monotonic() + 3))
        assert (await transport.send(PUT)).status == 200


async def test_httpx_and_streams_have_the_same_fence() -> None:
    """A client of the user's own, and a response that is read as it arrives."""
    async with Server(always(answer())) as server, Transport(RestConfig(host=server.host)) as transport:
        FENCE.set(Gate(0))
        async with httpx_client(transport) as client:
            assert (await client.get("/a")).status_code == 200
            with pytest.raises(LeaderElectionLostError):
                await client.post("/a")
        with pytest.raises(LeaderElectionLostError):
            async with transport.stream(PUT):
                pass
        assert [request.method for request in server.seen] == ["GET"]


async def test_a_server_in_this_process_has_the_same_fence() -> None:
    """A closed fence refuses requests to a server in this process too, before its application is called."""
    calls: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        calls.append(scope["method"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with Transport(RestConfig(host="http://in.process", app=app)) as transport:
        FENCE.set(Gate(0))
        await transport.send(GET)
        with pytest.raises(LeaderElectionLostError):
            await transport.send(PUT)
    assert calls == ["GET"]


async def test_tasks_and_threads_inherit_the_fence() -> None:
    """`check_fence` guards writes that do not go through opsdk; without a fence it allows everything."""
    check_fence("a backup")
    FENCE.set(Gate(0))
    with pytest.raises(LeaderElectionLostError, match="a backup"):
        await asyncio.to_thread(check_fence, "a backup")

    async def child() -> None:
        check_fence("a child's backup")

    with pytest.raises(LeaderElectionLostError, match="a child's backup"):
        await asyncio.create_task(child())


async def test_a_cancelled_write_is_not_delivered_later() -> None:
    """The connection is reset, so the kernel drops what the peer has not acknowledged, for example in a partition."""
    ends: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def deaf(seen: Seen, writer: asyncio.StreamWriter) -> None:
        try:
            await seen.reader.read()
            ends.set_result("closed")
        except ConnectionResetError:
            ends.set_result("reset")

    async with Server(deaf) as server, Transport(RestConfig(host=server.host)) as transport:
        write = asyncio.create_task(transport.send(PUT))
        await asyncio.sleep(1)
        write.cancel()
        await asyncio.gather(write, return_exceptions=True)
        assert await ends == "reset"
