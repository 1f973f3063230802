"""The port of the HTTP client, and the bytes of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from opsdk.errors import UsageError

Pairs = Sequence[tuple[str, str]]


class ResponseStream(Protocol):
    """An answer whose head has arrived; the body is read piece by piece."""

    status: int
    headers: dict[str, str]

    async def read(self) -> bytes:
        """The next bytes, empty at the end; `ConnectionLostError` where the answer was cut."""
        ...

    async def aclose(self) -> None:
        """Give the connection back, or end it if the body was not read whole; idempotent."""
        ...


class ConnectionBackend(Protocol):
    """Where exchanges happen: a pool of connections, or an application in this process."""

    async def exchange(self, method: str, target: str, headers: Pairs, body: bytes) -> ResponseStream:
        """Send one request, and wait for the head of the answer."""
        ...

    def drain(self) -> None:
        """Use no present connection for a new exchange; those underway go on."""
        ...

    async def aclose(self) -> None:
        """End everything; idempotent."""
        ...


def encode_request(method: str, target: str, headers: Pairs, body: bytes) -> bytes:
    """The bytes of a request; `UsageError` on anything that would end a line early."""
    if not method.isalpha() or not target.isascii() or not target.isprintable() or " " in target:
        raise UsageError(f"{method} {target!r} is no request line: escape the path and the query")
    lines = [f"{method} {target} HTTP/1.1\r\n"]
    for name, value in headers:
        if not name or not name.isascii() or any(c in name for c in " :\r\n\0") or any(c in value for c in "\r\n\0"):
            # The value may be a secret.
            raise UsageError(f"header {name!r} holds a character that ends a line or is no header name")
        lines.append(f"{name}: {value}\r\n")
    if body or method in {"POST", "PUT", "PATCH"}:
        lines.append(f"Content-Length: {len(body)}\r\n")
    lines.append("\r\n")
    return "".join(lines).encode() + body
