"""Runs a command in a container over a WebSocket.

Upstream: k8s.io/client-go/tools/remotecommand/websocket.go (v1.36)
Deviates: never falls back to SPDY. Every API server accepts WebSockets; version 1.30 added the end of stdin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.errors import ConnectionLostError, UsageError
from opsdk.http.channels import CLOSE, Channel
from opsdk.http.client.request import MessageStream
from opsdk.pods.command_output import CommandOutput
from opsdk.pods.requests import connect_request
from opsdk.rest.request import RestRequest

_V5 = "v5.channel.k8s.io"
_V4 = "v4.channel.k8s.io"
# Bytes of one message. The server refuses those above 4 MiB.
_PIECE = 32 * 1024


def exec_request(pod: ObjectKey | str, command: Sequence[str], *, container: str, has_stdin: bool) -> RestRequest:
    """Return the request for a command. Raises `UsageError`."""
    if isinstance(command, str) or not command or not all(isinstance(word, str) for word in command):
        raise UsageError(f"the command is {command!r}: write a list of words, such as ['ls', '/']; no shell splits it")
    query = [("command", word) for word in command]
    query += [("container", container)] if container else []
    query += [("stdin", "true")] if has_stdin else []
    query += [("stdout", "true"), ("stderr", "true")]
    # Without v5 a command that reads stdin would wait for its end.
    return connect_request(pod, "exec", query, _V5 if has_stdin else f"{_V5}, {_V4}")


async def communicate(socket: MessageStream, output: CommandOutput, stdin: bytes | None) -> None:
    """Send all input and gather all output, until the command has ended.

    Raises what `MessageStream.read` and `CommandOutput.feed` raise. A command that ends before it has read its input is
    no error.
    """
    if stdin is None:
        await _receive_all(socket, output)
        return
    sending = asyncio.ensure_future(_send_all(socket, stdin))
    receiving = asyncio.ensure_future(_receive_all(socket, output))
    try:
        await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
        if not receiving.done():
            sending.result()  # such as the refusal of a fence
        await receiving
    finally:
        sending.cancel()
        receiving.cancel()
        await asyncio.gather(sending, receiving, return_exceptions=True)


async def _receive_all(socket: MessageStream, output: CommandOutput) -> None:
    while not output.is_complete and (message := await socket.read()):
        output.feed(message)


async def _send_all(socket: MessageStream, stdin: bytes) -> None:
    view = memoryview(stdin)
    with suppress(ConnectionLostError):  # the command has ended, or the reader gets the same error
        for start in range(0, len(stdin), _PIECE):
            await socket.send(bytes((Channel.STDIN,)) + view[start : start + _PIECE])
        await socket.send(bytes((CLOSE, Channel.STDIN)))
