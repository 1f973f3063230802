"""Exec, attach and port-forward over SPDY, with one stream for each channel.

Upstream: k8s.io/kubelet/pkg/cri/streaming/remotecommand/httpstream.go (v1.36).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet

import msgspec

from opsdk.apiserver.streams import spdy
from opsdk.apiserver.streams.channels import Piece
from opsdk.apiserver.streams.pipe import Pipe
from opsdk.apiserver.streams.remote_command import forward
from opsdk.errors import BadRequestError, ConnectionLostError
from opsdk.http.channels import StreamChannel

_PATIENCE = 30.0
"""Seconds for a client to open the requested streams."""
_MOST_STREAMS = 256
"""Most open streams of one client."""
_MOST_EARLY = 1 << 20
"""Bytes that a client may send before it has opened its streams."""
_EVENT_BYTES = 100
LAST_PORT = 65535
_PORT_DIGITS = 5
_SIZED = ("v4.channel.k8s.io", "v3.channel.k8s.io")


def parse_port(text: str) -> int | None:
    """Return a port number; None for any other text.

    >>> parse_port("80"), parse_port("0"), parse_port("65536"), parse_port("\u00b2")
    (80, None, None, None)
    """
    if not text.isascii() or not text.isdigit() or len(text) > _PORT_DIGITS:
        return None
    return int(text) if 1 <= int(text) <= LAST_PORT else None


def stream_types(version: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> frozenset[str]:
    """Return the types of the streams that a client opens for a command.

    >>> sorted(stream_types("v4.channel.k8s.io", stdin=False, stdout=True, stderr=False, tty=True))
    ['error', 'resize', 'stdout']
    """
    enabled = {"stdin": stdin, "stdout": stdout, "stderr": stderr, "resize": tty and version in _SIZED, "error": True}
    return frozenset(name for name, is_enabled in enabled.items() if is_enabled)


class SpdyConnection:
    """The server's side of a SPDY connection, which replies to pings. It has one reader and any number of writers."""

    def __init__(self, read: Callable[[], Awaitable[bytes]], write: Callable[[bytes], Awaitable[None]]) -> None:
        self._read = read
        self._write = write
        self._reader = spdy.SpdyReader()
        self._writer = spdy.SpdyWriter()
        self._events: deque[spdy.Event] = deque()
        self._open: set[int] = set()
        self._last = 0
        self._garbled = False

    async def receive(self) -> spdy.Event | None:
        """Return the next event; None after a disconnect or a protocol error."""
        while True:
            while self._events:
                event = self._events.popleft()
                if isinstance(event, spdy.Ping):
                    await self._write(spdy.pong(event.number))
                else:
                    return event
            data = b"" if self._garbled else await self._read()
            if not data:
                return None
            try:
                self._events.extend(self._reader.feed(data))
            except BadRequestError:
                self._garbled = True  # earlier events are still returned

    async def accept(self, stream: int) -> bool:
        """Accept a stream that the client opens.

        Return False if it has too many, or its number is even or not the largest so far. Otherwise a new
        stream could take the place of one whose connection has not ended yet.
        """
        if stream <= self._last or not stream % 2 or len(self._open) >= _MOST_STREAMS:
            await self.refuse(stream)
            return False
        self._open.add(stream)
        self._last = stream
        await self._write(self._writer.reply(stream))
        return True

    async def refuse(self, stream: int) -> None:
        """Refuse a stream."""
        await self._write(spdy.refuse(stream))

    async def send(self, stream: int, data: bytes) -> None:
        """Send data on an open stream; waits while the client does not read.

        Raises:
            ConnectionLostError: the connection has ended.
        """
        if data and stream in self._open:
            await self._write(spdy.carry(stream, data))

    async def end(self, stream: int) -> None:
        """Close the server's side of a stream; idempotent."""
        if stream in self._open:
            self._open.discard(stream)
            await self._write(spdy.carry(stream, ends=True))

    def drop_stream(self, stream: int) -> None:
        """Drop the state of an aborted stream."""
        self._open.discard(stream)

    async def close(self) -> None:
        """Close every stream with GOAWAY; does nothing after a disconnect."""
        with contextlib.suppress(ConnectionLostError):
            for stream in sorted(self._open):
                await self.end(stream)
            await self._write(spdy.leave(self._last))


# ------------------------------------------------------------------ commands
_CHANNELS = {
    "stdin": StreamChannel.STDIN,
    "stdout": StreamChannel.STDOUT,
    "stderr": StreamChannel.STDERR,
    "error": StreamChannel.ERROR,
    "resize": StreamChannel.RESIZE,
}


class SpdyStream:
    """The channels of a command; see `RemoteCommandStream`."""

    def __init__(self, connection: SpdyConnection, *, status: bool) -> None:
        self._connection = connection
        self._streams: dict[int, int] = {}
        self._early: deque[spdy.Event] = deque()
        self.status = status

    async def open(self, types: AbstractSet[str]) -> bool:
        """Wait until the client has opened all requested streams.

        Return False after a timeout, or if the client sends too much before.
        """
        missing = set(types)
        early_bytes = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while missing and (event := await self._connection.receive()) is not None:
                    if not isinstance(event, spdy.SynStream):
                        early_bytes += len(event.data) + _EVENT_BYTES if isinstance(event, spdy.Data) else _EVENT_BYTES
                        if early_bytes > _MOST_EARLY:
                            return False
                        self._early.append(event)
                        continue
                    kind = event.headers.get("streamtype", "")
                    if kind not in missing:
                        await self._connection.refuse(event.stream)
                    elif await self._connection.accept(event.stream):
                        missing.discard(kind)
                        self._streams[_CHANNELS[kind]] = event.stream
        return not missing

    async def send(self, channel: int, data: bytes) -> None:
        """See `RemoteCommandStream`; data for channels that the client did not request is dropped."""
        if channel in self._streams:
            await self._connection.send(self._streams[channel], data)

    async def receive(self) -> Piece | None:
        channels = {stream: channel for channel, stream in self._streams.items()}
        while (event := (self._early.popleft() if self._early else await self._connection.receive())) is not None:
            match event:
                case spdy.Data(stream=stream, data=data, ends=ends) if stream in channels:
                    return Piece(channel=channels[stream], data=data, ends=ends)
                case spdy.SynStream(stream=stream):
                    await self._connection.refuse(stream)
                case spdy.RstStream(stream=stream):
                    self._connection.drop_stream(stream)
                case _:
                    continue
        return None

    async def close(self) -> None:
        await self._connection.close()


# ------------------------------------------------------------------ ports
class _Pair(msgspec.Struct):
    """The two streams of a port connection."""

    port: int
    data: int = 0
    error: int = 0


class Forwarding:
    """The port connections of a client to a pod."""

    def __init__(self, connection: SpdyConnection, run: Callable[[int, Pipe], Awaitable[None]]) -> None:
        self._connection = connection
        self._run = run
        self._pairs: dict[str, _Pair] = {}
        self._half_open: dict[int, str] = {}
        self._pipes: dict[int, Pipe] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Return when the client has disconnected."""
        try:
            while (event := await self._connection.receive()) is not None:
                match event:
                    case spdy.SynStream():
                        await self._begin(event)
                    case spdy.Data(stream=stream, data=data, ends=ends) if stream in self._pipes:
                        if data:
                            await self._pipes[stream].feed(data)
                        if ends:
                            await self._pipes[stream].end()
                    case spdy.RstStream(stream=stream):
                        self._reset(stream)
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _reset(self, stream: int) -> None:
        """The client aborts a stream. A stream with a connection stays counted until the connection has ended."""
        if stream in self._tasks:
            self._tasks[stream].cancel()
            return
        self._connection.drop_stream(stream)
        if (request_id := self._half_open.pop(stream, None)) is not None:
            del self._pairs[request_id]

    async def _begin(self, event: spdy.SynStream) -> None:
        """Accept a stream of a port forward; a pair of streams starts a connection."""
        kind, text = event.headers.get("streamtype", ""), event.headers.get("port", "")
        port = parse_port(text)
        if kind not in ("data", "error") or port is None:
            await self._connection.refuse(event.stream)
            return
        request_id = event.headers.get("requestid", text)
        pair = self._pairs.get(request_id) or _Pair(port)
        if getattr(pair, kind):  # the pair has such a stream
            await self._connection.refuse(event.stream)
            return
        if not await self._connection.accept(event.stream):
            return
        self._pairs[request_id] = pair
        self._half_open[event.stream] = request_id
        if kind == "data":
            pair.data = event.stream
        else:
            pair.error = event.stream
        if pair.data and pair.error:
            del self._pairs[request_id], self._half_open[pair.data], self._half_open[pair.error]
            pipe = self._pipes[pair.data] = Pipe(self._connection.send, out=pair.data, errors=pair.error)
            self._tasks[pair.data] = asyncio.create_task(self._connect(pair, pipe))

    async def _connect(self, pair: _Pair, pipe: Pipe) -> None:
        try:
            await forward(self._run, pair.port, pipe)
            await self._connection.end(pair.data)
            await self._connection.end(pair.error)
        except ConnectionLostError:
            return  # the connection has ended
        finally:
            await pipe.end()
            del self._pipes[pair.data], self._tasks[pair.data]
            self._connection.drop_stream(pair.data)
            self._connection.drop_stream(pair.error)
