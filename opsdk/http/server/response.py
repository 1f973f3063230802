"""Answers: whole ones and streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field

import msgspec

from opsdk.http.asgi_types import Send
from opsdk.http.server.upgrade import UpgradedStream

_ENCODER = msgspec.json.Encoder()


def encode_json(value: object) -> bytes:
    """Compact JSON; dict order is kept."""
    return _ENCODER.encode(value)


@dataclass(slots=True)
class HttpResponse:
    """Status, headers and a whole body."""

    status: int = 200
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""

    def add_header(self, name: str, value: str) -> None:
        """Append; a second header of the same name stands beside the first."""
        self.headers.append((name, value))


@dataclass(slots=True)
class StreamResponse(HttpResponse):
    """An answer whose body comes in pieces; each piece is sent at once.

    The generator is closed when the client goes away or the server stops; `release` is called after that, also where
    the generator was never begun.
    """

    chunks: AsyncGenerator[bytes, None] = field(kw_only=True)
    release: Callable[[], None] | None = None


@dataclass(slots=True)
class UpgradeResponse(HttpResponse):
    """The connection goes on in another protocol (status 101), and ends when `run` returns.

    For requests whose `upgrade` is not None. `release` is called in the end, also where `run` never began.
    """

    protocol: str = field(kw_only=True)
    run: Callable[[UpgradedStream], Awaitable[None]] = field(kw_only=True)
    release: Callable[[], None] | None = None


class CutConnection(Exception):  # noqa: N818 - no error of the server: it is what a test asked for
    """Raised by the chunks of a stream: the connection ends here, in the middle."""


@dataclass(slots=True)
class CutResponse(HttpResponse):
    """No answer at all: the connection ends. For tests of what clients do then."""


def json_response(value: object, *, status: int = 200, content_type: str = "application/json") -> HttpResponse:
    """A JSON answer."""
    return HttpResponse(status, [("content-type", content_type)], encode_json(value))


def text_response(text: str, *, status: int = 200, content_type: str = "text/plain; charset=utf-8") -> HttpResponse:
    """A text answer."""
    return HttpResponse(status, [("content-type", content_type)], text.encode())


async def send_start(response: HttpResponse, send: Send, *, length: int | None) -> None:
    """Send status line and headers; `length` None means chunked."""
    headers = [(name.lower().encode("latin-1"), value.encode("utf-8", "replace")) for name, value in response.headers]
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
