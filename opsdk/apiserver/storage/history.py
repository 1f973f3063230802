"""The history of one bucket: a window of changes. Pure.

The window contains every change after its *floor*. A watch may start at any revision from the floor on. The state at
such a revision is computed by undoing later changes.

Upstream: k8s.io/apiserver/pkg/storage/cacher/watch_cache.go (v1.36).
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Iterator, Mapping

from opsdk.apiserver.storage.ports import ChangeType, CompactedError, FutureRevisionError, StorageChange
from opsdk.structured_merge.value import JsonObject


class History:
    """The last `limit` changes of one bucket."""

    def __init__(self, *, floor: int = 0, limit: int = 10_000) -> None:
        self.floor = floor
        self._limit = limit
        self._changes: deque[StorageChange] = deque()

    def __len__(self) -> int:
        return len(self._changes)

    def __repr__(self) -> str:
        return f"<History of {len(self._changes)} changes after {self.floor}>"

    def append(self, change: StorageChange) -> None:
        """Append a change; revisions only grow."""
        self._changes.append(change)
        if len(self._changes) > self._limit:
            self.floor = self._changes.popleft().revision

    def compact(self, revision: int) -> None:
        """Drop all changes up to and including `revision`."""
        while self._changes and self._changes[0].revision <= revision:
            self._changes.popleft()
        self.floor = max(self.floor, revision)

    def check(self, revision: int, current: int) -> None:
        """Raise if `revision` is before the floor or after `current`."""
        if revision < self.floor:
            raise CompactedError(revision, self.floor)
        if revision > current:
            raise FutureRevisionError(revision, current)

    def since(self, revision: int) -> Iterator[StorageChange]:
        """Return the changes after `revision`, oldest first."""
        start = bisect.bisect_right(self._changes, revision, key=lambda change: change.revision)
        for index in range(start, len(self._changes)):
            yield self._changes[index]

    def undo(self, state: Mapping[str, JsonObject], revision: int) -> dict[str, JsonObject]:
        """Return the bucket's state at `revision`; `state` is the current one."""
        past = dict(state)
        for change in reversed(self._changes):
            if change.revision <= revision:
                break
            if change.previous is None:
                past.pop(change.key, None)
            else:
                past[change.key] = change.previous
        return past


def put(key: str, revision: int, value: JsonObject, previous: JsonObject | None) -> StorageChange:
    """Return a creation or replacement."""
    return StorageChange(ChangeType.PUT, key, revision, value, previous)


def removal(key: str, revision: int, last: JsonObject, previous: JsonObject) -> StorageChange:
    """Return a removal; `last` is the object's last state."""
    return StorageChange(ChangeType.DELETE, key, revision, last, previous)
