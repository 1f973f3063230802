"""A server connection after an upgrade: bytes in, bytes out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from opsdk.errors import ConnectionLostError

_HIGH_WATER = 64 * 1024
"""Unread bytes above which the connection stops reading."""
SENDS_AT_ONCE: Final = 16
"""Messages, or parts of 64 KiB, that one response sends before the event loop serves others: 1 MiB at most."""


class UpgradePort(Protocol):
    """The methods of a connection that an upgraded stream uses."""

    @property
    def closing(self) -> bool:
        """Whether nothing more can be sent."""
        ...

    def write(self, data: bytes) -> None:
        """Send or buffer `data`."""
        ...

    async def drained(self) -> None:
        """Return when the write buffer has room, or the connection is closed."""
        ...

    def hold(self, *, reading: bool) -> None:
        """Pause or resume reading."""
        ...


Upgrade = Callable[[list[tuple[bytes, bytes]]], "UpgradedStream"]
"""Sends 101 with the given headers, and returns the stream."""


class UpgradedStream:
    """Both directions of an upgraded connection. One reader, any number of writers."""

    def __init__(self, connection: UpgradePort, close: Callable[[], None]) -> None:
        self._connection = connection
        self._close = close
        self._unread = bytearray()
        self._event = asyncio.Event()
        self._sends = 0
        self.ended = False

    def __repr__(self) -> str:
        return f"<UpgradedStream: {len(self._unread)} bytes unread{', ended' if self.ended else ''}>"

    def feed(self, data: bytes) -> None:
        """Add bytes from the client."""
        self._unread += data
        if len(self._unread) > _HIGH_WATER:
            self._connection.hold(reading=False)
        self._event.set()

    def end(self) -> None:
        """The client sends no more bytes."""
        self.ended = True
        self._event.set()

    async def read(self) -> bytes:
        """Wait for bytes from the client and return them. Empty at the end."""
        while not self._unread and not self.ended:
            self._event.clear()
            await self._event.wait()
        data = bytes(self._unread)
        self._unread.clear()
        self._connection.hold(reading=True)
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait while the client does not read. Gives the loop a turn after each `SENDS_AT_ONCE`.

        Raises:
            ConnectionLostError: the connection has ended.
        """
        if self._connection.closing:
            raise ConnectionLostError("the connection has ended")
        self._connection.write(data)
        self._sends += 1
        if self._sends % SENDS_AT_ONCE == 0:
            await asyncio.sleep(0)
        await self._connection.drained()

    def close(self) -> None:
        """Send what was written, then close the connection. Idempotent."""
        self.end()
        self._close()
