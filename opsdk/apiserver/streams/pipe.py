"""Byte pipes between a client and a simulated container or port."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

__all__ = ["Pipe"]

_KEPT = 256 * 1024
"""Most buffered bytes of input before `feed` waits."""


class Pipe:
    """A pair of streams: one inbound, one outbound.

    Attributes:
        size: columns and rows of the client's terminal, or None.
    """

    def __init__(self, send: Callable[[int, bytes], Awaitable[None]], *, out: int, errors: int) -> None:
        self._send = send
        self._out = out
        self._errors = errors
        self._waiting = bytearray()
        self._ended = False
        self._changed = asyncio.Condition()
        self.size: tuple[int, int] | None = None

    async def read(self) -> bytes:
        """Wait for input and return it; empty at the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._waiting or self._ended)
            data = bytes(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
            return data

    async def read_all(self) -> bytes:
        """Wait for all input and return it."""
        data = bytearray()
        while piece := await self.read():
            data += piece
        return bytes(data)

    async def write(self, data: bytes | str) -> None:
        """Write to stdout, or to the client of the port."""
        await self._send(self._out, data.encode() if isinstance(data, str) else data)

    async def write_error(self, data: bytes | str) -> None:
        """Write to stderr, or to a port's error stream."""
        await self._send(self._errors, data.encode() if isinstance(data, str) else data)

    async def feed(self, data: bytes) -> None:
        """Add input; waits while the buffer is full."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._waiting) < _KEPT or self._ended)
            self._waiting += data
            self._changed.notify_all()

    async def end(self) -> None:
        """Mark the end of input."""
        async with self._changed:
            self._ended = True
            self._changed.notify_all()
