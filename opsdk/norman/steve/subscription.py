"""A session of ``/v1/subscribe``: frames of the client start and stop watches. Without sockets.

Upstream: github.com/rancher/apiserver/pkg/subscribe/watcher.go, handler.go, debouncer.go
Deviates: a client that reads slowly waits; steve ends its watch after 10 ms. One session has at most 500 watches, and
frames of 8 KiB.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import msgspec

from opsdk.errors import OpsdkError
from opsdk.norman.errors import NormanError
from opsdk.norman.sessions import Session
from opsdk.norman.steve.watches import NOTIFICATIONS, SubscribeFrame, UserWatches
from opsdk.structured_merge.value import JsonObject

_PING_SECONDS = 30.0
_DEBOUNCE_MS = 5000
_LEAST_DEBOUNCE_MS = 10
_MAX_WATCHES = 500
_MAX_FRAME = 8 << 10


class SubscribeSession:
    """One client.

    Args:
        source: the watches of the user.
        send: sends a message as JSON; it waits while the client does not read.
        version: of the server, for the pings.
    """

    def __init__(self, source: UserWatches, send: Callable[[str], Awaitable[None]], *, version: str = "") -> None:
        self._source = source
        ping: JsonObject = {"name": "ping", "data": {"version": version}}
        self._session = Session(send, ping=ping, ping_seconds=_PING_SECONDS)
        self._frames: dict[tuple[str, ...], SubscribeFrame] = {}

    async def run(self, receive: Callable[[], Awaitable[bytes | str | None]]) -> None:
        """Serve the client until `receive` returns None, or it reads nothing. Every watch ends with the session."""
        remove = self._source.on_access_change(self._stop_all)
        try:
            await self._session.run(receive, self._on_message)
        finally:
            remove()

    def _on_message(self, message: bytes | str) -> None:
        """Start or stop the watch of a frame. A frame that is not valid, or one watch too many, is an error message."""
        if len(message) > _MAX_FRAME:
            self._error(SubscribeFrame(), f"a frame has at most {_MAX_FRAME >> 10} KiB")
            return
        try:
            frame = msgspec.json.decode(message, type=SubscribeFrame)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._error(SubscribeFrame(), f"not a subscription: {error}")
            return
        if frame.stop:
            self._stop(frame.key)
        elif len(self._frames) >= _MAX_WATCHES:
            self._error(frame, f"a session has at most {_MAX_WATCHES} watches: stop one first")
        elif frame.key not in self._frames:
            self._frames[frame.key] = frame
            self._session.start(frame.key, self._watch(frame))

    def _error(self, frame: SubscribeFrame, text: str) -> None:
        self._session.control(frame.message("resource.error", data={"error": text}))

    def _stop(self, key: tuple[str, ...]) -> None:
        frame = self._frames.pop(key, None)
        if frame is not None and self._session.stop(key):
            self._session.control(frame.message("resource.stop"))

    def _stop_all(self) -> None:
        """End every watch: the client starts them again, with its new permissions."""
        for key in list(self._frames):
            self._stop(key)

    async def _watch(self, frame: SubscribeFrame) -> None:
        try:
            async with aclosing(await self._source.watch(frame)) as messages:
                self._session.control(frame.message("resource.start"))
                if frame.mode == NOTIFICATIONS:
                    await self._notify(messages, max(frame.debounce_ms or _DEBOUNCE_MS, _LEAST_DEBOUNCE_MS) / 1000)
                else:
                    async for message in messages:
                        await self._session.put(message)
        except OpsdkError as error:
            self._error(frame, error.message if isinstance(error, NormanError) else str(error))
        self._stop(frame.key)

    async def _notify(self, messages: AsyncGenerator[JsonObject, None], debounce: float) -> None:
        """Send the first message at once, and later the newest one, at most one in the debounce time in seconds."""
        newest: JsonObject | None = None
        changed = asyncio.Event()

        async def read() -> None:
            nonlocal newest
            async for message in messages:
                newest = message
                changed.set()

        reader = asyncio.ensure_future(read())
        reader.add_done_callback(lambda _: changed.set())
        wait = 0.0
        try:
            while newest is not None or not reader.done():
                await changed.wait()
                await asyncio.sleep(wait)
                changed.clear()
                if newest is not None:
                    message, newest, wait = newest, None, debounce
                    await self._session.put(message)
            await reader  # raises its error
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    def __repr__(self) -> str:
        return f"<SubscribeSession with {len(self._frames)} watches>"
