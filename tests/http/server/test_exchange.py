"""How a response is divided into writes."""

from __future__ import annotations

import asyncio

import pytest

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
