"""A server as small as an informer's view of it: objects with revisions, a watch window, and faults on demand."""

from __future__ import annotations

import asyncio
import bisect
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from operator import itemgetter
from typing import Any

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.meta import ListMeta
from opsdk.cache.list_watch import RawEvent
from opsdk.errors import (
    ApiError,
    ConnectionLostError,
    GoneError,
    InvalidError,
    NotFoundError,
    OpsdkError,
    ServiceUnavailableError,
)
from opsdk.structured_merge.value import JsonObject


class FakeServer:
    """A `ListerWatcher` over a model of a server's history."""

    def __init__(self, rng: random.Random | None = None, *, kind: GroupVersionKind | None = None) -> None:
        self.kind = kind or GroupVersionKind("", "v1", "Thing")
        self.rng = rng or random.Random(0)
        self.revision = 1
        self.compacted = 0
        self.objects: dict[str, JsonObject] = {}
        self.history: list[tuple[int, str, JsonObject]] = []
        self.snapshots: dict[int, list[JsonObject]] = {}
        self.changed = asyncio.Event()
        self.fault_rate = 0.0
        self.lists = 0
        self.gets = 0
        self.watch_list: bool | str = True
        self.refuse_watch: OpsdkError | None = None
        self.stream_error: ApiError | None = None
        self.watches: list[str] = []
        self.watch_times: list[float] = []
        self.refuse: OpsdkError | None = None
        self.raw_garbage: list[RawEvent] = []

    # -------------------------------------------------------------- the world changes
    def put(self, name: str, **content: Any) -> None:
        self.revision += 1
        old = self.objects.get(name)
        obj = {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": old["metadata"]["uid"] if old else f"uid-{self.revision}",
                "resourceVersion": str(self.revision),
                "labels": {"n": name},
            },
            **content,
        }
        self.objects[name] = obj
        self.record("MODIFIED" if old else "ADDED", obj)

    def delete(self, name: str) -> None:
        self.revision += 1
        old = self.objects.pop(name)
        last = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.revision)}}
        self.record("DELETED", last)

    def record(self, kind: str, obj: JsonObject) -> None:
        self.history.append((self.revision, kind, obj))
        self.changed.set()
        self.changed = asyncio.Event()

    def compact(self) -> None:
        self.compacted = self.revision
        self.history.clear()
        self.snapshots.clear()

    # -------------------------------------------------------------- what an informer asks
    async def get(self, key: ObjectKey) -> bytes:
        self.gets += 1
        await asyncio.sleep(0.01)
        self._fail()
        if key.name not in self.objects:
            raise NotFoundError(f"{key} not found")
        return msgspec.json.encode(self.objects[key.name])

    async def list_page(self, *, continue_token: str, limit: int) -> tuple[list[bytes], ListMeta]:
        self.lists += 1
        await asyncio.sleep(0.01)
        self._fail()
        if continue_token:
            revision, _, start = continue_token.partition(":")
            if int(revision) not in self.snapshots:
                raise GoneError("the continue token is too old")
            items, position = self.snapshots[int(revision)], int(start)
        else:
            items, position, revision = list(self.objects.values()), 0, str(self.revision)
            self.snapshots[self.revision] = items
        page = items[position : position + limit] if limit else items[position:]
        more = f"{revision}:{position + limit}" if limit and position + limit < len(items) else ""
        return [msgspec.json.encode(o) for o in page], ListMeta(resource_version=revision, continue_token=more)

    @asynccontextmanager
    async def watch(
        self, *, resource_version: str, initial_events: bool = False
    ) -> AsyncIterator[AsyncIterator[RawEvent]]:
        self.watches.append(resource_version)
        self.watch_times.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.01)
        self._fail()
        if self.refuse_watch is not None:
            raise self.refuse_watch
        yield self._initial_events() if initial_events else self._events(int(resource_version))

    async def _initial_events(self) -> AsyncIterator[RawEvent]:
        """A streaming list, or what a server without its bookmark sends."""
        if not self.watch_list:
            raise InvalidError("sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
        revision = self.revision
        for obj in list(self.objects.values()):
            self._fail()
            yield RawEvent("ADDED", msgspec.json.encode(obj))
        if self.watch_list == "endless":
            await asyncio.get_running_loop().create_future()
        end = {"resourceVersion": str(revision), "annotations": {"k8s.io/initial-events-end": "true"}}
        yield RawEvent("BOOKMARK", msgspec.json.encode({"kind": "Thing", "apiVersion": "v1", "metadata": end}))
        async for event in self._events(revision):
            yield event

    async def _events(self, after: int) -> AsyncIterator[RawEvent]:
        if self.stream_error is not None:
            status = {"kind": "Status", "code": self.stream_error.code, "message": self.stream_error.message}
            yield RawEvent("ERROR", msgspec.json.encode(status))
            return
        if after < self.compacted:
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            yield RawEvent("ERROR", msgspec.json.encode(gone))
            return
        deadline = asyncio.get_running_loop().time() + 300
        while True:
            if after < self.compacted:
                raise ConnectionLostError("the window moved past a slow reader")
            newer = bisect.bisect_right(self.history, after, key=itemgetter(0))
            for revision, kind, obj in self.history[newer:]:
                self._fail()
                after = revision
                yield RawEvent(kind, msgspec.json.encode(obj))
            while self.raw_garbage:
                yield self.raw_garbage.pop(0)
            changed = self.changed
            try:
                async with asyncio.timeout_at(deadline):
                    await changed.wait()
            except TimeoutError:
                return
            if self.rng.random() < self.fault_rate:
                bookmark = {"metadata": {"resourceVersion": str(after)}}
                yield RawEvent("BOOKMARK", msgspec.json.encode(bookmark))

    def _fail(self) -> None:
        if self.refuse is not None:
            raise self.refuse
        if self.rng.random() < self.fault_rate:
            raise self.rng.choice([ConnectionLostError("cut"), ServiceUnavailableError("busy", retry_after=1)])

    def describe(self) -> str:
        return "things"
