"""Encoded watch events and large items of lists: one copy for all responses of the same form.

A client that does not read holds a reference to the frame that it is sent, so a hundred of them hold one copy.

Upstream: k8s.io/apiserver/pkg/storage/cacher/caching_object.go (v1.36).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from opsdk.structured_merge.value import JsonObject

CHUNK_BYTES: Final = 64 * 1024
"""Bytes of events from which on a chunk of a watch takes no further event."""
_RECENT_BYTES: Final = 8 * 1024 * 1024
"""Frames that are kept without a watcher: what the fastest watcher sends, the others need a moment later."""


class EncodedEvent(msgspec.Struct, weakref=True, eq=False):
    """One encoded event, or one item of a list. It keeps the tree, so that the tree's id stays unique."""

    tree: JsonObject
    data: bytes


_Key = tuple[int, Hashable]


class SharedFrames:
    """The frames that watchers hold, and the last ones besides, by the identity of an immutable tree and the form."""

    def __init__(self, recent_bytes: int = _RECENT_BYTES) -> None:
        self._limit = recent_bytes
        self._frames: WeakValueDictionary[_Key, EncodedEvent] = WeakValueDictionary()
        self._recent: deque[EncodedEvent] = deque()
        self._recent_bytes = 0
        self._running: dict[_Key, asyncio.Future[None]] = {}

    def __repr__(self) -> str:
        return f"<SharedFrames: {len(self._frames)}, of which {len(self._recent)} are recent>"

    def find(self, tree: JsonObject, form: Hashable) -> EncodedEvent | None:
        """Return the frame of a tree in a form, if it exists."""
        return self._frames.get((id(tree), form))

    def add(self, tree: JsonObject, form: Hashable, data: bytes) -> EncodedEvent:
        """Keep and return a new frame."""
        frame = self._frames[id(tree), form] = EncodedEvent(tree, data)
        self._recent.append(frame)
        self._recent_bytes += len(data)
        while self._recent_bytes > self._limit:
            self._recent_bytes -= len(self._recent.popleft().data)
        return frame

    async def once(self, tree: JsonObject, form: Hashable, encode: Callable[[], Awaitable[bytes]]) -> EncodedEvent:
        """Return the frame of a tree in a form. Concurrent calls wait for one encoding."""
        key = (id(tree), form)
        while (frame := self._frames.get(key)) is None:
            running = self._running.get(key)
            if running is not None:
                await asyncio.wait((running,))
                continue
            done = self._running[key] = asyncio.get_running_loop().create_future()
            try:
                frame = self.add(tree, form, await encode())
            finally:
                del self._running[key]
                done.set_result(None)
            return frame
        return frame


FRAMES: Final = SharedFrames()
"""Of the process."""
