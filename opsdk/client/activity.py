"""The reads and requests of a task: the part of one reconcile in the journal.

Upstream: none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextvars import ContextVar, Token
from typing import Any, Final, Self

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.client.status_writes import StatusWrite

__all__ = ["ObjectRead", "RequestSent"]

LIMIT: Final = 64
"""Reads of one reconcile, and requests. A reconcile that lists ten thousand objects must not fill the journal."""


class ObjectRead(msgspec.Struct, frozen=True, gc=False):
    """An object that was read.

    Attributes:
        gvk: group, version and kind, such as ``apps/v1, Kind=Deployment``.
        key: namespace and name; the name is ``*`` for a list without objects.
        resource_version: the version that was read; empty if the object does not exist.
        cached: the cache returned it.
        data: the object as JSON; None if it does not exist, or if the journal has dropped it.
    """

    gvk: str
    key: str
    resource_version: str
    cached: bool
    data: bytes | None = None

    def __str__(self) -> str:
        absent = "(no objects)" if self.key.endswith("*") else "(does not exist)"
        version = f"at {self.resource_version}" if self.resource_version else absent
        return f"{self.gvk} {self.key} {version}{'' if self.cached else ' (from the server)'}"


class RequestSent(msgspec.Struct, frozen=True, gc=False):
    """A write, or a read that went to the server.

    Attributes:
        verb: ``create``, ``update``, ``patch``, ``apply``, ``delete``, ``get``, ``list``.
        gvk: as in `ObjectRead`.
        key: namespace and name.
        subresource: such as ``status``; empty for the object.
        status: the HTTP status; 0 if no response arrived.
        seconds: its duration.
        resource_version: of the object after a write.
        reason: why it was sent, where the sender knows: see `Activity.explain`.
    """

    verb: str
    gvk: str
    key: str
    subresource: str
    status: int
    seconds: float
    resource_version: str = ""
    reason: str = ""

    def __str__(self) -> str:
        name = f"{self.gvk} {self.key}" + (f"/{self.subresource}" if self.subresource else "")
        version = f" -> {self.resource_version}" if self.resource_version else ""
        reason = f" because {self.reason}" if self.reason else ""
        return f"{self.verb} {name}: {self.status or 'no response'}{version}{reason}"


class OwnChange(msgspec.Struct, frozen=True, gc=False):
    """A write that named the previous version, so the change is this write alone.

    Attributes:
        group: of the object's kind.
        kind: of the object.
        key: namespace and name.
        before: the resource version that the request named.
        after: the resource version of the response.
    """

    group: str
    kind: str
    key: ObjectKey
    before: str
    after: str


class Activity(msgspec.Struct, kw_only=True, eq=False, weakref=True):
    """Collects the reads and requests of a block, and of the tasks that it starts.

    Attributes:
        enabled: False collects only `own_changes`, even if the block is inside another one.
        limit: number of reads, and of requests, that are kept.
        reads: the objects that were read.
        requests: the requests that were sent.
        more_reads: number of reads above the limit.
        more_requests: number of requests above the limit.
        own_changes: the newest 64 writes of a status, and of finalizers, that named the version before them.
        conditions: the types of the conditions that the reconciler has set, also without a change.
        status_writes: the newest 64 writes of a status besides those of `ctx.status` and of opsdk; None collects none.

    >>> with Activity() as activity:
    ...     _ = current_activity() is activity
    >>> activity.reads
    []
    """

    enabled: bool = True
    limit: int = LIMIT
    reads: list[ObjectRead] = []
    requests: list[RequestSent] = []
    more_reads: int = 0
    more_requests: int = 0
    own_changes: list[OwnChange] = []
    conditions: frozenset[str] = frozenset()
    status_writes: list[StatusWrite] | None = None
    _seen: set[tuple[Hashable, Hashable, str]] = set()
    _reason: str = ""
    _token: Token[Activity | None] | None = None

    # A block of its own, not a generator, which takes twice as long: each reconcile has one.
    def __enter__(self) -> Self:
        self._token = _ACTIVITY.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        _ACTIVITY.reset(self._token)

    def record_read(
        self,
        gvk: Hashable,
        key: Hashable,
        resource_version: str,
        *,
        cached: bool,
        data: bytes | Callable[[], bytes] | None,
    ) -> None:
        """Record an object that was read. The same version of it counts once.

        Args:
            gvk: see `ObjectRead`; it is converted to a string only if the read is kept, like `key`.
            key: see `ObjectRead`.
            resource_version: see `ObjectRead`.
            cached: see `ObjectRead`.
            data: the object as JSON, or a function that encodes it, called only if the read is kept.
        """
        identity = (gvk, key, resource_version)
        if identity in self._seen:
            return
        if len(self.reads) >= self.limit:
            self.more_reads += 1
            return
        self._seen.add(identity)
        content = data if data is None or isinstance(data, bytes) else data()
        self.reads.append(ObjectRead(str(gvk), str(key), resource_version, cached, content))

    def record_request(self, request: RequestSent) -> None:
        """Record a request."""
        if len(self.requests) >= self.limit:
            self.more_requests += 1
        else:
            self.requests.append(request)

    def record_own_change(self, change: OwnChange) -> None:
        """Record a write of a status or of finalizers."""
        self.own_changes.append(change)
        if len(self.own_changes) > LIMIT:
            del self.own_changes[0]

    def explain(self, reason: str) -> None:
        """Set the reason of the next request. Call it without an await before the request."""
        self._reason = reason

    def take_reason(self) -> str:
        """Return the reason of the request that begins now; empty if none was given."""
        reason, self._reason = self._reason, ""
        return reason


_ACTIVITY: ContextVar[Activity | None] = ContextVar("opsdk_activity", default=None)


def current_activity() -> Activity | None:
    """Return the activity that collects the reads and requests of the running task, or None."""
    activity = _ACTIVITY.get()
    return activity if activity is not None and activity.enabled else None


def record_own_change(change: OwnChange) -> None:
    """Record a write in the activity of the running task, if it belongs to one."""
    if (activity := _ACTIVITY.get()) is not None:
        activity.record_own_change(change)


def record_conditions(*types: str) -> None:
    """Record that the running reconcile has set conditions, so that opsdk does not write others of these types."""
    if (activity := _ACTIVITY.get()) is not None:
        activity.conditions |= frozenset(types)


def recorded_conditions() -> frozenset[str]:
    """Return the types of the conditions that the running reconcile has set."""
    activity = _ACTIVITY.get()
    return activity.conditions if activity is not None else frozenset()


def record_status_write(write: Callable[..., StatusWrite], *args: Any) -> None:
    """Record ``write(*args)``, a write of a status, if the running reconcile collects them."""
    activity = _ACTIVITY.get()
    if activity is not None and activity.status_writes is not None:
        activity.status_writes.append(write(*args))
        del activity.status_writes[:-LIMIT]


def recorded_status_writes(group: str, kind: str, key: ObjectKey) -> list[StatusWrite]:
    """Return the recorded writes of the status of one object."""
    activity = _ACTIVITY.get()
    writes = activity.status_writes if activity is not None else None
    return [write for write in writes or () if (write.group, write.kind, write.key) == (group, kind, key)]
