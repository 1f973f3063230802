"""A session of ``/v1/subscribe``: frames of the client start and stop watches. Without sockets.

Upstream: github.com/rancher/apiserver/pkg/subscribe/watcher.go, handler.go, debouncer.go
Deviates: a client that reads slowly waits; steve ends its watch after 10 ms. One session has at most 500 watches, and
frames of 8 KiB.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Protocol

import msgspec

from opsdk.errors import NormanError, OpsdkError
from opsdk.norman.sessions import Session
from opsdk.structured_merge.value import JsonObject

NOTIFICATIONS = "resource.changes"
"""The mode that sends the revision of changes without objects."""

_PING_SECONDS = 30.0
_DEBOUNCE_MS = 5000
_LEAST_DEBOUNCE_MS = 10
_MAX_WATCHES = 500
_MAX_FRAME = 8 << 10


class SubscribeFrame(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A message of the client. All fields but `stop` identify the watch.

    Attributes:
        resource_type: id or plural name of a type.
        namespace: only objects of this one.
        id: only the object with this id.
        selector: only objects with these labels.
        resource_version: resume after this revision; empty begins now.
        mode: empty for objects, ``resource.changes`` for notifications.
        debounce_ms: least milliseconds between notifications; 0 for 5000.
        stop: end the watch.
    """

    resource_type: str = ""
    namespace: str = ""
    id: str = ""
    selector: str = ""
    resource_version: str = ""
    mode: str = ""
    debounce_ms: int = 0
    stop: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """The identity of the watch."""
        return (self.resource_type, self.namespace, self.id, self.selector, self.mode, str(self.debounce_ms))

    def message(
        self, name: str, *, revision: int | None = None, data: JsonObject | msgspec.Raw | None = None
    ) -> JsonObject:
        """Return a message of the server about this watch.

        >>> SubscribeFrame(resource_type="pod").message("resource.start")
        {'name': 'resource.start', 'resourceType': 'pod'}
        """
        fields = {"resourceType": self.resource_type, "namespace": self.namespace, "id": self.id}
        fields |= {"selector": self.selector, "mode": self.mode}
        message: JsonObject = {"name": name, **{key: value for key, value in fields.items() if value}}
        if revision is not None:
            message["revision"] = str(revision)
        return message if data is None else {**message, "data": data}


class SubscriptionEvent(msgspec.Struct, frozen=True):
    """One event of a watch: the name of the message, the revision, and the resource, which may be encoded already."""

    name: str
    revision: int
    data: JsonObject | msgspec.Raw


class WatchSource(Protocol):
    """The watches of one user."""

    async def watch(self, frame: SubscribeFrame) -> AsyncGenerator[SubscriptionEvent, None]:
        """Open a watch. Raises `OpsdkError` if the type does not exist or the user may not watch it."""
        ...

    def on_access_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a listener when the rights of the user change. Returns the function that removes it."""
        ...


class SubscribeSession:
    """One client.

    Args:
        source: the watches of the user.
        send: sends a message as JSON; it waits while the client does not read.
        version: of the server, for the pings.
    """

    def __init__(self, source: WatchSource, send: Callable[[bytes], Awaitable[None]], *, version: str = "") -> None:
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
        """End every watch: the client starts them again, with its new rights."""
        for key in list(self._frames):
            self._stop(key)

    async def _watch(self, frame: SubscribeFrame) -> None:
        session = self._session
        try:
            async with aclosing(await self._source.watch(frame)) as events:
                session.control(frame.message("resource.start"))
                if frame.mode == NOTIFICATIONS:
                    await self._notify(frame, events)
                else:
                    async for event in events:
                        await session.put(frame.message(event.name, revision=event.revision, data=event.data))
        except OpsdkError as error:
            self._error(frame, error.message if isinstance(error, NormanError) else str(error))
        self._stop(frame.key)

    async def _notify(self, frame: SubscribeFrame, events: AsyncGenerator[SubscriptionEvent, None]) -> None:
        """Send the first revision at once, and later ones at most once in the debounce time."""
        changed = asyncio.Event()
        revision, failure = 0, None

        async def read() -> None:
            nonlocal revision, failure
            try:
                async for event in events:
                    revision = event.revision
                    changed.set()
            except OpsdkError as error:
                failure = error
            changed.set()

        reader = asyncio.ensure_future(read())
        seconds = 0.0
        try:
            while failure is None:
                await changed.wait()
                await asyncio.sleep(seconds)
                changed.clear()
                seconds = max(frame.debounce_ms or _DEBOUNCE_MS, _LEAST_DEBOUNCE_MS) / 1000
                await self._session.put(frame.message(NOTIFICATIONS, revision=revision))
                if reader.done():
                    break
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
        if failure is not None:
            raise failure

    def __repr__(self) -> str:
        return f"<SubscribeSession with {len(self._frames)} watches>"
