"""Exec, attach and port-forward, independent of the client's protocol.

A responder simulates the container. The server cancels it when the client disconnects.

Upstream: k8s.io/kubelet/pkg/cri/streaming/remotecommand (v1.36).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from opsdk.apiserver.streams.channels import Dialect, Piece, encode_status, exit_status, failure, read_size
from opsdk.apiserver.streams.pipe import Pipe
from opsdk.errors import ConnectionLostError
from opsdk.http.channels import StreamChannel
from opsdk.http.server.websocket import WebSocket
from opsdk.structured_merge.value import JsonObject

MOST_PORTS = 128
"""Ports of one WebSocket: each has two channels, whose numbers are one byte."""


class RemoteCommandStream(Protocol):
    """The channels of one client.

    Attributes:
        status: whether the final status is a Status object; otherwise it is text.
    """

    status: bool

    async def send(self, channel: int, data: bytes) -> None:
        """Send data on a channel; waits while the client does not read.

        Raises:
            ConnectionLostError: the client has disconnected.
        """
        ...

    async def receive(self) -> Piece | None:
        """Return the next message; None at the end."""
        ...

    async def close(self) -> None:
        """Close the stream after all sent data."""
        ...


class WebSocketStream:
    """The channels of a WebSocket."""

    def __init__(self, socket: WebSocket, dialect: Dialect) -> None:
        self._socket = socket
        self._dialect = dialect
        self.status = dialect.status

    async def send(self, channel: int, data: bytes) -> None:
        await self._socket.send(self._dialect.write(channel, data))

    async def receive(self) -> Piece | None:
        """See `RemoteCommandStream`; messages of other protocols are ignored."""
        while (message := await self._socket.receive()) is not None:
            if (piece := self._dialect.read(message)) is not None:
                return piece
        return None

    async def close(self) -> None:
        await self._socket.close()


async def command(
    line: RemoteCommandStream, run: Callable[[Pipe], Awaitable[int | None]], *, stdin: bool, first: int | None = None
) -> None:
    """Run a command for a client. Return when it has ended, or the client has disconnected.

    `run` returns the exit code; an exception is sent as an internal error. `first` is the channel on which WebSocket
    clients get an empty message when the connection is established.
    """
    pipe = Pipe(line.send, out=StreamChannel.STDOUT, errors=StreamChannel.STDERR)
    if not stdin:
        await pipe.end()

    async def take(piece: Piece) -> None:
        if piece.channel == StreamChannel.RESIZE:
            pipe.size = read_size(piece.data) or pipe.size
        elif piece.channel == StreamChannel.STDIN and stdin:
            if piece.data:
                await pipe.feed(piece.data)
            if piece.ends:
                await pipe.end()

    async def work() -> None:
        if first is not None:
            await line.send(first, b"")
        status = await _ended(run, pipe)
        if text := encode_status(status, as_object=line.status):
            await line.send(StreamChannel.ERROR, text)

    await _until_done(line, work(), take, pipe.end)


async def _ended(run: Callable[[Pipe], Awaitable[int | None]], pipe: Pipe) -> JsonObject:
    try:
        return exit_status(await run(pipe) or 0)
    except ConnectionLostError:
        raise
    except Exception as error:  # noqa: BLE001 - any error of a simulated container is sent to the client
        return failure(f"error executing command in container: {error}")


async def ports(line: RemoteCommandStream, run: Callable[[int, Pipe], Awaitable[None]], numbers: Sequence[int]) -> None:
    """Connect a client to ports, one connection each. Return when all have ended, or the client has disconnected."""
    pipes = [Pipe(line.send, out=2 * i, errors=2 * i + 1) for i in range(len(numbers))]

    async def take(piece: Piece) -> None:
        place, odd = divmod(piece.channel, 2)
        if place < len(pipes) and not odd:
            await pipes[place].feed(piece.data)

    async def work() -> None:
        for i, number in enumerate(numbers):
            # Both channels of a port begin with the port number.
            for channel in (2 * i, 2 * i + 1):
                await line.send(channel, number.to_bytes(2, "little"))
        await asyncio.gather(*(forward(run, number, pipe) for number, pipe in zip(numbers, pipes, strict=True)))

    async def end() -> None:
        for pipe in pipes:
            await pipe.end()

    await _until_done(line, work(), take, end)


async def forward(run: Callable[[int, Pipe], Awaitable[None]], number: int, pipe: Pipe) -> None:
    """Serve one connection to a port; the error stream reports exceptions of the listener."""
    try:
        await run(number, pipe)
    except ConnectionLostError:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        await pipe.write_error(f"error forwarding port {number} to pod: {error}")


async def _until_done(
    line: RemoteCommandStream,
    work: Coroutine[Any, Any, None],
    take: Callable[[Piece], Awaitable[None]],
    end: Callable[[], Awaitable[None]],
) -> None:
    """Run `work` until it ends, or the client disconnects."""

    async def listen() -> None:
        while (piece := await line.receive()) is not None:
            await take(piece)
        await end()

    working, listening = asyncio.ensure_future(work), asyncio.ensure_future(listen())
    try:
        await asyncio.wait((working, listening), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            with contextlib.suppress(ConnectionLostError):
                working.result()
            await line.close()
    finally:
        for task in (working, listening):
            task.cancel()
        await asyncio.gather(working, listening, return_exceptions=True)
