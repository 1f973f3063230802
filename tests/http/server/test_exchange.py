"""How a response is divided into writes."""

from __future__ import annotations

import asyncio

import pytest

from opsdk.errors import ConnectionLostError
from opsdk.http.asgi_types import Message, Receive, Scope, Send
from opsdk.http.server.exchange import ServerExchange

LENGTH = [(b"content-length", b"4")]


class Port:
    """A connection that keeps each write."""

    closing = full = False

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.done = 0

    def write(self, data: bytes) -> None:
        """See `ServerConnectionPort`."""
        self.writes.append(data)

    async def drained(self) -> None:
        """See `ServerConnectionPort`."""

    def date(self) -> bytes:
        """See `ServerConnectionPort`."""
        return b"now"

    def hold(self, *, reading: bool) -> None:
        """See `ServerConnectionPort`."""

    def response_complete(self) -> None:
        """See `ServerConnectionPort`."""
        self.done += 1


async def unused(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """No application is called here."""


def writes(*messages: Message, method: str = "GET") -> list[bytes]:
    """What a response of these messages writes; heads only by their last header."""
    port = Port()
    scope = {"method": method, "path": "/", "http_version": "1.1"}

    async def send() -> None:
        exchange = ServerExchange(port, scope, unused, keep_alive=True, expects=False, length=None)
        exchange.end_body()
        for message in messages:
            await exchange.send(message)

    asyncio.run(send())
    return [data.partition(b"\r\n\r\n")[2] if data.startswith(b"HTTP/") else data for data in port.writes]


def start(*headers: tuple[bytes, bytes]) -> Message:
    """The first message of a response."""
    return {"type": "http.response.start", "status": 200, "headers": list(headers)}


def part(body: bytes, *, more: bool) -> Message:
    """A part of the body."""
    return {"type": "http.response.body", "body": body, "more_body": more}


@pytest.mark.parametrize(
    ("method", "messages", "expected"),
    [
        ("GET", [start(*LENGTH)], []),
        ("GET", [start(*LENGTH), part(b"body", more=False)], [b"body"]),
        ("GET", [start(*LENGTH), part(b"bo", more=True), part(b"dy", more=False)], [b"bo", b"dy"]),
        ("HEAD", [start(*LENGTH), part(b"", more=False)], [b""]),
        ("GET", [start((b"content-length", b"0")), part(b"", more=False)], [b""]),
        ("GET", [start()], [b""]),
        ("GET", [start(), part(b"a", more=True), part(b"", more=False)], [b"", b"1\r\na\r\n", b"0\r\n\r\n"]),
    ],
)
def test_the_writes_of_a_response(method: str, messages: list[Message], expected: list[bytes]) -> None:
    """A head leaves with its body, and that of a stream at once."""
    assert writes(*messages, method=method) == expected


class SlowPort(Port):
    """A connection whose client reads one write at a time, and leaves after some."""

    def __init__(self, leaves_after: int) -> None:
        super().__init__()
        self.leaves_after = leaves_after
        self.blocks_after = 1000
        self.exchange: ServerExchange | None = None

    @property
    def full(self) -> bool:  # type: ignore[override]
        """Whether anything is written."""
        return bool(self.writes)

    async def drained(self) -> None:
        """See `ServerConnectionPort`."""
        if len(self.writes) >= self.blocks_after:
            await asyncio.Event().wait()
        if len(self.writes) >= self.leaves_after and self.exchange is not None:
            self.exchange.disconnect()


def slow_exchange(leaves_after: int) -> tuple[SlowPort, ServerExchange]:
    """A started exchange."""
    port = SlowPort(leaves_after)
    scope = {"method": "GET", "path": "/", "http_version": "1.1"}
    exchange = ServerExchange(port, scope, unused, keep_alive=True, expects=False, length=None)
    port.exchange = exchange
    exchange.end_body()
    return port, exchange


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"1000000")]])
async def test_a_large_body_leaves_in_pieces(headers: list[tuple[bytes, bytes]]) -> None:
    """The write buffer gets 64 KiB at a time, and the whole is one chunk."""
    port, exchange = slow_exchange(leaves_after=1000)
    body = bytes(range(250)) * 4000
    await exchange.send(start(*headers))
    await exchange.send(part(body, more=False))
    assert max(map(len, port.writes)) <= 64 * 1024
    sent = b"".join(bytes(data) for data in port.writes).partition(b"\r\n\r\n")[2]
    assert sent == (body if headers else b"f4240\r\n" + body + b"\r\n0\r\n\r\n")
    assert exchange.complete


@pytest.mark.parametrize("size", [1, 1_000_000])
async def test_a_send_to_a_client_that_left_raises(size: int) -> None:
    """The application learns at once that its client has left, also in the middle of a large body."""
    port, exchange = slow_exchange(leaves_after=3)
    await exchange.send(start())

    async def send_often() -> None:
        for _ in range(10):
            await exchange.send(part(bytes(size), more=True))

    with pytest.raises(ConnectionLostError, match="disconnected"):
        await send_often()
    assert len(port.writes) <= 4


async def test_a_response_is_not_ended_within_a_chunk() -> None:
    """A response that is cancelled in the middle of a chunk is cut, not completed."""
    port, exchange = slow_exchange(leaves_after=1000)
    await exchange.send(start())
    await exchange.send(part(b"a", more=True))
    port.blocks_after = len(port.writes) + 2
    sending = asyncio.ensure_future(exchange.send(part(bytes(1_000_000), more=True)))
    await asyncio.sleep(1)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    assert not exchange.finish()
