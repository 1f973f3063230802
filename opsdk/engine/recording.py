"""Records of a run: which reconcile sent a write, and what the server refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from enum import Enum

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.tree_names import kind_in, subject_of_tree
from opsdk.base.cause import ReconcileCause
from opsdk.controller.journal import Journal, ReconcileRecord
from opsdk.engine.container_requests import REFUSED_STATUS, container_request, refuse_container_request
from opsdk.http.asgi_types import App, Message, Receive, Scope, Send
from opsdk.rest.config import RestConfig
from opsdk.structured_merge.value import JsonObject

_MAX_BODY = 1 << 16
"""Bytes of a refusal that are kept."""
_MAX_REFUSALS = 1_000
_WHOLE = frozenset({"success", "requeue_after"})
"""Results of reconciles that came to their end."""
_WRITE_SECONDS = 0.005
"""Virtual seconds that a write takes."""


class RunPhase(Enum):
    """The phases of a run."""

    SETTLING = "settling"
    """The simulated controllers come to rest; writes are not a part of the outcome."""
    INSTALLATION = "installation"
    """Definitions and webhook configurations of this version are applied."""
    OPERATOR = "operator"
    """The operator runs."""
    CHANGES = "changes"
    """The user's changes are made, and the operator runs."""


class WriteSource(msgspec.Struct, frozen=True, kw_only=True):
    """The reconcile that sent a write.

    Attributes:
        controller: its name.
        kind: that it reconciles.
        namespace: of the request.
        name: of the request.
        causes: why it ran.
        reason: why the write was sent, where the operator knows it.
    """

    controller: str
    kind: str
    namespace: str
    name: str
    causes: tuple[ReconcileCause, ...] = ()
    reason: str = ""

    @property
    def subject(self) -> str:
        """Kind, namespace and name of the reconciled object; the controller's name if it has no kind."""
        return f"{kind_in(self.kind) or self.controller} {ObjectKey(self.namespace, self.name)}"


def failing_subject(record: ReconcileRecord) -> str:
    """Return kind, namespace and name of a reconciled object; the controller's name if it has no kind."""
    return f"{kind_in(record.kind) or record.controller} {ObjectKey(record.namespace, record.name)}"


class FailureJournal(Journal):
    """A journal that remembers the reconciles that fail, and drops the rest."""

    def __init__(self) -> None:
        super().__init__(size=1, max_bytes=0)
        self._failing: dict[tuple[str, str, str], ReconcileRecord] = {}

    @property
    def failing(self) -> Sequence[ReconcileRecord]:
        """The last reconciles of objects whose last reconcile failed."""
        return list(self._failing.values())

    def add(self, record: ReconcileRecord) -> None:
        """Remember a reconcile if it failed."""
        super().add(record)
        key = (record.controller, record.namespace, record.name)
        self._failing.pop(key, None)
        if record.result == "error":
            self._failing[key] = record


class AttributionJournal(FailureJournal):
    """A journal that remembers which reconcile sent which write, and which objects the reconciles looked at.

    The server answers a write with its resource version, which is also the revision of the write. A deletion has none
    in its answer: it is found by its object.
    """

    limit = 100_000

    def __init__(self) -> None:
        super().__init__()
        self._looked_at: dict[tuple[str, str], set[tuple[str, str]]] = {}
        self._incomplete: set[tuple[str, str]] = set()
        self._by_revision: dict[str, WriteSource] = {}
        self._deletions: dict[str, WriteSource] = {}

    def add(self, record: ReconcileRecord) -> None:
        """Remember the writes of a reconcile."""
        super().add(record)
        key = (record.controller, failing_subject(record))
        looked_at = self._looked_at.setdefault(key, set())
        looked_at.update((each.gvk, each.key) for each in record.reads)
        looked_at.update((each.gvk, each.key) for each in record.requests)
        is_whole = record.result in _WHOLE and not record.more_reads and not record.more_requests
        (self._incomplete.discard if is_whole else self._incomplete.add)(key)
        for request in record.requests:
            if request.verb in ("get", "list") or not 200 <= request.status < 300:
                continue
            source = WriteSource(
                controller=record.controller,
                kind=record.kind,
                namespace=record.namespace,
                name=record.name,
                causes=record.causes,
                reason=request.reason,
            )
            if request.resource_version:
                self._by_revision.setdefault(request.resource_version, source)
            if request.verb == "delete":
                self._deletions.setdefault(f"{kind_in(request.gvk)} {request.key}", source)

    @property
    def looked_at(self) -> Mapping[tuple[str, str], Collection[tuple[str, str]]]:
        """By controller and reconciled object: kind and key of what was read or written, also if it does not exist."""
        return self._looked_at

    @property
    def incomplete(self) -> frozenset[tuple[str, str]]:
        """The controllers and objects whose last reconcile failed, waits, or did more than is remembered."""
        return frozenset(self._incomplete)

    def source_of(self, revisions: Sequence[int], obj: JsonObject, *, deleted: bool) -> WriteSource | None:
        """Return the reconcile that sent the first of some writes of an object, or None.

        Args:
            revisions: of the writes.
            obj: the object.
            deleted: whether one of them deleted it, or began its deletion.
        """
        for revision in revisions:
            if (source := self._by_revision.get(str(revision))) is not None:
                return source
        if not deleted:
            return None
        return self._deletions.get(subject_of_tree(obj))


class RefusedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of the operator that the server refused.

    Attributes:
        method: of the request.
        path: of the request.
        status: of the response.
        message: of the server.
        count: how often.
    """

    method: str
    path: str
    status: int
    message: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.method} {self.path}: {self.status} {self.message}"


class RefusalRecorder:
    """Records refused requests: 403, and 4xx for writes. A missing object or a conflict is not a refusal.

    It refuses requests that need a running container itself.
    """

    def __init__(self) -> None:
        self._refusals: dict[tuple[str, str, int], RefusedRequest] = {}

    @property
    def refusals(self) -> Sequence[RefusedRequest]:
        """The refusals, each request once."""
        return list(self._refusals.values())

    def around(self, config: RestConfig) -> RestConfig:
        """Return the configuration of clients whose requests are recorded. It has an `app`."""
        assert config.app is not None
        return msgspec.structs.replace(config, app=self._recorded(config.app))

    def _recorded(self, app: App) -> App:

        async def recorded(scope: Scope, receive: Receive, send: Send) -> None:
            if method := container_request(scope):
                refusal = await refuse_container_request(scope, receive, send)
                self._add(method, scope["path"], REFUSED_STATUS, refusal)
                return
            status, body = 0, b""

            async def passed(message: Message) -> None:
                nonlocal status, body
                if message["type"] == "http.response.start":
                    status = message["status"]
                elif status >= 400 and len(body) < _MAX_BODY:
                    body += message.get("body", b"")
                await send(message)

            # Without time between two writes, a timestamp in a child would not differ, and its loop would not be seen.
            if scope["type"] == "http" and scope["method"] != "GET":
                await asyncio.sleep(_WRITE_SECONDS)
            await app(scope, receive, passed)
            if scope["type"] == "http" and _is_refusal(scope["method"], status):
                self._add(scope["method"], scope["path"], status, body)

        return recorded

    def _add(self, method: str, path: str, status: int, body: bytes) -> None:
        key = (method, path, status)
        refusal = self._refusals.get(key)
        if refusal is not None:
            self._refusals[key] = msgspec.structs.replace(refusal, count=refusal.count + 1)
        elif len(self._refusals) < _MAX_REFUSALS:
            self._refusals[key] = RefusedRequest(method=method, path=path, status=status, message=_message(body))


def _is_refusal(method: str, status: int) -> bool:
    return status == 403 or (method != "GET" and status in (400, 413, 422, 500))


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body).get("message", ""))
    except (ValueError, AttributeError):
        return body[:200].decode("utf-8", "replace")
