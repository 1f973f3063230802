"""Protocols of the HTTP client, and the encoding of requests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

from opsdk.errors import UsageError
from opsdk.http.body_stream import Body, BodyStream

Pairs = Sequence[tuple[str, str]]
Check = Callable[[], None]
"""Returns if a request may be sent now, and raises if not. Called once or more for each request."""
CheckFactory = Callable[[str, str], Check | None]
"""Returns the check for a request of this method and target; None if it needs none."""


CONNECT: Final = "CONNECT"
"""The method of a WebSocket for checks, retries and records, as the API server calls it in admission: it changes state,
although its handshake is a GET request."""
SWITCHED: Final = 101
"""The status of an accepted WebSocket."""
NORMAL_CLOSES: Final = frozenset({1000, 1005})
"""Codes of a close frame without an error: normal closure, and none."""


def closed_with(code: int, reason: str) -> str:
    """Return the message for a close frame with an error."""
    return f"the server closed the WebSocket: {code} {reason}".strip()


def unchecked(method: str, target: str) -> None:
    """The `CheckFactory` of clients that check nothing."""


class ResponseStream(Protocol):
    """A response whose head has arrived. The body is read in chunks."""

    status: int
    headers: dict[str, str]

    def read(self) -> Coroutine[Any, Any, bytes]:
        """Return the next bytes, empty at the end. Raises `ConnectionLostError` if the body is cut off."""
        ...

    def aclose(self) -> Coroutine[Any, Any, None]:
        """Release the connection, or close it if the body was not read to its end. Idempotent."""
        ...


class MessageStream(ResponseStream, Protocol):
    """The response to a WebSocket request: after the status 101, `read` returns one message at a time.

    With any other status it is a response with a body. The end without a close frame is a `ConnectionLostError`.
    """

    async def send(self, message: bytes) -> None:
        """Send a message, and wait while the server does not read. Raises `ConnectionLostError`."""
        ...

    def abort(self) -> None:
        """Close the connection at once; what was not sent is lost. Idempotent."""
        ...


class ConnectionBackend(Protocol):
    """Carries out exchanges: a connection pool, or an application in this process."""

    def exchange(self, method: str, target: str, headers: Pairs, body: Body) -> Coroutine[Any, Any, ResponseStream]:
        """Send one request and return when the response head has arrived. That ends a `BodyStream` too."""
        ...

    def connect(self, target: str, headers: Pairs) -> Coroutine[Any, Any, MessageStream]:
        """Open a WebSocket on a new connection, and return when it was accepted or refused.

        ``Sec-WebSocket-Protocol`` in the headers names the subprotocols.
        """
        ...

    def drain(self) -> None:
        """Use no existing connection for a new exchange. Running exchanges continue."""
        ...

    async def aclose(self) -> None:
        """Close everything. Idempotent."""
        ...


class MergedHeaders(tuple[tuple[str, str], ...]):  # noqa: SLOT001 - a tuple cannot have slots
    """The headers of a request, with their lines. See `merge_headers`.

    Attributes:
        lines: the headers as `encode_request` writes them.
        raw: the headers as an ASGI scope has them.
        content_type: the value of ``Content-Type``; empty without one.
    """

    lines: str
    content_type: str
    raw: tuple[tuple[bytes, bytes], ...]

    def __repr__(self) -> str:
        # Without values, which may be tokens: tracebacks and debuggers show it.
        return f"<MergedHeaders {', '.join(name for name, _ in self)}>"


# The only cache of headers: a client sends the same few sets repeatedly.
@lru_cache(maxsize=64)
def merge_headers(
    common: tuple[tuple[str, str], ...], credentials: tuple[tuple[str, str], ...], own: tuple[tuple[str, str], ...]
) -> MergedHeaders:
    """Return the headers of a request. Its own ones replace others of the same name. Raises `UsageError`.

    >>> merge_headers((("Host", "a"), ("Accept", "*/*")), (), (("accept", "text/plain"),))
    <MergedHeaders Host, accept>
    """
    by_name = {name.lower(): (name, value) for name, value in own}
    others = (pair for pair in (*common, *credentials) if pair[0].lower() not in by_name)
    merged = MergedHeaders((*others, *by_name.values()))
    merged.lines, merged.raw = _header_lines(merged), raw_headers(merged)
    merged.content_type = content_type_of(merged)
    return merged


def encode_request(method: str, target: str, headers: Pairs, body: Body) -> bytes:
    """Return the bytes of a request, without the body if it is a `BodyStream`.

    Raises `UsageError` for a character that would end a line early.
    """
    if isinstance(body, BodyStream):
        name, value = body.framing
        return encode_head(method, target, headers, f"{name}: {value}\r\n")
    framing = f"Content-Length: {len(body)}\r\n" if body or method in {"POST", "PUT", "PATCH"} else ""
    return encode_head(method, target, headers, framing) + body


def encode_head(method: str, target: str, headers: Pairs, framing: str) -> bytes:
    """Return the bytes of a request's head; `framing` is the line that states where the body ends, or empty.

    Raises `UsageError` for a character that would end a line early.
    """
    if not method.isalpha() or not target.isascii() or not target.isprintable() or " " in target:
        raise UsageError(f"{method} {target!r} is not a valid request line: escape the path and the query")
    lines = headers.lines if isinstance(headers, MergedHeaders) else _header_lines(headers)
    return f"{method} {target} HTTP/1.1\r\n{lines}{framing}\r\n".encode()


def content_type_of(headers: Pairs) -> str:
    """Return the value of ``Content-Type``; empty without one.

    >>> content_type_of([("Content-Type", "application/json")])
    'application/json'
    """
    if isinstance(headers, MergedHeaders) and hasattr(headers, "content_type"):
        return headers.content_type
    return next((value for name, value in headers if name.lower() == "content-type"), "")


def raw_headers(headers: Pairs) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers as an ASGI scope has them.

    >>> raw_headers([("Accept", "*/*")])
    ((b'accept', b'*/*'),)
    """
    if isinstance(headers, MergedHeaders) and hasattr(headers, "raw"):
        return headers.raw
    return tuple((name.lower().encode(), value.encode()) for name, value in headers)


def _header_lines(headers: Pairs) -> str:
    lines = []
    for name, value in headers:
        if not name or not name.isascii() or any(c in name for c in " :\r\n\0") or any(c in value for c in "\r\n\0"):
            # The message leaves out the value, which may be a secret.
            raise UsageError(f"header {name!r} is not a valid header name, or its value contains a line break")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines)
