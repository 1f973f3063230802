"""WATCH over a WebSocket, with one message for each event.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/watch.go (v1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing

from opsdk.apiserver.endpoints.call import Call
from opsdk.errors import ApiError
from opsdk.http.server.response import HttpResponse
from opsdk.http.server.unread import until_stalled
from opsdk.http.server.websocket import WebSocket, accept_websocket


def events_of(chunk: bytes, *, framed: bool) -> Iterator[bytes | str]:
    r"""Yield the messages of a chunk, which has whole lines, or whole length-prefixed frames.

    >>> list(events_of(b'{"a":1}\n{"b":2}\n', framed=False))
    ['{"a":1}', '{"b":2}']
    >>> list(events_of(b"\x00\x00\x00\x01a\x00\x00\x00\x02bc", framed=True))
    [b'a', b'bc']
    """
    if not framed:
        yield from (line.decode() for line in chunk.split(b"\n") if line)
        return
    offset = 0
    while offset < len(chunk):
        end = offset + 4 + int.from_bytes(chunk[offset : offset + 4], "big")
        yield chunk[offset + 4 : end]
        offset = end


async def _events(chunks: AsyncGenerator[bytes, None], *, framed: bool) -> AsyncGenerator[bytes | str, None]:
    async with aclosing(chunks):
        async for chunk in chunks:
            for event in events_of(chunk, framed=framed):
                yield event


def watch_socket(
    call: Call, chunks: AsyncGenerator[bytes, None], *, framed: bool, release: Callable[[], None] | None
) -> HttpResponse:
    """Return the response that sends the watch as WebSocket messages; messages of the client are ignored.

    `release` is called at the end, even if the stream never started.
    """

    async def send(socket: WebSocket) -> None:
        events = until_stalled(_events(chunks, framed=framed), call.http.cut, call.user.name, ends_when_full=True)
        async with aclosing(events):
            async for event in events:
                await socket.send(event)
        await socket.close()

    async def listen(socket: WebSocket) -> None:
        while await socket.receive() is not None:
            continue

    async def run(socket: WebSocket, _protocol: str) -> None:
        tasks = [asyncio.ensure_future(send(socket)), asyncio.ensure_future(listen(socket))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    try:
        return accept_websocket(call.http, ("",), run, release=release)
    except ApiError:
        if release is not None:
            release()
        raise
