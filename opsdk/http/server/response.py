"""Responses: complete ones, streams and upgrades."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from opsdk.http.asgi_types import USER, Message, Send
from opsdk.http.server.upgrade import UpgradedStream
from opsdk.structured_merge.value import JsonObject

_ENCODER = msgspec.json.Encoder()


def encode_json(value: object) -> bytes:
    """Return compact JSON in dict order."""
    return _ENCODER.encode(value)


@dataclass(slots=True)
class HttpResponse:
    """Status, headers and a complete body.

    Attributes:
        document: in place of the body, a tree for a client in this process, which must not change it.
        user: whose budget of unread bytes the body counts for, see `opsdk.http.server.unread`.
    """

    status: int = 200
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    document: JsonObject | None = field(default=None, kw_only=True, repr=False)
    user: str = field(default="", kw_only=True)

    def add_header(self, name: str, value: str) -> None:
        """Append a header. Headers with the same name stay separate."""
        self.headers.append((name, value))


@dataclass(slots=True)
class StreamResponse(HttpResponse):
    """A response whose body is sent in chunks, each at once.

    The generator is closed when the client disconnects or the server stops. `release` is called afterwards, even if the
    generator never started.

    Attributes:
        ends_when_full: end before a chunk for which the budget of the user has no room: its client opens a watch again.
        is_patient: the client may pause for longer than `opsdk.http.server.unread.STALL_SECONDS`, as in a log.
    """

    chunks: AsyncGenerator[bytes, None] = field(kw_only=True)
    release: Callable[[], None] | None = None
    ends_when_full: bool = False
    is_patient: bool = False


@dataclass(slots=True)
class UpgradeResponse(HttpResponse):
    """Status 101: the connection continues in another protocol, and closes when `run` returns.

    Only for requests whose `upgrade` is not None. `release` is called at the end, even if `run` never started.
    Servers that speak the protocol of WebSockets themselves call `messages` instead of `run`.
    """

    protocol: str = field(kw_only=True)
    run: Callable[[UpgradedStream], Awaitable[None]] = field(kw_only=True)
    release: Callable[[], None] | None = None
    messages: Callable[[Any], Awaitable[None]] | None = None  # gets a WebSocket, which is defined above this module
    subprotocol: str = ""


class CutConnection(Exception):  # noqa: N818 - not an error: tests request it
    """Raised by the chunks of a stream to close the connection in the middle of the response."""


@dataclass(slots=True)
class CutResponse(HttpResponse):
    """Closes the connection without a response, to test how clients react."""


def json_response(value: object, *, status: int = 200, content_type: str = "application/json") -> HttpResponse:
    """Return a JSON response."""
    return HttpResponse(status, [("content-type", content_type)], encode_json(value))


def text_response(text: str, *, status: int = 200, content_type: str = "text/plain; charset=utf-8") -> HttpResponse:
    """Return a text response."""
    return HttpResponse(status, [("content-type", content_type)], text.encode())


@lru_cache(maxsize=1024)
def _raw_name(name: str) -> bytes:
    return name.lower().encode("latin-1")


async def send_start(response: HttpResponse, send: Send, *, length: int | None) -> None:
    """Send status line and headers. `length` None means chunked."""
    headers = [(_raw_name(name), value.encode("utf-8", "replace")) for name, value in response.headers]
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
    start: Message = {"type": "http.response.start", "status": response.status, "headers": headers}
    if response.user:
        start[USER] = response.user
    await send(start)
