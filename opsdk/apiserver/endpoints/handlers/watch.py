"""WATCH: a stream of events as JSON lines or protobuf frames.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/watch.go (v1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import NamedTuple

import msgspec

from opsdk.aio.clock import monotonic
from opsdk.aio.large_work import attempt_output, compute
from opsdk.aio.randomness import loop_random
from opsdk.apiserver import api_errors
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.handlers.get import wait_for_revision
from opsdk.apiserver.endpoints.handlers.watch_websocket import watch_socket
from opsdk.apiserver.endpoints.negotiation import AcceptedMediaType
from opsdk.apiserver.endpoints.options import ListQueryOptions, check_watch, list_options, resource_version
from opsdk.apiserver.endpoints.response import accepted_for, columns_size, compact, in_order, partial, table
from opsdk.apiserver.endpoints.shared_frames import CHUNK_BYTES, FRAMES, EncodedEvent
from opsdk.apiserver.endpoints.status import status_of
from opsdk.apiserver.registry.rest import ListQuery
from opsdk.apiserver.registry.storage_codec import UndecodableObjectError
from opsdk.apiserver.resources import InstalledResource
from opsdk.apiserver.serializer.protobuf_writer import watch_frame
from opsdk.apiserver.storage.ports import (
    ChangeType,
    CompactedError,
    StorageChange,
    StorageWatch,
    WatchInterruptedError,
)
from opsdk.errors import ApiError, ServerTimeoutError
from opsdk.http.server.response import HttpResponse, StreamResponse, encode_json
from opsdk.http.server.websocket import wants_websocket
from opsdk.structured_merge.value import JsonObject

BOOKMARK_INTERVAL = 60.0
"""Seconds between bookmarks, also without events."""
_BOOKMARK_JITTER = 1.25
"""Largest delay of a bookmark in seconds: kube-apiserver collects due watches about once a second."""
_AT_ONCE = 64
"""Events in one chunk at most; see also `CHUNK_BYTES`. The event loop serves other requests after each."""
_BEFORE_END = 2.0
_AGAIN = 1.0
"""Seconds before an undecodable object is retried."""
_TOO_OLD = "The resourceVersion for the provided watch is too old."
_INITIAL_END = "k8s.io/initial-events-end"


class WatchStreamEvent(msgspec.Struct, frozen=True):
    """An event before it is transformed and encoded."""

    type: str
    obj: JsonObject


async def handle(call: Call, served: InstalledResource) -> HttpResponse:
    """Start the watch; errors of the request are raised before the response begins."""
    accepted = accepted_for(call, served)
    options = list_options(call.http.query, name=call.info.name if call.info.deprecated_watch else "")
    check_watch(options)
    served.storage.check_fields(options.selection)
    if options.timeout is not None and options.timeout < 0:
        opened = _OpenedWatch([])  # the deadline has passed
    else:
        opened = await _open(call, served, options)
    watch = opened.watch
    stream = _Stream(call, served, options, accepted, start_revision=opened.revision)
    release = None if watch is None else watch.close
    chunks = stream.chunks(opened.initial, watch)
    if wants_websocket(call.http):
        return watch_socket(call, chunks, framed=accepted.write is not None, release=release)
    media = ("content-type", accepted.media if accepted.write is None else f"{accepted.media};stream=watch")
    return StreamResponse(200, [media], chunks=chunks, release=release, ends_when_full=True)


class _OpenedWatch(NamedTuple):
    """The initial events, and the watch that follows; None if no event can follow.

    `revision` is the resource version of the initial events.
    """

    initial: list[WatchStreamEvent]
    watch: StorageWatch | None = None
    revision: int = 0


async def _open(call: Call, served: InstalledResource, options: ListQueryOptions) -> _OpenedWatch:
    """Open the storage's watch, with the initial events if the client wants them."""
    storage = served.storage
    context = call.context()
    revision = resource_version(options.version) if options.version else 0
    synthetic = revision == 0 if options.initial_events is None else options.initial_events
    if synthetic:
        try:
            await wait_for_revision(served, options.version)
        except ServerTimeoutError as error:
            return _OpenedWatch([_error_event(error)])
        listed = await storage.list(context, ListQuery(selection=options.selection))
        initial = [WatchStreamEvent("ADDED", obj) for obj in listed.items]
        if options.initial_events or options.version in ("", "0"):
            initial.append(WatchStreamEvent("INITIAL_END", {"metadata": {"resourceVersion": str(listed.revision)}}))
        return _OpenedWatch(initial, await storage.watch(context, "", listed.revision), listed.revision)
    try:
        return _OpenedWatch([], await storage.watch(context, "", revision or None), revision)
    except CompactedError as error:
        return _OpenedWatch([_error_event(error)])


def _error_event(error: ApiError | CompactedError) -> WatchStreamEvent:
    if isinstance(error, CompactedError):
        text = f"too old resource version: {error.requested} ({error.oldest})"
        error = api_errors.expired(_TOO_OLD if error.oldest is None else text)
    return WatchStreamEvent("ERROR", status_of(error))


def select(change: StorageChange, *, now: bool, before: bool) -> WatchStreamEvent | None:
    """Return the event for a watch with a selector; `now` and `before` report whether the new and old objects match."""
    value, previous = change.value, change.previous
    if value is None:
        return None
    if change.kind is ChangeType.DELETE:
        return WatchStreamEvent("DELETED", value) if before or (previous is None and now) else None
    if now:
        return WatchStreamEvent("MODIFIED" if before else "ADDED", value)
    if before and previous is not None:
        # The event has the last matching state, with the revision of the change.
        meta = {**previous["metadata"], "resourceVersion": value["metadata"]["resourceVersion"]}
        return WatchStreamEvent("DELETED", {**previous, "metadata": meta})
    return None


class _Stream:
    """The stream of one watcher: each chunk is the lines of all pending events, up to a limit."""

    def __init__(
        self,
        call: Call,
        served: InstalledResource,
        options: ListQueryOptions,
        accepted: AcceptedMediaType,
        *,
        start_revision: int,
    ) -> None:
        self._call = call
        self._served = served
        self._options = options
        self._accepted = accepted
        self._headless = accepted.kind != "Table"
        self._columns_size = columns_size(served, accepted)
        self._compute = attempt_output if self._columns_size else compute
        include = call.http.query.get("includeObject") if accepted.kind == "Table" else ""
        # Everything besides the object that decides about the bytes of an event.
        self._form = (served.model, accepted.media, accepted.kind, accepted.version, include)
        self._since = start_revision
        seconds = options.timeout or loop_random().uniform(1800, 3600)
        self._end = monotonic() + seconds

    async def chunks(self, initial: list[WatchStreamEvent], watch: StorageWatch | None) -> AsyncGenerator[bytes, None]:
        """Yield the chunks in order until the deadline, or until the watch ends."""
        try:
            async for chunk in self._initial(initial):
                yield chunk
            if watch is None:
                return
            async for chunk in self._live(watch):
                yield chunk
        finally:
            if watch is not None:
                watch.close()

    async def _initial(self, events: list[WatchStreamEvent]) -> AsyncGenerator[bytes, None]:
        """Yield the chunks of the initial events. Those that are sent are released."""
        events.reverse()
        while events:
            chunk = _Chunk()
            while events and not chunk.full:
                await self._add(chunk, events.pop())
            if lines := chunk.lines():
                yield lines

    async def _live(self, watch: StorageWatch) -> AsyncGenerator[bytes, None]:
        """Yield the lines of changes and bookmarks until the watch's time is over."""
        bookmark = self._next_bookmark() if self._options.bookmarks else self._end + 1
        timer = self._interrupt_at(watch, min(bookmark, self._end))
        try:
            while monotonic() < self._end:
                try:
                    change = await anext(watch)
                except WatchInterruptedError:
                    # Pending changes are sent first; a bookmark must not overtake them.
                    due = monotonic() >= bookmark
                    if due and (line := await self._bookmark(watch)):
                        yield line
                    bookmark = self._next_bookmark() if due else bookmark
                    timer = self._interrupt_at(watch, min(bookmark, self._end))
                    continue
                except StopAsyncIteration:
                    return
                except UndecodableObjectError:
                    # No event may be skipped: the stream waits until the object can be decoded.
                    await self._wait_before_retry()
                    continue
                except (ApiError, CompactedError) as error:
                    yield self._line(_error_event(error))
                    return
                chunk = await self._pending(watch, change)
                if lines := chunk.lines():
                    yield lines
                if chunk.full:
                    await asyncio.sleep(0)  # a long backlog must not block other requests
        finally:
            timer.cancel()

    async def _pending(self, watch: StorageWatch, first: StorageChange) -> _Chunk:
        """Return the events of a change and of those behind it. A system call for each line would be slow."""
        chunk, change, number = _Chunk(), first, 1
        while True:
            if event := self._selected(change):
                await self._add(chunk, event)
            chunk.full = chunk.full or number == _AT_ONCE
            if chunk.full or not (ready := watch.ready(1)):
                return chunk
            [change] = ready
            number += 1

    def _interrupt_at(self, watch: StorageWatch, time: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(max(time - monotonic(), 0.0), watch.interrupt)

    async def _wait_before_retry(self) -> None:
        await asyncio.sleep(max(min(_AGAIN, self._end - monotonic()), 0.0))

    def _next_bookmark(self) -> float:
        now = monotonic()
        last = self._end - _BEFORE_END
        due = now + BOOKMARK_INTERVAL + loop_random().uniform(0, _BOOKMARK_JITTER)
        return min(due, last) if now < last else self._end + 1

    async def _bookmark(self, watch: StorageWatch) -> bytes:
        """Return a bookmark of the current revision; empty if changes are pending or the revision is too new."""
        revision = watch.progress()
        if revision is None or revision < self._since:
            return b""
        event = WatchStreamEvent("BOOKMARK", {"metadata": {"resourceVersion": str(revision)}})
        return await self._compute(self._columns_size, self._line, event)

    async def _add(self, chunk: _Chunk, event: WatchStreamEvent) -> None:
        """Encode an event, and append it to a chunk."""
        if event.type not in _SHARED:
            chunk.add(await self._compute(self._columns_size, self._line, event))
            return
        form = (event.type, self._form, self._headless)
        frame = FRAMES.find(event.obj, form)
        if frame is None:
            if self._accepted.write is None and not self._served.custom:
                frame = FRAMES.add(event.obj, form, self._line(event))
            else:
                # Large objects are pruned or written as protobuf outside the event loop.
                size = len(encode_json(event.obj)) + self._columns_size
                frame = await FRAMES.once(event.obj, form, lambda: self._compute(size, self._line, event))
        self._headless = True
        chunk.add(frame.data, frame)

    def _selected(self, change: StorageChange) -> WatchStreamEvent | None:
        selection, storage = self._options.selection, self._served.storage
        now, before = change.value is not None, change.previous is not None
        if not selection.everything:
            now = change.value is not None and storage.matches(selection, change.value)
            before = change.previous is not None and storage.matches(selection, change.previous)
        return select(change, now=now, before=before)

    def _line(self, event: WatchStreamEvent) -> bytes:
        if event.type == "ERROR":
            return self._frame("ERROR", event.obj)
        if event.type == "INITIAL_END":
            if not self._options.bookmarks:
                return b""
            meta = {**event.obj["metadata"], "annotations": {_INITIAL_END: "true"}}
            return self._encode("BOOKMARK", self._bookmark_object(meta))
        if event.type == "BOOKMARK":
            return self._encode("BOOKMARK", self._bookmark_object(event.obj["metadata"]))
        return self._encode(event.type, self._served.model.from_storage(event.obj))

    def _bookmark_object(self, meta: JsonObject) -> JsonObject:
        info = self._served.info
        # A typed object has its empty fields; only the metadata is meaningful.
        return {"kind": info.kind, "apiVersion": info.kind_api_version, "metadata": meta, **self._served.model.blank}

    def _encode(self, kind: str, obj: JsonObject) -> bytes:
        accepted, shaped = self._accepted, obj
        if accepted.kind == "PartialObjectMetadata":
            shaped = partial(obj, version=accepted.version)
        elif accepted.kind == "Table":
            meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            shaped = table(self._call, self._served, [obj], meta, version=accepted.version, headless=self._headless)
            self._headless = True
        return self._frame(kind, shaped)

    def _frame(self, kind: str, obj: JsonObject) -> bytes:
        write = self._accepted.write
        if write is not None:
            return watch_frame(kind, write(obj))
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), self._plain(obj))

    def _plain(self, obj: JsonObject) -> bytes:
        return compact(obj, ordered=in_order(self._served, self._accepted))


class _Chunk:
    """The lines that are sent at once. It keeps the frames, so that other watchers find them.

    Attributes:
        full: no further event is added.
    """

    __slots__ = ("_frames", "_lines", "_size", "full")

    def __init__(self) -> None:
        self._frames: list[EncodedEvent] = []
        self._lines: list[bytes] = []
        self._size = 0
        self.full = False

    def add(self, line: bytes, frame: EncodedEvent | None = None) -> None:
        self._lines.append(line)
        self._size += len(line)
        self.full = self._size >= CHUNK_BYTES or len(self._lines) >= _AT_ONCE
        if frame is not None:
            self._frames.append(frame)

    def lines(self) -> bytes:
        """Return the lines; a single one is not copied."""
        return self._lines[0] if len(self._lines) == 1 else b"".join(self._lines)


_SHARED = frozenset({"ADDED", "MODIFIED", "DELETED"})
