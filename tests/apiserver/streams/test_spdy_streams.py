"""Commands and ports over SPDY, with a client in the same loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from opsdk.apiserver.streams import spdy
from opsdk.apiserver.streams.pipe import Pipe
from opsdk.apiserver.streams.remote_command import command
from opsdk.apiserver.streams.spdy_streams import Forwarding, SpdyConnection, SpdyStream, stream_types
from opsdk.errors import ConnectionLostError


class Client:
    """The other end: what it sends, and what has come to each stream."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[bytes] = asyncio.Queue()
        self._writer = spdy.SpdyWriter()
        self.frames: list[bytes] = []
        self.gone = False
        self.connection = SpdyConnection(self.sent.get, self._take)

    async def _take(self, data: bytes) -> None:
        if self.gone:
            raise ConnectionLostError("gone")
        self.frames.append(data)

    def open(self, stream: int, **headers: str) -> None:
        """Begin a stream."""
        self.sent.put_nowait(self._writer.open(stream, headers))

    def send(self, stream: int, data: bytes, *, ends: bool = False) -> None:
        """Bytes of a stream."""
        self.sent.put_nowait(spdy.carry(stream, data, ends=ends))

    def leave(self) -> None:
        """The connection breaks."""
        self.gone = True
        self.sent.put_nowait(b"")

    def replies(self) -> list[int]:
        """The control frames that came, by kind."""
        raw, kinds = b"".join(self.frames), list[int]()
        while raw:
            if raw[0] & 0x80:
                kinds.append(int.from_bytes(raw[2:4]))
            raw = raw[8 + int.from_bytes(raw[5:8]) :]
        return kinds

    def got(self, stream: int) -> tuple[bytes, bool]:
        """The bytes of a stream, and whether it has ended."""
        raw, data, ended = b"".join(self.frames), b"", False
        while raw:
            size = int.from_bytes(raw[5:8])
            if int.from_bytes(raw[:4]) == stream:
                data, ended = data + raw[8 : 8 + size], ended or bool(raw[4])
            raw = raw[8 + size :]
        return data, ended


async def settled() -> None:
    """Everything that can happen has happened."""
    for _ in range(30):
        await asyncio.sleep(0)


async def echo(pipe: Pipe) -> int:
    """A container."""
    await pipe.write(await pipe.read_all())
    await pipe.write_error("done")
    return 3


async def test_a_command_has_a_stream_for_each_channel() -> None:
    """Input is read to its end; output, errors and the Status come on their streams, which end."""
    client = Client()
    line = SpdyStream(client.connection, status=True)
    expected = stream_types("v4.channel.k8s.io", stdin=True, stdout=True, stderr=True, tty=False)
    for stream, kind in ((1, "error"), (3, "stdin"), (5, "stdout")):
        client.open(stream, streamtype=kind)
    client.send(3, b"early ")
    client.open(7, streamtype="other")
    client.open(9, streamtype="stderr")
    client.send(3, b"late", ends=True)
    assert await line.open(expected)
    await command(line, echo, stdin=True)
    assert client.got(5) == (b"early late", True)
    assert client.got(9) == (b"done", True)
    status, ended = client.got(1)
    assert b"NonZeroExitCode" in status
    assert ended
    assert client.replies() == [2, 2, 2, 3, 2, 7]


async def test_versions_before_v4_get_errors_as_text() -> None:
    """Protocol versions before v4 get an error as text instead of a Status."""
    client = Client()
    line = SpdyStream(client.connection, status=False)
    client.open(1, streamtype="error")
    client.open(3, streamtype="stdout")
    assert await line.open({"error", "stdout"})
    await command(line, echo, stdin=False)
    assert client.got(1) == (b"command terminated with non-zero exit code: exit status 3", True)


async def test_missing_streams_time_out() -> None:
    """A client that does not open all streams in time is disconnected."""
    client = Client()
    client.open(1, streamtype="error")
    assert not await SpdyStream(client.connection, status=True).open({"error", "stdout"})


async def test_a_command_is_cancelled_when_its_client_goes() -> None:
    """A command is cancelled when its client disconnects."""
    client, cancelled = Client(), asyncio.Event()

    async def forever(_: Pipe) -> int:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return 0

    client.open(1, streamtype="error")
    client.leave()
    client.gone = False
    line = SpdyStream(client.connection, status=True)
    assert await line.open({"error"})
    await command(line, forever, stdin=False)
    assert cancelled.is_set()


@pytest.mark.parametrize(
    ("version", "tty", "types"),
    [
        ("v4.channel.k8s.io", False, {"error", "stdout", "stderr"}),
        ("v4.channel.k8s.io", True, {"error", "stdout", "stderr", "resize"}),
        ("v2.channel.k8s.io", True, {"error", "stdout", "stderr"}),
    ],
)
def test_terminals_have_a_stream_for_their_size(version: str, tty: bool, types: set[str]) -> None:
    """A terminal has a resize stream since v3."""
    assert stream_types(version, stdin=False, stdout=True, stderr=True, tty=tty) == types


# ------------------------------------------------------------------ ports
@asynccontextmanager
async def forwarding() -> AsyncIterator[Client]:
    """A client whose connections are answered with what they say, once they have ended."""
    client = Client()

    async def answer(port: int, pipe: Pipe) -> None:
        if port == 1:
            raise ValueError("nobody listens")
        await pipe.write(b"%d:" % port + await pipe.read_all())

    serving = asyncio.create_task(Forwarding(client.connection, answer).serve())
    yield client
    client.leave()
    await serving


def connect(client: Client, first: int, port: int, number: int) -> None:
    """Begin the two streams of a connection."""
    client.open(first, streamtype="error", port=str(port), requestid=str(number))
    client.send(first, b"", ends=True)
    client.open(first + 2, streamtype="data", port=str(port), requestid=str(number))


async def test_connections_to_ports_do_not_mix() -> None:
    """Each has its bytes, and its end."""
    async with forwarding() as client:
        connect(client, 1, 80, 0)
        connect(client, 5, 443, 1)
        client.send(7, b"two", ends=True)
        client.send(3, b"one", ends=True)
        await settled()
        assert client.got(3) == (b"80:one", True)
        assert client.got(7) == (b"443:two", True)
        assert client.got(1) == client.got(5) == (b"", True)


async def test_a_failed_port_reports_on_its_error_stream() -> None:
    """A failed port reports on its error stream, and other ports continue."""
    async with forwarding() as client:
        connect(client, 1, 1, 0)
        connect(client, 5, 80, 1)
        client.send(7, b"x", ends=True)
        await settled()
        assert client.got(1) == (b"error forwarding port 1 to pod: nobody listens", True)
        assert client.got(7) == (b"80:x", True)


@pytest.mark.parametrize("headers", [{"streamtype": "data"}, {"port": "80"}, {"streamtype": "data", "port": "70000"}])
async def test_incomplete_streams_are_reset(headers: dict[str, str]) -> None:
    """A stream without type or valid port gets RST_STREAM."""
    async with forwarding() as client:
        client.open(1, **headers)
        await settled()
        assert client.replies() == [3]


async def test_connections_that_end_make_room_for_others() -> None:
    """A client may make any number, but not at once."""
    async with forwarding() as client:
        for number in range(400):
            connect(client, 4 * number + 1, 80, number)
            client.send(4 * number + 3, b"x", ends=True)
            await settled()
        assert client.replies() == [2] * 800
        client.frames.clear()
        for number in range(400, 600):
            client.open(4 * number + 1, streamtype="data", port="80", requestid=str(number))
        for number in range(600, 700):
            client.open(4 * number + 1, streamtype="data", port="80", requestid=str(number))
        await settled()
        assert client.replies() == [2] * 256 + [3] * 44


async def test_pings_come_back() -> None:
    """Clients see that the connection lives."""
    async with forwarding() as client:
        client.sent.put_nowait(spdy.pong(5))
        await settled()
        assert client.frames == [spdy.pong(5)]


async def test_a_stream_that_the_client_breaks_off_cancels_its_connection() -> None:
    """A stream that the client resets cancels its connection."""
    client, ended = Client(), asyncio.Event()

    async def wait(started: asyncio.Event, _: int, pipe: Pipe) -> None:
        started.set()
        try:
            await pipe.read()
        finally:
            ended.set()

    started = asyncio.Event()
    serving = asyncio.create_task(Forwarding(client.connection, partial(wait, started)).serve())
    connect(client, 1, 80, 0)
    await started.wait()
    client.sent.put_nowait(spdy.refuse(3))
    await ended.wait()
    client.leave()
    await serving


# ------------------------------------------------------------------ attacks
async def test_a_number_opens_one_stream_only() -> None:
    """Numbers are odd and grow, as those of spdystream do: no stream takes the place of one that is ending."""
    async with forwarding() as client:
        for stream in (5, 5, 3, 8, 0, 7):
            client.open(stream, streamtype="data", port="80", requestid=str(stream))
        await settled()
        assert client.replies() == [2, 3, 3, 3, 3, 2]


async def test_a_pair_has_one_stream_of_each_type() -> None:
    """A further one is refused, and leaves room for others."""
    async with forwarding() as client:
        for stream in range(1, 2001, 2):
            client.open(stream, streamtype="data", port="80", requestid="same")
        client.open(2001, streamtype="error", port="80", requestid="same")
        client.send(1, b"x", ends=True)
        await settled()
        assert client.replies() == [2] + [3] * 999 + [2]
        assert client.got(1) == (b"80:x", True)


async def test_aborted_connections_count_until_they_have_ended() -> None:
    """A client that opens and aborts without end has no more than 128 connections at once."""
    client, running, most = Client(), 0, 0
    gate = asyncio.Event()

    async def linger(_: int, pipe: Pipe) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            await pipe.read()
        finally:
            await gate.wait()
            running -= 1

    serving = asyncio.create_task(Forwarding(client.connection, linger).serve())
    for number in range(1000):
        connect(client, 4 * number + 1, 80, number)
        client.sent.put_nowait(spdy.refuse(4 * number + 3))
        client.sent.put_nowait(spdy.refuse(4 * number + 1))
        await settled()
    assert most <= 128 + 128
    gate.set()
    client.leave()
    await serving
    assert running == 0


async def test_half_open_pairs_end_with_their_stream() -> None:
    """A reset makes room at once."""
    async with forwarding() as client:
        for number in range(1000):
            client.open(2 * number + 1, streamtype="data", port="80", requestid=str(number))
            client.sent.put_nowait(spdy.refuse(2 * number + 1))
        await settled()
        assert client.replies() == [2] * 1000
