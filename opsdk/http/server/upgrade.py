"""A connection after another protocol took over: bytes in, bytes out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from opsdk.errors import ConnectionLostError

_HIGH = 64 * 1024
"""Bytes that wait to be read before the client is slowed down."""


class UpgradePort(Protocol):
    """What a tunnel asks of its connection."""

    @property
    def closing(self) -> bool:
        """Whether nothing more can be sent."""
        ...

    def write(self, data: bytes) -> None:
        """Send, or keep until it can be sent."""
        ...

    async def drained(self) -> None:
        """Return when what is kept is little, or the client gone."""
        ...

    def hold(self, *, reading: bool) -> None:
        """Stop reading, or go on."""
        ...


Upgrade = Callable[[list[tuple[bytes, bytes]]], "UpgradedStream"]
"""Answers 101 with headers; what the connection is from then on."""


class UpgradedStream:
    """Both directions of one connection. One reader, any number of writers."""

    def __init__(self, line: UpgradePort, close: Callable[[], None]) -> None:
        self._line = line
        self._close = close
        self._waiting = bytearray()
        self._event = asyncio.Event()
        self.ended = False

    def __repr__(self) -> str:
        return f"<Tunnel: {len(self._waiting)} bytes wait{', ended' if self.ended else ''}>"

    def feed(self, data: bytes) -> None:
        """The client has sent something."""
        self._waiting += data
        if len(self._waiting) > _HIGH:
            self._line.hold(reading=False)
        self._event.set()

    def end(self) -> None:
        """The client will send nothing more."""
        self.ended = True
        self._event.set()

    async def read(self) -> bytes:
        """What has come since; waits for something. Empty when the client will send nothing more."""
        while not self._waiting and not self.ended:
            self._event.clear()
            await self._event.wait()
        data = bytes(self._waiting)
        self._waiting.clear()
        self._line.hold(reading=True)
        return data

    async def write(self, data: bytes) -> None:
        """Send; waits while the client does not read.

        Raises:
            ConnectionLostError: the connection has ended.
        """
        if self._line.closing:
            raise ConnectionLostError("the connection has ended")
        self._line.write(data)
        await self._line.drained()

    def close(self) -> None:
        """End the connection when everything is sent; idempotent."""
        self.end()
        self._close()
