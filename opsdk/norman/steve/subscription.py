"""A session of ``/v1/subscribe``: frames of the client start and stop watches. Without sockets.

Upstream: github.com/rancher/apiserver/pkg/subscribe/watcher.go, handler.go, debouncer.go
Deviates: a client that reads slowly waits; steve ends its watch after 10 ms. One session has at most 500 watches,
frames of 8 KiB and 1 MiB of messages that wait. It ends if its client reads nothing for a minute.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Protocol

import msgspec

from opsdk.errors import ConnectionLostError, NormanError, OpsdkError
from opsdk.norman.sessions import SEND_SECONDS
from opsdk.structured_merge.value import JsonObject

log = logging.getLogger(__name__)

NOTIFICATIONS = "resource.changes"
"""The mode that sends the revision of changes without objects."""

_PING_SECONDS = 30.0
_DEBOUNCE_MS = 5000
_LEAST_DEBOUNCE_MS = 10
_MAX_WATCHES = 500
# Bytes that wait for a slow client. More than that, and the session reads neither its watches nor the client.
_MAX_WAITING = 1 << 20
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
        self._send = send
        self._version = version
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting = 0
        self._room = asyncio.Event()
        self._room.set()
        self._watches: dict[tuple[str, ...], tuple[SubscribeFrame, asyncio.Task[None]]] = {}

    async def run(self, receive: Callable[[], Awaitable[bytes | str | None]]) -> None:
        """Serve the client until `receive` returns None, or it reads nothing. Every watch ends with the session."""
        remove = self._source.on_access_change(self._stop_all)
        try:
            async with asyncio.TaskGroup() as group:
                background = [
                    group.create_task(self._write(), name="subscribe/write"),
                    group.create_task(self._ping(), name="subscribe/ping"),
                ]
                while (message := await receive()) is not None:
                    self._on_message(message, group)
                    await self._wait_for_room()
                for task in (*background, *(task for _, task in self._watches.values())):
                    task.cancel()
        except* ConnectionLostError as lost:
            log.debug("a subscription ended: %s", lost.exceptions[0])
        finally:
            remove()

    def _on_message(self, message: bytes | str, group: asyncio.TaskGroup) -> None:
        if len(message) > _MAX_FRAME:
            reason = f"a frame has at most {_MAX_FRAME >> 10} KiB"
            self._control(SubscribeFrame().message("resource.error", data={"error": reason}))
            return
        try:
            frame = msgspec.json.decode(message, type=SubscribeFrame)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._control(SubscribeFrame().message("resource.error", data={"error": f"not a subscription: {error}"}))
            return
        if frame.stop:
            self._stop(frame.key)
        elif len(self._watches) >= _MAX_WATCHES:
            reason = f"a session has at most {_MAX_WATCHES} watches: stop one first"
            self._control(frame.message("resource.error", data={"error": reason}))
        elif frame.key not in self._watches:
            task = group.create_task(self._watch(frame), name=f"subscribe/{frame.resource_type}")
            self._watches[frame.key] = (frame, task)

    def _stop(self, key: tuple[str, ...]) -> None:
        watch = self._watches.pop(key, None)
        if watch is not None:
            frame, task = watch
            task.cancel()
            self._control(frame.message("resource.stop"))

    def _stop_all(self) -> None:
        """End every watch: the client starts them again, with its new rights."""
        for key in list(self._watches):
            self._stop(key)

    async def _watch(self, frame: SubscribeFrame) -> None:
        try:
            async with aclosing(await self._source.watch(frame)) as events:
                self._control(frame.message("resource.start"))
                if frame.mode == NOTIFICATIONS:
                    await self._notify(frame, events)
                else:
                    async for event in events:
                        await self._put(frame.message(event.name, revision=event.revision, data=event.data))
        except OpsdkError as error:
            text = error.message if isinstance(error, NormanError) else str(error)
            self._control(frame.message("resource.error", data={"error": text}))
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
                await self._put(frame.message(NOTIFICATIONS, revision=revision))
                if reader.done():
                    break
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
        if failure is not None:
            raise failure

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(_PING_SECONDS)
            if self._outgoing.empty():  # any message shows that the connection is alive
                self._control({"name": "ping", "data": {"version": self._version}})

    def _control(self, message: JsonObject) -> None:
        """Append a control message without a wait: the session reads the next frame when there is room."""
        raw = msgspec.json.encode(message)
        self._outgoing.put_nowait(raw)
        self._waiting += len(raw)
        if self._waiting > _MAX_WAITING:
            self._room.clear()

    async def _put(self, message: JsonObject) -> None:
        await self._wait_for_room()
        self._control(message)

    async def _wait_for_room(self) -> None:
        while not self._room.is_set():  # another task may have used the room
            await self._room.wait()

    async def _write(self) -> None:
        """Send the messages. Raises `ConnectionLostError` at the end of the connection."""
        while True:
            raw = await self._outgoing.get()
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await self._send(raw)
            except TimeoutError as error:
                raise ConnectionLostError(f"the client has read nothing for {SEND_SECONDS:.0f} s") from error
            self._waiting -= len(raw)
            if self._waiting <= _MAX_WAITING:
                self._room.set()

    def __repr__(self) -> str:
        return f"<SubscribeSession with {len(self._watches)} watches>"
