"""The requests of a run, and what they are about."""

from __future__ import annotations

import zlib
from contextvars import ContextVar

import msgspec

from opsdk.engine import request_kinds


class Exchange(msgspec.Struct, kw_only=True):
    """One request of a replica, and its response.

    Attributes:
        time: loop time in seconds when the client sent it.
        client: the name of the client.
        target: path and query.
        body: the request body; complete when the response has begun.
        status: the HTTP status that the server gave, or 0; the client may have received another one or none.
        fault: the fault that hit the request, or empty.
        digest: CRC-32 of the bytes that the client received.
        is_watch: whether the request is a watch.
        revision: of the storage after the last write that the request caused; 0 if it changed nothing.
    """

    time: float
    client: str
    method: str
    target: str
    body: bytes = b""
    status: int = 0
    fault: str = ""
    digest: int = 0
    is_watch: bool = False
    revision: int = 0

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def is_write(self) -> bool:
        """Whether the request changes objects."""
        return request_kinds.is_write(self.method)

    @property
    def is_lease(self) -> bool:
        """Whether it is about a Lease."""
        return request_kinds.is_lease(self.path)

    @property
    def is_event(self) -> bool:
        """Whether it is about an Event."""
        return request_kinds.is_event(self.path)

    @property
    def changes_state(self) -> bool:
        """Whether it is a write that leadership has to guard."""
        return request_kinds.changes_state(self.method, self.path)

    @property
    def succeeded(self) -> bool:
        """Whether the server accepted it."""
        return 200 <= self.status < 300

    @property
    def changed(self) -> bool:
        """Whether the server stored something new."""
        return self.revision > 0

    def __str__(self) -> str:
        fault = f" {self.fault}" if self.fault else ""
        sent, received = f"{zlib.crc32(self.body):08x}", f"{self.digest:08x}"
        return f"{self.time:.6f} {self.client} {self.method} {self.target} {sent}: {self.status}{fault} {received}"


CURRENT_EXCHANGE: ContextVar[Exchange | None] = ContextVar("exchange", default=None)
"""The write that the server handles in this context: what it stores there is an effect of that write."""
