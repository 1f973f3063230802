"""WebSockets, spoken to by another implementation and by bytes: messages arrive whole, and everybody may leave."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, ConnectionClosedError, InvalidStatus
from websockets.protocol import CLIENT, OPEN, Protocol

from opsdk.aio.tasks import TaskOwner
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, text_response
from opsdk.http.server.server import ServeOptions, WebServer
from opsdk.http.server.upgrade import UpgradedStream
from opsdk.http.server.websocket import MAX_MESSAGE_BYTES, WebSocket, accept_websocket, wants_websocket

pytestmark = pytest.mark.realtime


class World:
    """A server of sockets, and what became of them."""

    def __init__(self) -> None:
        self.released = 0
        self.ended: list[str] = []
        self.gate = asyncio.Event()

    async def handler(self, request: HttpRequest) -> HttpResponse:
        """Upgrades who asks."""
        if not wants_websocket(request):
            return text_response("plain")
        run = {"/echo": self.echo, "/wait": self.wait, "/flood": self.flood}[request.path]
        return accept_websocket(request, ("a", "b", ""), run, release=self.release)

    def release(self) -> None:
        """Counted."""
        self.released += 1

    async def echo(self, socket: WebSocket, protocol: str) -> None:
        """Says the protocol, then whatever it hears."""
        await socket.send(protocol)
        while (message := await socket.receive()) is not None:
            await socket.send(message)
        self.ended.append("echo")

    async def wait(self, socket: WebSocket, protocol: str) -> None:
        """Hears nothing until the gate opens."""
        await self.gate.wait()
        await socket.close(4000, "enough")

    async def flood(self, socket: WebSocket, protocol: str) -> None:
        """Sends without end."""
        try:
            while True:
                await socket.send(b"x" * 10_000)
        finally:
            self.ended.append("flood")


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[World, WebServer, str]]:
    """A server that leaves no tasks behind."""
    world, before = World(), asyncio.all_tasks()
    async with WebServer(asgi(world.handler), ServeOptions(shutdown_timeout=0.2)) as server:
        yield world, server, f"ws://127.0.0.1:{server.port}"
    for _ in range(20):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() <= before


async def closed(socket: ClientConnection) -> int:
    """The code with which a socket ends."""
    with suppress(ConnectionClosed):
        async with asyncio.timeout(5):
            async for _ in socket:
                continue
    return socket.close_code or 0


async def test_messages_are_received_whole() -> None:
    """Text, bytes, empty, large and fragmented messages; pings get a pong."""
    async with serving() as (world, _, url), connect(f"{url}/echo", subprotocols=["x", "b"]) as socket:  # type: ignore[list-item]
        assert await socket.recv() == "b"
        assert socket.subprotocol == "b"
        for message in ("text ✓", b"\x00bytes", "", b"", b"l" * 1_000_000):
            await socket.send(message)
            assert await socket.recv() == message
        await socket.send(["in ", "three ", "pieces"])
        assert await socket.recv() == "in three pieces"
        await asyncio.wait_for(await socket.ping(), 5)
        await socket.close()
        assert socket.close_code == 1000
        while not world.released:
            await asyncio.sleep(0.01)
        assert world.ended == ["echo"]


async def test_a_message_may_be_too_long() -> None:
    """A message that is too long, in one or many frames, closes the connection with a reason."""
    async with serving() as (world, _, url):
        for message in (b"x" * (MAX_MESSAGE_BYTES + 1), [b"x" * (MAX_MESSAGE_BYTES // 2 + 1)] * 2):
            async with connect(f"{url}/echo", max_size=None) as socket:
                await socket.recv()
                try:
                    await socket.send(message)
                except ConnectionClosedError:
                    assert socket.close_code == 1009
                else:
                    assert await closed(socket) == 1009
        assert world.released == 2


async def test_invalid_handshakes_are_refused() -> None:
    """An invalid handshake gets an error response."""
    async with serving() as (world, server, url):
        with pytest.raises(InvalidStatus) as caught:
            await connect(f"{url}/echo", subprotocols=["y", "z"])  # type: ignore[list-item]
        assert caught.value.response.status_code == 500
        key = b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        for head, status in (
            (b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n", b"500"),
            (b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\n" + key, b"500"),
            (b"Connection: Upgrade\r\nUpgrade: h2c\r\n", b"200"),
            (b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" + key, b"200"),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /echo HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n")
            assert (await reader.readline()).split()[1] == status, head
            writer.close()
        assert world.released == 0


async def test_a_disconnected_client_ends_the_handler() -> None:
    """While the handler receives, waits or sends: no handler runs on."""
    async with serving() as (world, _, url):
        for path in ("echo", "flood", "wait"):
            async with connect(f"{url}/{path}") as socket:
                if path != "wait":
                    await socket.recv()
                socket.transport.abort()
        while len(world.ended) < 2:
            await asyncio.sleep(0.01)
        world.gate.set()
        while world.released < 3:
            await asyncio.sleep(0.01)


async def test_the_server_can_close_the_socket() -> None:
    """The server closes a socket with a code and a reason, or by returning from the handler."""
    async with serving() as (world, server, url), connect(f"{url}/wait") as first, connect(f"{url}/echo") as second:
        world.gate.set()
        assert await closed(first) == 4000
        assert first.close_reason == "enough"
        await second.recv()
        await server.aclose()
        assert await closed(second) == 1006
        assert world.released == 2


class Silent:
    """A connection into nowhere."""

    closing = False

    def __init__(self) -> None:
        self.sent = bytearray()

    def write(self, data: bytes) -> None:
        """Kept."""
        self.sent += data

    async def drained(self) -> None:
        """At once."""

    def hold(self, *, reading: bool) -> None:
        """Who cares."""


@given(
    st.lists(st.one_of(st.binary(max_size=300), st.text(max_size=100)), max_size=5),
    st.lists(st.integers(1, 50), min_size=1, max_size=30),
)
def test_messages_do_not_depend_on_chunk_boundaries(messages: list[bytes | str], sizes: list[int]) -> None:
    """Equal bytes give equal messages, however they are split."""
    client = Protocol(CLIENT, state=OPEN)
    for message in messages:
        if isinstance(message, str):
            client.send_text(message.encode())
        else:
            client.send_binary(message)
        client.send_ping(b"now")
    raw = b"".join(client.data_to_send())

    async def hear() -> list[bytes | str]:
        tunnel = UpgradedStream(Silent(), lambda: None)
        socket, result = WebSocket(tunnel), list[bytes | str]()

        async def collect() -> None:
            while (message := await socket.receive()) is not None:
                result.append(message)

        owner = TaskOwner("test")
        task = owner.start(collect(), name="collect")
        position = 0
        for size in (*sizes * (len(raw) // sum(sizes) + 1), len(raw)):
            tunnel.feed(raw[position : position + size])
            position += size
            await asyncio.sleep(0)
        tunnel.end()
        await task
        await owner.aclose()
        return result

    assert asyncio.run(hear()) == messages


@given(st.binary(max_size=200))
def test_invalid_frames_end_the_connection(raw: bytes) -> None:
    """After any invalid bytes, `receive` returns None at the end and raises nothing."""

    async def hear() -> None:
        tunnel = UpgradedStream(Silent(), lambda: None)
        tunnel.feed(raw)
        tunnel.end()
        socket = WebSocket(tunnel)
        while await socket.receive() is not None:
            continue

    asyncio.run(asyncio.wait_for(hear(), 5))


_MASK = b"\0\0\0\0"


def _frame(first: int, data: bytes = b"", *, mask: bytes = _MASK) -> bytes:
    return bytes((first, len(data) | (0x80 if mask else 0))) + mask + data


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (_frame(0x81, b"a", mask=b""), 1002),  # not masked
        (b"\x89\xfe\x00\x7e" + _MASK + b"x" * 126, 1002),  # a ping of 126 bytes
        (_frame(0x09), 1002),  # a ping in fragments
        (_frame(0x80), 1002),  # a continuation of no message
        (_frame(0x01) + _frame(0x01), 1002),  # a message within a message
        (_frame(0xC1), 1002),  # a reserved bit
        (_frame(0x83), 1002),  # a reserved opcode
        (b"\x82\xff" + (1 << 62).to_bytes(8) + _MASK, 1009),
        (b"\x82\xff" + (MAX_MESSAGE_BYTES + 1).to_bytes(8) + _MASK, 1009),
    ],
    ids=[
        "unmasked",
        "long ping",
        "ping fragment",
        "lone continuation",
        "nested",
        "reserved bit",
        "opcode",
        "2^62",
        "long",
    ],
)
@pytest.mark.parametrize("cut", [False, True])
def test_violations_close_the_socket_with_a_code(frame: bytes, code: int, *, cut: bool) -> None:
    """However the bytes are cut, and without waiting for announced data."""

    async def hear() -> bytes:
        connection = Silent()
        tunnel = UpgradedStream(connection, lambda: None)
        socket = WebSocket(tunnel)
        reading = asyncio.ensure_future(socket.receive())
        for piece in [frame[cut : cut + 1] for cut in range(len(frame))] if cut else [frame]:
            tunnel.feed(piece)
            await asyncio.sleep(0)
        assert await reading is None
        return bytes(connection.sent)

    sent = asyncio.run(asyncio.wait_for(hear(), 5))
    assert sent[0] == 0x88
    assert int.from_bytes(sent[2:4]) == code


def test_empty_fragments_without_end_take_no_memory() -> None:
    """A message of a million fragments costs what its bytes cost."""

    async def hear() -> tuple[int, bytes | str | None]:
        tunnel = UpgradedStream(Silent(), lambda: None)
        socket = WebSocket(tunnel)
        tunnel.feed(_frame(0x02, b"a"))
        reading = asyncio.ensure_future(socket.receive())
        await asyncio.sleep(0)
        tracemalloc.start()
        try:
            for _ in range(20):
                tunnel.feed(_frame(0x00) * 1000)
                await asyncio.sleep(0)
            size = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        tunnel.feed(_frame(0x80, b"b"))
        return size, await reading

    size, message = asyncio.run(hear())
    assert message == b"ab"
    assert size < 200_000
