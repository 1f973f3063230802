"""Protocols of the HTTP client, and the encoding of requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol

from opsdk.errors import UsageError

Pairs = Sequence[tuple[str, str]]
Check = Callable[[], None]
"""Returns if a request may be sent now, and raises if not. Called once or more for each request."""
CheckFor = Callable[[str, str], Check | None]
"""Returns the check for a request of this method and target; None if it needs none."""


def unchecked(method: str, target: str) -> None:
    """The `CheckFor` of clients that check nothing."""


class ResponseStream(Protocol):
    """A response whose head has arrived. The body is read in chunks."""

    status: int
    headers: dict[str, str]

    async def read(self) -> bytes:
        """Return the next bytes, empty at the end. Raises `ConnectionLostError` if the body is cut off."""
        ...

    async def aclose(self) -> None:
        """Release the connection, or close it if the body was not read to its end. Idempotent."""
        ...


class ConnectionBackend(Protocol):
    """Carries out exchanges: a connection pool, or an application in this process."""

    async def exchange(self, method: str, target: str, headers: Pairs, body: bytes) -> ResponseStream:
        """Send one request and return when the response head has arrived."""
        ...

    def drain(self) -> None:
        """Use no existing connection for a new exchange. Running exchanges continue."""
        ...

    async def aclose(self) -> None:
        """Close everything. Idempotent."""
        ...


def encode_request(method: str, target: str, headers: Pairs, body: bytes) -> bytes:
    """Return the bytes of a request. Raises `UsageError` for a character that would end a line early."""
    if not method.isalpha() or not target.isascii() or not target.isprintable() or " " in target:
        raise UsageError(f"{method} {target!r} is not a valid request line: escape the path and the query")
    length = f"Content-Length: {len(body)}\r\n" if body or method in {"POST", "PUT", "PATCH"} else ""
    return f"{method} {target} HTTP/1.1\r\n{_header_lines(tuple(headers))}{length}\r\n".encode() + body


# A client sends the same few sets of headers again and again.
@lru_cache(maxsize=64)
def _header_lines(headers: tuple[tuple[str, str], ...]) -> str:
    """Return the lines of the headers. Raises `UsageError`."""
    lines = []
    for name, value in headers:
        if not name or not name.isascii() or any(c in name for c in " :\r\n\0") or any(c in value for c in "\r\n\0"):
            # The message leaves out the value, which may be a secret.
            raise UsageError(f"header {name!r} is not a valid header name, or its value contains a line break")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines)
