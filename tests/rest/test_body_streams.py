"""Requests whose body is a `BodyStream`, to a server on loopback and to an application in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from http_servers import answer, listening, port_of

from opsdk.aio.fence import FENCE
from opsdk.errors import (
    ConnectError,
    ConnectionLostError,
    DeadlineError,
    LeaderElectionLostError,
    UsageError,
)
from opsdk.http.body_stream import BodyStream
from opsdk.rest.config import RestConfig
from opsdk.rest.httpx_client import httpx_client
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport
from opsdk.telemetry.records import Record, Requested, TelemetryHook

PIECE = b"x" * (64 << 10)
_IN_BUFFERS = 8 << 20
"""More than the buffers of asyncio and of the kernel take while the server does not read."""


@dataclass
class Source:
    """A body of pieces; counts what was taken, and notices its end.

    Attributes:
        failure: raised behind the pieces.
        hangs: whether it waits without end behind the pieces.
    """

    pieces: list[bytes]
    failure: Exception | None = None
    hangs: bool = False
    taken: int = 0
    closed: bool = False

    def request(self, length: int | None = None, method: str = "PUT") -> RestRequest:
        """Return a request with this body."""
        return RestRequest(
            method, "/a", body=BodyStream(self._chunks(), length=length), verb="update", resource="things"
        )

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            for piece in self.pieces:
                self.taken += len(piece)
                yield piece
            if self.failure is not None:
                raise self.failure
            if self.hangs:
                await asyncio.sleep(1e9)
        finally:
            self.closed = True


@dataclass
class Upload:
    """What an application received.

    Attributes:
        may_read: the application waits for it before each part.
        ended: ``whole`` or ``cut``.
    """

    headers: dict[str, str] = field(default_factory=dict)
    received: int = 0
    ended: str = ""
    may_read: asyncio.Event = field(default_factory=asyncio.Event)

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """Read the body, and respond with its size."""
        self.headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        more = True
        while more:
            await self.may_read.wait()
            message = await receive()
            if message["type"] == "http.disconnect":
                self.ended = "cut"
                return
            self.received += len(message["body"])
            more = message["more_body"]
        self.ended = "whole"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"%d" % self.received})


@dataclass
class SocketUpload(Upload):
    """The same on a socket."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in head.split("\r\n")[1:])
            }
            await self.may_read.wait()
            if "content-length" in self.headers:
                remaining = int(self.headers["content-length"])
                while remaining:
                    data = await reader.readexactly(min(remaining, len(PIECE)))
                    self.received += len(data)
                    remaining -= len(data)
            else:
                while size := int(await reader.readline(), 16):
                    await reader.readexactly(size + 2)
                    self.received += size
                await reader.readline()
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            self.ended = "cut"
            writer.transport.abort()
            return
        self.ended = "whole"
        writer.write(answer(body=b"%d" % self.received))
        await writer.drain()
        await reader.read()
        writer.close()


@asynccontextmanager
async def uploading(place: str, hook: TelemetryHook | None = None) -> AsyncIterator[tuple[Transport, Upload]]:
    """Yield a transport to a server that receives an upload."""
    if place == "in process":
        upload = Upload()
        async with Transport(RestConfig(app=upload.app), hook=hook) as transport:
            yield transport, upload
        return
    upload = SocketUpload()
    async with (
        listening(upload.serve) as server,
        Transport(RestConfig(host=f"http://127.0.0.1:{port_of(server)}"), hook=hook) as transport,
    ):
        yield transport, upload


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition; the time limit is for hangs."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


PLACES = pytest.mark.parametrize("place", ["on a socket", "in process"])


@PLACES
@pytest.mark.parametrize("length", [5 * len(PIECE), None], ids=["length", "chunked"])
async def test_the_server_receives_the_pieces(place: str, length: int | None) -> None:
    """The body arrives whole, framed by its length or in chunks; empty pieces end nothing."""
    source = Source([PIECE, b"", PIECE, PIECE, b"", PIECE, PIECE, b""])
    async with uploading(place) as (transport, upload):
        upload.may_read.set()
        response = await transport.send(source.request(length))
        assert (response.status, int(response.body)) == (200, 5 * len(PIECE))
    framing = {name: value for name, value in upload.headers.items() if name in ("content-length", "transfer-encoding")}
    assert framing == ({"content-length": str(length)} if length else {"transfer-encoding": "chunked"})
    assert source.closed


@PLACES
async def test_a_server_that_does_not_read_stops_the_body(place: str) -> None:
    """The next piece is taken only after the last one has left: memory does not grow with the body."""
    source = Source([PIECE] * 1024)
    async with uploading(place) as (transport, upload):
        sending = asyncio.ensure_future(transport.send(source.request()))
        await until(lambda: upload.headers)
        before = -1
        while before != source.taken:
            before = source.taken
            await asyncio.sleep(0.05)
        assert source.taken <= (_IN_BUFFERS if place == "on a socket" else len(PIECE))
        upload.may_read.set()
        assert int((await sending).body) == len(PIECE) * 1024


@PLACES
async def test_a_slow_body_is_sent_as_it_arrives(place: str) -> None:
    """The server has received each piece before the next one exists."""
    pieces: asyncio.Queue[bytes] = asyncio.Queue()

    async def chunks() -> AsyncIterator[bytes]:
        while piece := await pieces.get():
            yield piece

    async with uploading(place) as (transport, upload):
        upload.may_read.set()
        sending = asyncio.ensure_future(transport.send(RestRequest("POST", "/a", body=BodyStream(chunks()))))
        for number in range(1, 6):
            pieces.put_nowait(b"abc")
            await until(lambda number=number: upload.received == 3 * number)  # type: ignore[misc]
        pieces.put_nowait(b"")
        assert int((await sending).body) == 15


@PLACES
@pytest.mark.parametrize("length", [10 * len(PIECE), None], ids=["length", "chunked"])
async def test_a_body_that_fails_ends_the_request(place: str, length: int | None) -> None:
    """The caller gets the body's own error; the server sees a connection that ended, never a short body."""
    source = Source([PIECE], failure=ConnectionLostError("the client has left"))
    async with uploading(place) as (transport, upload):
        upload.may_read.set()
        with pytest.raises(ConnectionLostError, match="the client has left"):
            await transport.send(source.request(length))
        await until(lambda: upload.ended)
        assert upload.ended == "cut"
        assert source.closed
        assert "0 busy, 0 idle" in repr(transport) or "0 open" in repr(transport)


@PLACES
@pytest.mark.parametrize(
    ("length", "message"), [(10, "longer than its stated length"), (10**6, "ended after 65536 of")]
)
async def test_a_body_of_another_length_is_refused(place: str, length: int, message: str) -> None:
    """No byte behind the stated length is sent, because a server reads it as the next request."""
    async with uploading(place) as (transport, upload):
        upload.may_read.set()
        with pytest.raises(UsageError, match=message):
            await transport.send(Source([PIECE]).request(length))
        await until(lambda: upload.ended)
        assert (upload.ended, upload.received <= length) == ("cut", True)


@PLACES
async def test_a_cancelled_call_closes_the_body(place: str) -> None:
    """No task, no connection and no open generator is left behind."""
    source = Source([PIECE], hangs=True)
    async with uploading(place) as (transport, upload):
        upload.may_read.set()
        with pytest.raises(DeadlineError):
            await transport.send(source.request(), timeout=0.2)
        assert source.closed
        await until(lambda: place == "in process" or upload.ended == "cut")
        assert "0 busy, 0 idle" in repr(transport) or "0 open" in repr(transport)


class Recorder(TelemetryHook):
    """Keeps the records of attempts."""

    def __init__(self) -> None:
        self.attempts: list[Requested] = []

    def record(self, record: Record) -> None:
        """Keep an attempt."""
        if isinstance(record, Requested):
            self.attempts.append(record)


@pytest.mark.parametrize("status", [401, 429, 503])
async def test_a_started_body_is_not_sent_again(status: int) -> None:
    """A response that leads to a retry of other requests is returned; the retry would have no body."""
    recorder = Recorder()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(PIECE[:10])
        writer.write(answer(status, Retry_After="0"))
        await reader.read()
        writer.close()

    async with listening(serve) as server:
        config = RestConfig(host=f"http://127.0.0.1:{port_of(server)}", token="t")
        async with Transport(config, hook=recorder) as transport:
            response = await transport.send(Source([PIECE], hangs=True).request())
            assert response.status == status
            assert len(recorder.attempts) == 1
            # The rest of the body could not be told from the next request.
            assert "0 idle" in repr(transport)


async def test_a_lost_connection_is_not_retried_even_for_a_read() -> None:
    """Other reads are repeated after a lost connection."""
    recorder, connections = Recorder(), 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(PIECE[:10])
        writer.transport.abort()

    async with listening(serve) as server:
        config = RestConfig(host=f"http://127.0.0.1:{port_of(server)}")
        async with Transport(config, hook=recorder) as transport:
            with pytest.raises(ConnectionLostError):
                await transport.send(Source([PIECE], hangs=True).request(method="GET"))
    assert (connections, len(recorder.attempts)) == (1, 1)


async def test_a_body_that_was_not_started_is_sent_after_a_refused_connection() -> None:
    """A refused connection takes no byte of the body, so the retry is the first attempt that sends."""
    upload = SocketUpload()
    upload.may_read.set()
    async with listening(upload.serve) as server:
        port = port_of(server)
    recorder, source = Recorder(), Source([PIECE])
    async with Transport(RestConfig(host=f"http://127.0.0.1:{port}"), hook=recorder) as transport:
        sending = asyncio.ensure_future(transport.send(source.request()))
        await until(lambda: recorder.attempts)
        assert isinstance(recorder.attempts[0].error, ConnectError)
        assert source.taken == 0
        async with listening(upload.serve, port=port):
            assert int((await sending).body) == len(PIECE)
    assert [attempt.sent_bytes for attempt in recorder.attempts][-1] == len(PIECE)


async def test_a_request_is_sent_once() -> None:
    """A second call with the same body fails, and sends no request with an empty body."""
    async with uploading("on a socket") as (transport, upload):
        upload.may_read.set()
        request = Source([PIECE]).request()
        assert (await transport.send(request)).ok
        with pytest.raises(UsageError, match="only once"):
            await transport.send(request)


async def test_the_connection_is_kept_after_a_whole_body() -> None:
    """The connection of a body that was sent whole serves the next request."""
    async with uploading("on a socket") as (transport, upload):
        upload.may_read.set()
        await transport.send(Source([PIECE]).request())
        assert "1 idle" in repr(transport)


@PLACES
async def test_a_fence_that_closes_during_a_body_ends_the_request(place: str) -> None:
    """A replica that has lost its leadership sends no further piece of a write."""

    class Gate:
        open = True

        def check(self, action: str) -> None:
            if not self.open:
                raise LeaderElectionLostError(f"{action}: closed")

    gate = Gate()

    async def chunks() -> AsyncIterator[bytes]:
        yield b"first"
        await until(lambda: upload.received or upload.headers)
        gate.open = False
        yield b"second"

    async with uploading(place) as (transport, upload):
        upload.may_read.set()
        FENCE.set(gate)
        with pytest.raises(LeaderElectionLostError, match="PUT /a: closed"):
            await transport.send(RestRequest("PUT", "/a", body=BodyStream(chunks())))
        await until(lambda: upload.ended)
        assert upload.ended == "cut"


async def test_httpx_streams_bodies() -> None:
    """A generator as content is not read whole before it is sent."""
    pieces: asyncio.Queue[bytes] = asyncio.Queue()

    async def chunks() -> AsyncIterator[bytes]:
        while piece := await pieces.get():
            yield piece

    async with uploading("on a socket") as (transport, upload), httpx_client(transport) as client:
        upload.may_read.set()
        sending = asyncio.ensure_future(client.post("/a", content=chunks()))
        pieces.put_nowait(b"abc")
        await until(lambda: upload.received == 3)
        pieces.put_nowait(b"")
        assert (await sending).text == "3"
        assert isinstance(sending.result(), httpx.Response)
