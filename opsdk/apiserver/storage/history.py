"""The history of one bucket: a window of changes. Pure.

The window contains every change after its *floor*. A watch may start at any revision from the floor on. The state at
such a revision is computed by undoing later changes.

Upstream: k8s.io/apiserver/pkg/storage/cacher/watch_cache.go (v1.36).
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from opsdk.apiserver.storage.large_objects import LARGE_OBJECTS
from opsdk.apiserver.storage.ports import ChangeType, CompactedError, FutureRevisionError, StorageChange
from opsdk.structured_merge.value import JsonObject

_encode = msgspec.json.Encoder().encode


HISTORY_BYTES: Final = 64 * 1024 * 1024
"""JSON bytes of the changes that one storage keeps for its watches."""


class HistoryBudget:
    """The bytes that all histories of one storage share. Pure.

    The history that holds the most bytes drops its oldest changes, so a quiet bucket keeps its own.
    """

    def __init__(self, limit: int = HISTORY_BYTES) -> None:
        self.limit = limit
        self.held = 0
        self._histories: dict[History, None] = {}

    def __repr__(self) -> str:
        return f"<HistoryBudget: {self.held} of {self.limit} bytes>"

    def account(self, history: History, size: int) -> None:
        """Add `size` bytes of a history, which may be negative."""
        self.held += size
        if history.held:
            self._histories[history] = None
        else:
            self._histories.pop(history, None)

    def enforce(self) -> None:
        """Drop changes until the rest fits."""
        while self.held > self.limit:
            largest = max(self._histories, key=lambda history: history.held)
            excess = self.held - self.limit
            largest.evict(excess)


def _ignore() -> None:
    """Do nothing: no watch depends on the history."""


class History:
    """The last changes of one bucket: at most `limit` of them, and no more bytes than the storage's budget has.

    Attributes:
        floor: the revision of the last change that was dropped.
        held: JSON bytes of the changes.
        on_evict: called after the budget has dropped changes that watches may still have to read.
    """

    def __init__(self, *, floor: int = 0, limit: int = 10_000, budget: HistoryBudget | None = None) -> None:
        self.floor = floor
        self.held = 0
        self.on_evict: Callable[[], None] = _ignore
        self._limit = limit
        self._budget = budget or HistoryBudget()
        self._changes: deque[StorageChange] = deque()
        self._sizes: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._changes)

    def __repr__(self) -> str:
        return f"<History of {len(self._changes)} changes after {self.floor}>"

    def append(self, change: StorageChange) -> None:
        """Append a change; revisions only grow."""
        remembered = LARGE_OBJECTS.size(change.latest) if LARGE_OBJECTS.sizes else None
        size = remembered or len(_encode(change.value))
        self._changes.append(change)
        self._sizes.append(size)
        self._hold(size)
        if len(self._changes) > self._limit:
            self.floor = self._drop_oldest()
        if self._budget.held > self._budget.limit:
            self._budget.enforce()

    def evict(self, excess: int) -> None:
        """Drop the oldest changes: at least `excess` bytes, or all."""
        target = self.held - excess
        while self._changes and self.held > target:
            self.floor = self._drop_oldest()
        self.on_evict()

    def compact(self, revision: int) -> None:
        """Drop all changes up to and including `revision`."""
        while self._changes and self._changes[0].revision <= revision:
            self._drop_oldest()
        self.floor = max(self.floor, revision)

    def clear(self) -> None:
        """Drop all changes."""
        while self._changes:
            self.floor = self._drop_oldest()

    def _drop_oldest(self) -> int:
        self._hold(-self._sizes.popleft())
        return self._changes.popleft().revision

    def _hold(self, size: int) -> None:
        self.held += size
        self._budget.account(self, size)

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
