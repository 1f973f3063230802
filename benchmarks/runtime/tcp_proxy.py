"""A TCP proxy that can be cut, as a network partition does it: nothing arrives, and nothing is refused."""

from __future__ import annotations

import asyncio
from typing import Self

from opsdk.aio.tasks import TaskOwner

_CHUNK = 65_536


class TcpProxy:
    """Forwards connections to one address. An async context manager.

    After a cut, the connections from before are reset: what was on its way is lost and does not arrive late.

    Args:
        host: where to connect to.
        port: the same.

    Attributes:
        port: where it listens, on 127.0.0.1.
    """

    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self._target = (host, port)
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks = TaskOwner("proxy")

    def cut(self) -> None:
        """Forward nothing from now on. Connections stay open, and new ones are accepted."""
        self._open.clear()

    def heal(self) -> None:
        """Reset the connections, and forward the next ones."""
        for writer in self._writers:
            writer.transport.abort()
        self._open.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        try:
            back, there = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, there}
        self._writers |= pair
        try:
            both = [self._tasks.start(self._forward(*way), name="way") for way in ((reader, there), (back, writer))]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for way in both:
                way.cancel()
        finally:
            self._writers -= pair
            for end in pair:
                end.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(_CHUNK):
                # Bytes that arrive during a cut are held until the connection is reset.
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            return  # one end is gone, so the connection ends

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.heal()
        await self._tasks.aclose()
        await self._server.wait_closed()

    def __repr__(self) -> str:
        return f"<TcpProxy {self.port}{'' if self._open.is_set() else ', cut'}>"
