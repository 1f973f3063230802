"""The list and watch requests of an informer.

Upstream: k8s.io/client-go/tools/cache/listwatch.go (v1.36)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import msgspec
from msgspec.structs import replace

from opsdk.aio.randomness import loop_random
from opsdk.apimachinery.codec import split_list
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.meta import ListMeta
from opsdk.apimachinery.object import AnyObject
from opsdk.apimachinery.rest_mapper import RestMapping
from opsdk.apimachinery.selectors import FieldSelector, LabelRequirements
from opsdk.cache.head import ObjectHead, try_decode_head
from opsdk.cache.shard import HashRange
from opsdk.client.operations import Get, List, Watch
from opsdk.client.options import ListOptions, WatchOptions
from opsdk.client.requests import build_request, build_watch
from opsdk.rest.frames import WatchDecoder, parse_frame
from opsdk.rest.request import RestRequest
from opsdk.rest.response import raise_for_status
from opsdk.rest.transport import Transport

# Bookmarks and errors have no object of the kind.
_OBJECT_EVENTS = frozenset({"ADDED", "MODIFIED", "DELETED"})
# The bytes before the object, as Go encodes a WatchEvent.
_OBJECT_KEY = b'"object":'
_BEFORE_OBJECT = {f'{{"type":"{name}","object":'.encode(): name for name in _OBJECT_EVENTS}
_LONGEST = max(map(len, _BEFORE_OBJECT))
# A watch lasts 5 to 10 minutes, as in client-go's reflector (minWatchTimeout); the spread avoids aligned restarts.
_WATCH_SECONDS = (300, 600)
# The server sends bookmarks about once a minute: a longer silence means a dead connection.
_WATCH_IDLE_TIMEOUT = 150.0
# The head of a watch comes at once. A request that a proxy has swallowed has none.
_WATCH_OPEN_TIMEOUT = 60.0


class RawEvent(msgspec.Struct, gc=False):
    """A watch event whose object is still JSON.

    Attributes:
        type: ``ADDED``, ``MODIFIED``, ``DELETED``, ``BOOKMARK`` or ``ERROR``.
        data: the object.
        head: the decoded head of `data`; None if it is not decoded yet.
    """

    type: str
    data: bytes
    head: ObjectHead | None = None


def parse_event(frame: bytes) -> RawEvent:
    """Decode one frame of a watch. Raises `DecodeError`.

    The object is found by the bytes around it. Its head is decoded at once, which proves that these bytes are one JSON
    value. So an object is read once; a frame with another form is read twice.

    >>> parse_event(b'{"type":"ADDED","object":{"kind":"Pod"}}').data
    b'{"kind":"Pod"}'
    """
    start = frame.find(_OBJECT_KEY, 0, _LONGEST) + len(_OBJECT_KEY)
    event_type = _BEFORE_OBJECT.get(frame[:start])
    if event_type is not None and frame.endswith(b"}"):
        data = frame[start:-1]
        if (head := try_decode_head(data)) is not None:
            return RawEvent(event_type, data, head)
    parsed = parse_frame(frame)
    return RawEvent(parsed.type, bytes(parsed.object))


class ListerWatcher(Protocol):
    """Lists and watches one kind in one scope."""

    async def list_page(self, *, continue_token: str, limit: int) -> tuple[list[bytes], ListMeta]:
        """Return one page of the latest state: its items as JSON, and the list's metadata. Raises `OpsdkError`."""
        ...

    def watch(
        self, *, resource_version: str, initial_events: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[RawEvent]]:
        """Watch events after a resource version, with bookmarks. Raises `OpsdkError`.

        With `initial_events`, the existing objects come first, then a bookmark that marks their end.
        """
        ...

    async def get(self, key: ObjectKey) -> bytes:
        """Return the latest state of one object as JSON. Raises `NotFoundError` and other `OpsdkError`."""
        ...

    def describe(self) -> str:
        """Return resource and scope for messages: ``websites.demo.opsdk.dev in namespace default``."""
        ...


class RestListerWatcher:
    """A `ListerWatcher` over a transport.

    Args:
        transport: sends the requests.
        mapping: the resource.
        kind: the representation: metadata only, or whole objects.
        namespace: empty for all.
        label_selector: only matching objects.
        field_selector: only matching objects.
        shard: only objects of this range of hashes.
        drop_managed_fields: ask the server to leave out ``metadata.managedFields``; one that cannot sends them.

    Attributes:
        kind: see above.
    """

    def __init__(
        self,
        transport: Transport,
        mapping: RestMapping,
        kind: Kind[AnyObject],
        *,
        namespace: str = "",
        label_selector: LabelRequirements | None = None,
        field_selector: FieldSelector | None = None,
        shard: HashRange | None = None,
        drop_managed_fields: bool = False,
    ) -> None:
        self._transport = transport
        self._mapping = mapping
        self.kind = kind
        self._namespace = namespace
        self._labels = label_selector or LabelRequirements()
        self._fields = field_selector or FieldSelector()
        self._shard = shard
        self._drop_managed_fields = drop_managed_fields

    @property
    def list_target(self) -> str:
        """Path and selectors of the lists, without paging, relative to the host's base path."""
        return self._list_request(continue_token="", limit=0).target

    def _list_request(self, *, continue_token: str, limit: int) -> RestRequest:
        options = ListOptions(
            namespace=self._namespace,
            label_selector=self._labels,
            field_selector=self._fields,
            limit=limit or None,
            continue_token=continue_token,
            shard_selector=self._shard_selector,
        )
        return self._accepting(build_request(List(kind=self.kind, options=options), self._mapping))

    async def list_page(self, *, continue_token: str, limit: int) -> tuple[list[bytes], ListMeta]:
        """Send one LIST request."""
        request = self._list_request(continue_token=continue_token, limit=limit)
        # No retries in the transport: the reflector has its own backoff, and must see every failure.
        response = await self._transport.send(request, retry=False)
        raise_for_status(response, request)
        items, metadata = split_list(response.body)
        if (shard := self._shard) is not None:
            items = [item for item in items if shard.contains_json(item)]
        return items, metadata

    @asynccontextmanager
    async def watch(
        self, *, resource_version: str, initial_events: bool = False
    ) -> AsyncIterator[AsyncIterator[RawEvent]]:
        """Send one WATCH request. Leaving the block closes its connection."""
        seconds = loop_random().randint(*_WATCH_SECONDS)
        options = WatchOptions(
            namespace=self._namespace,
            label_selector=self._labels,
            field_selector=self._fields,
            resource_version=resource_version,
            bookmarks=True,
            timeout=seconds,
            initial_events=initial_events,
            shard_selector=self._shard_selector,
        )
        request = self._accepting(build_watch(Watch(kind=self.kind, options=options), self._mapping))
        async with self._transport.stream(
            request, timeout=_WATCH_OPEN_TIMEOUT, idle_timeout=_WATCH_IDLE_TIMEOUT, retry=False
        ) as stream:
            yield self._events(stream)

    async def _events(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[RawEvent]:
        decoder = WatchDecoder(self.describe(), parse_event)
        shard = self._shard
        async for chunk in chunks:
            for event in decoder.feed(chunk):
                is_foreign = shard is not None and event.type in _OBJECT_EVENTS and not shard.contains_json(event.data)
                if not is_foreign:
                    yield event
        decoder.finish()

    @property
    def _shard_selector(self) -> str:
        return self._shard.selector if self._shard is not None else ""

    async def get(self, key: ObjectKey) -> bytes:
        """Send one GET request."""
        request = self._accepting(build_request(Get(kind=self.kind, key=key), self._mapping))
        response = await self._transport.send(request)
        raise_for_status(response, request)
        return response.body

    def _accepting(self, request: RestRequest) -> RestRequest:
        """Return the request with the wish for objects without managedFields."""
        if not self._drop_managed_fields:
            return request
        # A server that does not know the parameter ignores its clause, and takes the next one (KEP-5958).
        accepted = request.headers["Accept"]
        preferred = accepted.partition(",")[0]
        accept = f"{preferred};drop=metadata.managedFields,{accepted}"
        return replace(request, headers={**request.headers, "Accept": accept})

    def describe(self) -> str:
        """Return resource and scope in words."""
        where = f" in namespace {self._namespace}" if self._namespace else ""
        which = f" matching {self._labels}" if str(self._labels) else ""
        return f"{self._mapping.resource.group_resource}{where}{which}"
