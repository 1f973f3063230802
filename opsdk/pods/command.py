"""Runs a command in a container over a WebSocket.

Upstream: k8s.io/client-go/tools/remotecommand/websocket.go (v1.36)
Deviates: never falls back to SPDY. Every API server accepts WebSockets; version 1.30 added the end of stdin
(TranslateStreamCloseWebsocketRequests, on by default since then).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Self

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.errors import ConnectionLostError, DeadlineError, UsageError
from opsdk.http.channels import CLOSE, StreamChannel
from opsdk.http.client.request import MessageStream
from opsdk.pods.command_output import CommandMessages, OutputName
from opsdk.pods.requests import OPEN_TIMEOUT, connect_request
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport

__all__ = ["CommandStream"]

_TTY = "tty"
_V5 = "v5.channel.k8s.io"
_V4 = "v4.channel.k8s.io"
# Bytes of one message. The server refuses those above 4 MiB.
_PIECE = 32 * 1024


def exec_request(
    pod: ObjectKey | str, command: Sequence[str], *, container: str, has_stdin: bool, tty: bool = False
) -> RestRequest:
    """Return the request for a command. Raises `UsageError`."""
    if isinstance(command, str) or not command or not all(isinstance(word, str) for word in command):
        raise UsageError(f"the command is {command!r}: write a list of words, such as ['ls', '/']; no shell splits it")
    words = [("command", word) for word in command]
    return _request(pod, "exec", words, container, _streams(has_stdin=has_stdin, tty=tty))


def attach_request(pod: ObjectKey | str, *, container: str, has_stdin: bool, tty: bool) -> RestRequest:
    """Return the request for a connection to the running process."""
    return _request(pod, "attach", [], container, _streams(has_stdin=has_stdin, tty=tty))


def _streams(*, has_stdin: bool, tty: bool) -> list[str]:
    """Return the streams of a request. A terminal has no stderr of its own."""
    return [*(["stdin"] if has_stdin else []), "stdout", _TTY if tty else "stderr"]


def _request(
    pod: ObjectKey | str, subresource: str, query: list[tuple[str, str]], container: str, streams: list[str]
) -> RestRequest:
    query += [("container", container)] if container else []
    query += [(stream, "true") for stream in streams]
    # Without v5 a command that reads stdin would wait for its end.
    return connect_request(pod, subresource, query, _V5 if "stdin" in streams else f"{_V5}, {_V4}")


class CommandStream:
    """A process in a container: its input, and its output as it arrives. See `PodClient.open_exec`.

    Iterate over it for pairs of ``"stdout"`` or ``"stderr"`` and bytes; `status` is known afterwards. A process whose
    output is not read stops at its next write, so write a large input in a task of its own.
    """

    def __init__(self, socket: MessageStream, request: RestRequest) -> None:
        self._socket = socket
        self._request = request.info
        self._has_terminal = (_TTY, "true") in request.query
        self._messages = CommandMessages()
        self._status: int | None = None

    @property
    def status(self) -> int:
        """The exit status; 0 is success. Raises `UsageError` before the end of the iteration."""
        if self._status is None:
            raise UsageError("the exit status is not known yet: iterate over the output to its end first")
        return self._status

    async def write(self, data: bytes) -> None:
        """Send input, and wait while the process does not read. Raises `ConnectionLostError`, also at its end."""
        view = memoryview(data)
        for start in range(0, len(view), _PIECE):
            await self._socket.send(bytes((StreamChannel.STDIN,)) + view[start : start + _PIECE])

    async def end_input(self) -> None:
        """Send the end of the input. Raises `ConnectionLostError`."""
        await self._socket.send(bytes((CLOSE, StreamChannel.STDIN)))

    async def resize(self, columns: int, rows: int) -> None:
        """Tell the process the size of the terminal. Raises `UsageError` without ``tty``, and `ConnectionLostError`."""
        if not self._has_terminal:
            raise UsageError("there is no terminal: pass tty=True")
        size = msgspec.json.encode({"Width": columns, "Height": rows})
        await self._socket.send(bytes((StreamChannel.RESIZE,)) + size)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[OutputName, bytes]:
        """Wait for output. Raises what `MessageStream.read` and `CommandMessages` raise."""
        while not self._messages.is_complete and (message := await self._socket.read()):
            if (output := self._messages.feed(message)) is not None:
                return output
        self._status = self._messages.exit_status(self._request)
        raise StopAsyncIteration

    def __repr__(self) -> str:
        return f"<CommandStream of Pod {self._request.namespace}/{self._request.name}>"


@asynccontextmanager
async def open_command(transport: Transport, request: RestRequest) -> AsyncIterator[CommandStream]:
    """Start a command, or attach to a process. Leaving the block closes the connection."""
    async with transport.connect(request, timeout=OPEN_TIMEOUT) as socket:
        yield CommandStream(socket, request)


async def run_command(
    transport: Transport,
    request: RestRequest,
    *,
    take: Callable[[OutputName, bytes], None],
    stdin: AsyncIterable[bytes] | None = None,
    timeout: float | None,
) -> int:
    """Run a command to its end, send it all input, and return its exit status.

    A command that ends before it has read its input is no error.

    `take` is called with each piece of output. Its exceptions, and those of `stdin`, close the connection and are
    raised, as are those of `PodClient.exec`.
    """
    limit = asyncio.timeout(timeout)
    try:
        async with limit, open_command(transport, request) as stream:
            if stdin is None:
                await _receive_all(stream, take)
            else:
                await _communicate(stream, stdin, take)
            return stream.status
    except TimeoutError as error:
        if not limit.expired():
            raise
        word = next(value for name, value in request.query if name == "command")
        late = DeadlineError(f"the command {word} did not end within {timeout:g} s: pass a longer timeout")
        late.request = request.info
        raise late from error


async def _communicate(
    stream: CommandStream, stdin: AsyncIterable[bytes], take: Callable[[OutputName, bytes], None]
) -> None:
    sending = asyncio.ensure_future(_send_all(stream, stdin))
    receiving = asyncio.ensure_future(_receive_all(stream, take))
    try:
        await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
        if not receiving.done():
            sending.result()  # such as the refusal of a fence
        await receiving
    finally:
        sending.cancel()
        receiving.cancel()
        await asyncio.gather(sending, receiving, return_exceptions=True)


async def _receive_all(stream: CommandStream, take: Callable[[OutputName, bytes], None]) -> None:
    async for name, data in stream:
        take(name, data)


async def _send_all(stream: CommandStream, stdin: AsyncIterable[bytes]) -> None:
    async for data in stdin:
        if not await _is_taken(stream.write(data)):
            return
    await _is_taken(stream.end_input())


async def _is_taken(writing: Awaitable[None]) -> bool:
    """Return False if the command has ended, or the connection is lost: then the reader gets the same error."""
    try:
        await writing
    except ConnectionLostError:
        return False
    return True


async def all_at_once(data: bytes) -> AsyncGenerator[bytes, None]:
    """Yield one input."""
    yield data
