"""The journal of reconciles: causes, reads, requests and result of each. Bounded.

Upstream: none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime

import msgspec

from opsdk.base.cause import ReconcileCause
from opsdk.client.activity import LIMIT, ObjectRead, RequestSent
from opsdk.controller.progress import ChildRecord
from opsdk.errors import UsageError


class ReconcileRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One reconcile.

    Attributes:
        controller: name of the controller.
        kind: group, version and kind that it reconciles; empty for a controller without one.
        namespace: of the request.
        name: of the request.
        reconcile_id: unique for each attempt; also in the log.
        started_at: when it began.
        seconds: how long it took.
        waited: seconds that the request was ready before.
        attempt: number of failures since the last success.
        causes: why it ran, the newest last.
        reads: the objects it read, with their versions.
        requests: the requests that it sent to the server.
        more_reads: number of reads that were not kept.
        more_requests: number of requests that were not kept.
        result: ``success``, ``requeue``, ``requeue_after``, ``waiting`` or ``error``.
        detail: the delay of the next run, the children that are not ready, or the error.
        raised_at: file, line and function of the author's code that raised the error; empty without an error.
        children: the children in the order in which they were applied, at most 64.
    """

    controller: str
    kind: str
    namespace: str
    name: str
    reconcile_id: str
    started_at: datetime
    seconds: float
    waited: float = 0.0
    attempt: int = 0
    causes: tuple[ReconcileCause, ...] = ()
    reads: tuple[ObjectRead, ...] = ()
    requests: tuple[RequestSent, ...] = ()
    more_reads: int = 0
    more_requests: int = 0
    result: str = ""
    detail: str = ""
    raised_at: str = ""
    children: tuple[ChildRecord, ...] = ()

    def __str__(self) -> str:
        key = f"{self.namespace}/{self.name}" if self.namespace else self.name
        when = self.started_at.isoformat(timespec="milliseconds")
        retry = f", attempt {self.attempt + 1}" if self.attempt else ""
        detail = f": {self.detail}" if self.detail else ""
        lines = [f"{when} {self.controller} {key}: {self.result}{detail} ({self.seconds * 1e3:.1f} ms{retry})"]
        lines += [f"  cause    {cause}" for cause in self.causes]
        lines += [f"  read     {read}" for read in self.reads]
        lines += [f"  read     {self.more_reads} more objects"] if self.more_reads else []
        lines += [f"  request  {request}" for request in self.requests]
        lines += [f"  request  {self.more_requests} more requests"] if self.more_requests else []
        return "\n".join(lines)


class Journal:
    """Keeps the last reconciles of an operator, with the objects that they read while there is room.

    Args:
        size: number of reconciles; 0 keeps none.
        max_bytes: bytes of the objects that were read. Above this, the oldest reconciles keep only keys and versions.

    >>> from datetime import UTC
    >>> journal = Journal(size=2)
    >>> for n in range(3):
    ...     journal.add(
    ...         ReconcileRecord(
    ...             controller="site", kind="", namespace="default", name=f"s{n}", reconcile_id=str(n),
    ...             started_at=datetime(2026, 1, 1, tzinfo=UTC), seconds=0.1,
    ...         )
    ...     )
    >>> [record.name for record in journal.find()]
    ['s1', 's2']
    """

    limit = LIMIT
    """Reads of one reconcile that are kept, and requests."""

    def __init__(self, *, size: int = 1000, max_bytes: int = 4 * 1024 * 1024) -> None:
        if size < 0 or max_bytes < 0:
            raise UsageError(f"size and max_bytes of a journal must be at least 0, not {size} and {max_bytes}")
        self.size = size
        self._max_bytes = max_bytes
        self._bytes = 0
        self._records: deque[ReconcileRecord] = deque()
        self._sizes: deque[int] = deque()
        """Bytes of the objects of each record."""
        # Number of records, counted from the oldest, that no longer have their objects.
        self._trimmed_records = 0

    def add(self, record: ReconcileRecord) -> None:
        """Add a reconcile; the oldest one goes when there is no room."""
        if not self.size:
            return
        size = 0
        for read in record.reads:
            size += len(read.data or b"")
        self._records.append(record)
        self._sizes.append(size)
        self._bytes += size
        if len(self._records) > self.size:
            self._records.popleft()
            self._bytes -= self._sizes.popleft()
            self._trimmed_records = max(self._trimmed_records - 1, 0)
        while self._bytes > self._max_bytes:
            self._drop_objects(self._trimmed_records)
            self._trimmed_records += 1

    def _drop_objects(self, position: int) -> None:
        record = self._records[position]
        reads = tuple(msgspec.structs.replace(read, data=None) for read in record.reads)
        self._records[position] = msgspec.structs.replace(record, reads=reads)
        self._bytes -= self._sizes[position]
        self._sizes[position] = 0

    def find(
        self, *, controller: str = "", namespace: str | None = None, name: str = "", reconcile_id: str = ""
    ) -> Iterator[ReconcileRecord]:
        """Iterate over the reconciles that match, oldest first. Empty arguments match everything."""
        for record in tuple(self._records):
            if (
                controller in ("", record.controller)
                and namespace in (None, record.namespace)
                and name in ("", record.name)
                and reconcile_id in ("", record.reconcile_id)
            ):
                yield record

    def __len__(self) -> int:
        """Return the number of reconciles."""
        return len(self._records)

    def __repr__(self) -> str:
        return f"<Journal of {len(self)} reconciles, {self._bytes} bytes>"
