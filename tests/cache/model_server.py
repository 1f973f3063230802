"""A model of an API server with one kind: a history that can be restored, and faults that a test schedules.

It stands in for `opsdk.rest.transport.Transport`, so a test drives the real client, recorder and informers. Every
commit gets a serial number that never returns, whatever the resource versions do: `serial_of` an object tells two
states apart that a restored server gave the same resource version.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any

import msgspec

from opsdk.errors import ConnectError, ConnectionLostError, DeadlineError, OpsdkError
from opsdk.rest.request import RestRequest
from opsdk.rest.response import RestResponse
from opsdk.structured_merge.value import JsonObject

NAMESPACE = "ns"


class Fault(Enum):
    """What happens to the next write."""

    NONE = "none"
    LOST_REQUEST = "lost request"
    LOST_RESPONSE = "lost response"
    TIMEOUT = "timeout"
    INTERNAL_ERROR = "internal error"
    STATUS_FAILURE = "status failure"
    UNREADABLE_RESPONSE = "unreadable response"


class _Commit(msgspec.Struct, frozen=True):
    revision: int
    type: str
    obj: JsonObject


def serial_of(obj: Any) -> int:
    """Return the serial number of a state of an object."""
    return int(obj.metadata.annotations["serial"])


class ModelServer:
    """One namespaced kind, ``v1 ConfigMap``, in one namespace.

    Attributes:
        write_fault: what happens to the next write.
        failing_reads: how many GET and LIST requests fail from now on.
        failed_reads: how many have failed.
        refused: whether every connection is refused.
        watch_delay: seconds until the watch shows a commit.
        bookmark_interval: seconds between bookmarks.
        first_step: revisions between two commits before the first restore.
        deleted_serials: the serial number of the last deletion of each name.
    """

    def __init__(self, *, first_step: int = 1) -> None:
        self.first_step = first_step
        self.write_fault = Fault.NONE
        self.failing_reads = 0
        self.failed_reads = 0
        self.refused = False
        self.watch_delay = 0.0
        self.bookmark_interval = 60.0
        self.revision = 1
        self.serial = 0
        self.epoch = 0
        self.objects: dict[str, JsonObject] = {}
        self.deleted_serials: dict[str, int] = {}
        self.requests: list[str] = []
        self._compacted = 0
        self._history: list[_Commit] = []
        self._snapshots: dict[int, dict[str, JsonObject]] = {1: {}}
        self._changed = asyncio.Event()
        self._watch_number = 0

    # -------------------------------------------------------------- the history
    def put(self, name: str, obj: JsonObject | None = None) -> JsonObject:
        """Commit a state of an object."""
        self._advance()
        old = self.objects.get(name)
        metadata = dict((obj or {}).get("metadata") or {})
        metadata |= {
            "name": name,
            "namespace": NAMESPACE,
            "uid": old["metadata"]["uid"] if old else f"uid-{self.serial}",
            "resourceVersion": str(self.revision),
            "annotations": {"serial": str(self.serial)},
        }
        state = {"apiVersion": "v1", "kind": "ConfigMap", **(obj or {}), "metadata": metadata}
        self.objects[name] = state
        self._commit("MODIFIED" if old else "ADDED", state)
        return state

    def delete(self, name: str) -> JsonObject:
        """Commit a deletion. Returns the last state."""
        self._advance()
        old = self.objects.pop(name)
        self.deleted_serials[name] = self.serial
        self._commit("DELETED", {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.revision)}})
        return old

    def _advance(self) -> None:
        # A restored server takes smaller steps, so that it does not reach its old revision again: see `restore`.
        self.revision += max(1, self.first_step // 100**self.epoch)
        self.serial += 1

    def _commit(self, kind: str, obj: JsonObject) -> None:
        self._history.append(_Commit(self.revision, kind, obj))
        self._snapshots[self.revision] = dict(self.objects)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def current_serial(self, name: str) -> int:
        """Return the serial number of an object's state, or of its deletion."""
        obj = self.objects.get(name)
        return self.deleted_serials.get(name, 0) if obj is None else int(obj["metadata"]["annotations"]["serial"])

    def compact(self) -> None:
        """Forget the history: a watch or a page that needs it gets 410 Gone."""
        self._compacted = self.revision
        self._history.clear()

    def restore(self, back: int) -> None:
        """Go back by some commits, as an etcd that is restored from a backup. All watches break.

        With a `first_step` of 1, the server may give a revision a second time.
        """
        revisions = [revision for revision in self._snapshots if self._compacted <= revision <= self.revision]
        self.revision = revisions[max(0, len(revisions) - 1 - back)] if revisions else self.revision
        self.objects = dict(self._snapshots[self.revision])
        self._history = [commit for commit in self._history if commit.revision <= self.revision]
        self._snapshots = {
            revision: expected for revision, expected in self._snapshots.items() if revision <= self.revision
        }
        self.epoch += 1
        self.serial += 1
        self.break_watches()

    def break_watches(self) -> None:
        """Break the connection of every watch."""
        self._watch_number += 1
        self._wake()

    # -------------------------------------------------------------- requests
    async def send(self, request: RestRequest, **_: Any) -> RestResponse:
        """Answer a request, in a hundredth of a second each way."""
        self.requests.append(f"{request.verb} {request.name}")
        await asyncio.sleep(0.01)
        if self.refused:
            self.failed_reads += request.method == "GET"
            raise ConnectError("connection refused")
        if request.method == "GET":
            if self.failing_reads > 0:
                self.failing_reads -= 1
                self.failed_reads += 1
                raise ConnectionLostError("the connection broke")
            response = self._list(request) if not request.name else self._get(request.name)
        else:
            response = self._write(request)
        await asyncio.sleep(0.01)
        return response

    def _write(self, request: RestRequest) -> RestResponse:
        fault, self.write_fault = self.write_fault, Fault.NONE
        if fault is Fault.LOST_REQUEST:
            raise ConnectionLostError("the connection broke before the request arrived")
        if fault is Fault.STATUS_FAILURE:
            return _status(200, 500, "InternalError", "the backend failed")
        response = self._commit_write(request)
        lost: dict[Fault, OpsdkError] = {
            Fault.LOST_RESPONSE: ConnectionLostError("the connection broke before the response arrived"),
            Fault.TIMEOUT: DeadlineError("no response within 5 s"),
        }
        if fault in lost:
            raise lost[fault]
        if fault is Fault.INTERNAL_ERROR:
            return _status(500, 500, "InternalError", "etcdserver: request timed out")
        if fault is Fault.UNREADABLE_RESPONSE and response.ok:
            return RestResponse(200, {"content-type": "application/json"}, b'{"metadata": {"name": 5}}')
        return response

    def _commit_write(self, request: RestRequest) -> RestResponse:
        name = request.name
        body = msgspec.json.decode(request.body) if request.body else {}
        if request.method == "POST" and not request.subresource:
            metadata = body["metadata"]
            name = metadata.get("name") or f"{metadata['generateName']}{self.serial}"
            if name in self.objects:
                return _status(409, 409, "AlreadyExists", "exists")
            return _json(201, self.put(name, body))
        if not name:
            for one in sorted(self.objects):
                self.delete(one)
            return _json(200, {"apiVersion": "v1", "kind": "Status", "status": "Success", "metadata": {}})
        if name not in self.objects:
            return _status(404, 404, "NotFound", "not found")
        old = self.objects[name]
        if request.method == "DELETE":
            self.delete(name)
            details = {"name": name, "uid": old["metadata"]["uid"]}
            return _json(200, {"apiVersion": "v1", "kind": "Status", "status": "Success", "details": details})
        if request.subresource == "eviction":
            self.delete(name)
            return _json(201, {"apiVersion": "v1", "kind": "Status", "status": "Success", "metadata": {}})
        sent = body.get("metadata", {}).get("resourceVersion")
        if sent and sent != old["metadata"]["resourceVersion"]:
            return _status(409, 409, "Conflict", "the object has been modified")
        if request.method == "PATCH":
            state = self.put(name, {**old, "data": {**(old.get("data") or {}), **body.get("data", {})}})
            if "PartialObjectMetadata" in request.headers.get("Accept", ""):
                partial = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"}
                return _json(200, {**partial, "metadata": state["metadata"]})
            return _json(200, state)
        return _json(200, self.put(name, body))

    def _get(self, name: str) -> RestResponse:
        if name not in self.objects:
            return _status(404, 404, "NotFound", "not found")
        return _json(200, self.objects[name])

    def _list(self, request: RestRequest) -> RestResponse:
        query = dict(request.query)
        limit, token = int(query.get("limit") or 0), query.get("continue", "")
        revision, start = self.revision, 0
        if token:
            epoch, revision, start = (int(part) for part in token.split(":"))
            if revision < self._compacted or epoch != self.epoch:
                return _status(410, 410, "Expired", "the continue token is too old")
        names = sorted(self._snapshots[revision])
        items = [self._snapshots[revision][name] for name in names[start : start + limit if limit else None]]
        more = f"{self.epoch}:{revision}:{start + limit}" if limit and start + limit < len(names) else ""
        metadata = {"resourceVersion": str(revision), "continue": more}
        return _json(200, {"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items})

    # -------------------------------------------------------------- watches
    @asynccontextmanager
    async def stream(
        self, request: RestRequest, *, idle_timeout: float, **_: Any
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch. One from a future revision is silent until the server passes it, as kube-apiserver's."""
        query = dict(request.query)
        self.requests.append(f"watch {query.get('resourceVersion')}")
        await asyncio.sleep(0.01)
        if self.refused:
            raise ConnectError("connection refused")
        initial = "sendInitialEvents" in query
        frames = self._initial_frames() if initial else self._frames(int(query["resourceVersion"]))
        yield _with_idle_timeout(frames, idle_timeout)

    async def _initial_frames(self) -> AsyncIterator[bytes]:
        """Begin with the existing objects: a streaming list."""
        revision, number = self.revision, self._watch_number
        for obj in list(self.objects.values()):
            yield _frame("ADDED", obj)
            await asyncio.sleep(0.01)
            if number != self._watch_number:
                raise ConnectionLostError("the connection broke")
        end = {"resourceVersion": str(revision), "annotations": {"k8s.io/initial-events-end": "true"}}
        yield _frame("BOOKMARK", {"kind": "ConfigMap", "apiVersion": "v1", "metadata": end})
        async for frame in self._frames(revision):
            yield frame

    async def _frames(self, after: int) -> AsyncIterator[bytes]:
        number, queue = self._watch_number, deque[_Commit]()
        clock = asyncio.get_running_loop()
        end, bookmark_at, cursor = clock.time() + 300, clock.time() + self.bookmark_interval, after
        if after < self._compacted:
            yield _frame("ERROR", _status_object(410, "Expired", "too old resource version"))
            return
        while clock.time() < end:
            if number != self._watch_number or cursor < self._compacted:
                raise ConnectionLostError("the connection broke")
            queue.extend(commit for commit in self._history if commit.revision > cursor)
            shown_to = cursor = max(cursor, self.revision)
            if queue and self.watch_delay:
                await asyncio.sleep(self.watch_delay)
                if number != self._watch_number:
                    raise ConnectionLostError("the connection broke")
            while queue:
                commit = queue.popleft()
                yield _frame(commit.type, commit.obj)
            if clock.time() >= bookmark_at:
                bookmark_at = clock.time() + self.bookmark_interval
                if shown_to <= self.revision:
                    bookmark = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": str(shown_to)}}
                    yield _frame("BOOKMARK", bookmark)
            if cursor >= self.revision:
                await _first_of(self._changed.wait(), min(bookmark_at, end) - clock.time())


async def _with_idle_timeout(frames: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    while True:
        try:
            async with asyncio.timeout(seconds):
                frame = await anext(frames)
        except StopAsyncIteration:
            return
        except TimeoutError as error:
            raise DeadlineError(f"no byte for {seconds:g} s") from error
        yield frame


async def _first_of(wait: Any, seconds: float) -> None:
    try:
        async with asyncio.timeout(max(seconds, 0.0)):
            await wait
    except TimeoutError:
        return


def _json(status: int, body: JsonObject) -> RestResponse:
    return RestResponse(status, {"content-type": "application/json"}, msgspec.json.encode(body))


def _status_object(code: int, reason: str, message: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


def _status(status: int, code: int, reason: str, message: str) -> RestResponse:
    return _json(status, _status_object(code, reason, message))


def _frame(kind: str, obj: JsonObject) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"
