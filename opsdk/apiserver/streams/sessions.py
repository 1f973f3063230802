"""Commands and ports over a WebSocket.

Whoever plays the container reads and writes, and is cancelled when nobody listens any more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from opsdk.apiserver.streams.channels import Channel, Dialect, Piece, failure, outcome, read_size, told
from opsdk.errors import ConnectionLostError
from opsdk.web.websocket import WebSocket

_KEPT = 256 * 1024
"""Bytes of input that wait to be read before the client is slowed down."""


class Pipe:
    """One stream that comes in, and one that goes out.

    Attributes:
        size: columns and rows of the client's terminal, as far as they are known.
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
        """What has come since; waits for something. Empty at the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._waiting or self._ended)
            found = bytes(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
            return found

    async def read_all(self) -> bytes:
        """Everything up to the end."""
        found = bytearray()
        while piece := await self.read():
            found += piece
        return bytes(found)

    async def write(self, data: bytes | str) -> None:
        """To the standard output, or to whoever has connected to the port."""
        await self._send(self._out, data.encode() if isinstance(data, str) else data)

    async def write_error(self, data: bytes | str) -> None:
        """To the standard error output; of a port, why it does not work."""
        await self._send(self._errors, data.encode() if isinstance(data, str) else data)

    async def feed(self, data: bytes) -> None:
        """Some input; waits while much of it is not read yet."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._waiting) < _KEPT or self._ended)
            self._waiting += data
            self._changed.notify_all()

    async def end(self) -> None:
        """There will be no more input."""
        async with self._changed:
            self._ended = True
            self._changed.notify_all()


async def command(
    socket: WebSocket, dialect: Dialect, run: Callable[[Pipe], Awaitable[int | None]], *, stdin: bool, first: int
) -> None:
    """Run something for a client: returns when it has ended, or when the client has gone.

    `run` returns the exit code; what it raises is told as an internal error. `first` is the channel on which the
    client is told that the connection is there.
    """
    line = _Line(socket, dialect)
    pipe = Pipe(line.send, out=Channel.STDOUT, errors=Channel.STDERR)
    if not stdin:
        await pipe.end()

    async def take(piece: Piece) -> None:
        if piece.channel == Channel.RESIZE:
            pipe.size = read_size(piece.data) or pipe.size
        elif piece.channel == Channel.STDIN and stdin:
            await (pipe.end() if piece.ends else pipe.feed(piece.data))

    async def work() -> None:
        await line.send(first, b"")
        try:
            status = outcome(await run(pipe) or 0)
        except ConnectionLostError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a test's container does, its client is told
            status = failure(f"error executing command in container: {error}")
        if text := told(dialect, status):
            await line.send(Channel.ERROR, text)

    await line.until_done(work(), take, pipe.end)


async def ports(
    socket: WebSocket, dialect: Dialect, run: Callable[[int, Pipe], Awaitable[None]], numbers: Sequence[int]
) -> None:
    """Connect a client to ports, one connection to each; returns when all have ended, or when the client has gone."""
    line = _Line(socket, dialect)
    pipes = [Pipe(line.send, out=2 * i, errors=2 * i + 1) for i in range(len(numbers))]

    async def take(piece: Piece) -> None:
        place, odd = divmod(piece.channel, 2)
        if place < len(pipes) and not odd:
            await pipes[place].feed(piece.data)

    async def work() -> None:
        for i, number in enumerate(numbers):
            # Both channels of a port begin with its number.
            for channel in (2 * i, 2 * i + 1):
                await line.send(channel, number.to_bytes(2, "little"))
        await asyncio.gather(*(_forward(run, number, pipe) for number, pipe in zip(numbers, pipes, strict=True)))

    async def end() -> None:
        for pipe in pipes:
            await pipe.end()

    await line.until_done(work(), take, end)


async def _forward(run: Callable[[int, Pipe], Awaitable[None]], number: int, pipe: Pipe) -> None:
    try:
        await run(number, pipe)
    except ConnectionLostError:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        await pipe.write_error(f"error forwarding port {number} to pod: {error}")


class _Line:
    def __init__(self, socket: WebSocket, dialect: Dialect) -> None:
        self._socket = socket
        self._dialect = dialect

    async def send(self, channel: int, data: bytes) -> None:
        await self._socket.send(self._dialect.write(channel, data))

    async def until_done(
        self,
        work: Coroutine[Any, Any, None],
        take: Callable[[Piece], Awaitable[None]],
        end: Callable[[], Awaitable[None]],
    ) -> None:
        """Work while the client listens."""

        async def listen() -> None:
            while (message := await self._socket.receive()) is not None:
                piece = self._dialect.read(message)
                if piece is not None:
                    await take(piece)
            await end()

        working, listening = asyncio.ensure_future(work), asyncio.ensure_future(listen())
        try:
            await asyncio.wait((working, listening), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                with contextlib.suppress(ConnectionLostError):
                    working.result()
                await self._socket.close()
        finally:
            for task in (working, listening):
                task.cancel()
            await asyncio.gather(working, listening, return_exceptions=True)
