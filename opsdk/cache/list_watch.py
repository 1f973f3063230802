"""The two requests that keep a store current, as a port."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple, Protocol

import msgspec

from opsdk.apimachinery.codec import split_list
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.meta import ListMeta
from opsdk.apimachinery.object import AnyObject
from opsdk.apimachinery.rest_mapper import RestMapping
from opsdk.apimachinery.selectors import FieldSelector, Selector
from opsdk.client.operations import List, Watch
from opsdk.client.options import ListOptions, WatchOptions
from opsdk.client.requests import build_request, build_watch
from opsdk.errors import ConnectionLostError
from opsdk.rest.frames import FrameSplitter, parse_frame
from opsdk.rest.response import raise_for_status
from opsdk.rest.transport import Transport
from opsdk.structured_merge.value import JsonObject

# A watch lasts 5 to 10 minutes, as client-go's: long enough to be cheap, and spread so that restarts do not align.
_WATCH_SECONDS = (300, 600)
# Bookmarks come about once a minute: so many seconds of silence are a dead connection, or cheap to be wrong about.
_DEAD_AFTER = 150.0


class RawEvent(NamedTuple):
    """A watch event whose object is still JSON."""

    type: str
    data: bytes


class ListerWatcher(Protocol):
    """Lists and watches one kind in one scope."""

    async def list_page(
        self, *, resource_version: str, continue_token: str, limit: int
    ) -> tuple[list[bytes], ListMeta]:
        """One page: its items as JSON, and the list's metadata. Raises `OpsdkError`."""
        ...

    def watch(self, *, resource_version: str) -> AbstractAsyncContextManager[AsyncIterator[RawEvent]]:
        """Events after a revision, with bookmarks. Entering and reading raise `OpsdkError`."""
        ...

    def describe(self) -> str:
        """Verb-less words for logs and errors: ``websites.demo.opsdk.dev in namespace default``."""
        ...


class RestListerWatcher:
    """A `ListerWatcher` over a transport.

    Args:
        mapping: the resource.
        kind: the form asked for: metadata only, or whole objects.
        namespace: empty for all.
        transform: changes each object's tree before anybody sees it.
    """

    def __init__(
        self,
        transport: Transport,
        mapping: RestMapping,
        kind: Kind[AnyObject],
        *,
        namespace: str = "",
        label_selector: Selector | None = None,
        field_selector: FieldSelector | None = None,
        transform: Callable[[JsonObject], JsonObject] | None = None,
    ) -> None:
        self._transport = transport
        self._mapping = mapping
        self._kind = kind
        self._namespace = namespace
        self._labels = label_selector or Selector()
        self._fields = field_selector or FieldSelector()
        self._transform = transform

    async def list_page(
        self, *, resource_version: str, continue_token: str, limit: int
    ) -> tuple[list[bytes], ListMeta]:
        """One request."""
        options = ListOptions(
            namespace=self._namespace,
            label_selector=self._labels,
            field_selector=self._fields,
            limit=limit or None,
            continue_token=continue_token,
            resource_version="" if continue_token else resource_version,
        )
        request = build_request(List(kind=self._kind, options=options), self._mapping)
        # No retries below us: the reflection waits by its own rules, and must know of every failure.
        response = await self._transport.send(request, retry=False)
        raise_for_status(response, request)
        items, meta = split_list(response.body)
        return [self._transformed(item) for item in items], meta

    @asynccontextmanager
    async def watch(self, *, resource_version: str) -> AsyncIterator[AsyncIterator[RawEvent]]:
        """One request, whose connection is closed when the block is left."""
        seconds = random.randint(*_WATCH_SECONDS)  # noqa: S311 - spread, not a secret
        options = WatchOptions(
            namespace=self._namespace,
            label_selector=self._labels,
            field_selector=self._fields,
            resource_version=resource_version,
            bookmarks=True,
            timeout=seconds,
        )
        request = build_watch(Watch(kind=self._kind, options=options), self._mapping)
        async with self._transport.stream(request, idle_timeout=_DEAD_AFTER, retry=False) as stream:
            yield self._events(stream)

    async def _events(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[RawEvent]:
        splitter = FrameSplitter()
        async for chunk in chunks:
            for data in splitter.feed(chunk):
                frame = parse_frame(data)
                body = bytes(frame.object)
                # Bookmarks and errors are no objects of the kind: the user's function does not see them.
                yield RawEvent(frame.type, body if frame.type in ("BOOKMARK", "ERROR") else self._transformed(body))
        if splitter.rest():
            raise ConnectionLostError(f"the watch of {self.describe()} was cut inside an event")

    def _transformed(self, data: bytes) -> bytes:
        if self._transform is None:
            return data
        return msgspec.json.encode(self._transform(msgspec.json.decode(data, type=dict)))

    def describe(self) -> str:
        """The resource and its scope in words."""
        where = f" in namespace {self._namespace}" if self._namespace else ""
        which = f" matching {self._labels}" if str(self._labels) else ""
        return f"{self._mapping.resource.group_resource}{where}{which}"
