"""Own writes that the watch has not shown yet. Pure.

A cached read after a successful write must not go back in time, and the cache knows the write's result: the response
holds the object. `OwnWrites` keeps that object until the watch has passed its resource version, and reads prefer it
where the watched object is older. The watched state itself, and so every event, stays the server's.

It also closes a hole that every informer has: an object that is created and deleted while no watch runs leaves no
difference between two lists. An own write that a later list does not hold is a deletion.

Resource versions of one collection are compared as numbers (KEP-5504). Writes with other ones are not recorded.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TypeVar

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.cache.entry import StoreEntry

K = TypeVar("K")
V = TypeVar("V")

# Deleted objects that the watch may still show, and objects to read again. The oldest are dropped: it takes a broken
# watch to collect so many.
_MAX_KEPT = 4096


def revision_of(resource_version: str) -> int | None:
    """Return a resource version as a number, or None if it is not a number."""
    return int(resource_version) if resource_version.isdecimal() else None


class PendingWrite(msgspec.Struct, frozen=True):
    """The result of a write that the watch has not shown.

    Attributes:
        revision: the resource version of the result.
        entry: the object; None if it left the scope of the informer.
        uid: the object's uid.
    """

    revision: int
    entry: StoreEntry | None
    uid: str


class OwnWrites:
    """The own writes of one store."""

    def __init__(self) -> None:
        self._pending: dict[ObjectKey, PendingWrite] = {}
        # uid -> the number of the list that was in progress, and of bookmarks seen: only a later list, or the second
        # bookmark after it (a minute later), is surely newer than the deletion.
        self._deleted: dict[str, tuple[int, int]] = {}
        self._list_count = 0
        self._bookmark_count = 0
        self._own_changes: dict[tuple[ObjectKey, str], None] = {}
        self.unknown: dict[ObjectKey, None] = {}
        """Objects whose state after an own write is not known: the next cached read asks the server for them."""
        self.unknown_list = False
        """Whether an own write has changed many objects: the next cached read asks the server for all."""

    def __bool__(self) -> bool:
        return bool(self._pending or self._deleted)

    def __len__(self) -> int:
        return len(self._pending) + len(self._deleted)

    # -------------------------------------------------------------- recording
    def record(self, entry: StoreEntry, *, passed: int, in_scope: bool) -> None:
        """Record the object that a write or a read from the server returned.

        Args:
            entry: the object.
            passed: the resource version up to which the watch has shown everything.
            in_scope: whether the informer's selectors select the object.
        """
        revision = revision_of(entry.resource_version)
        if revision is None or revision <= passed:
            return
        pending = self._pending.get(entry.key)
        if pending is None or pending.revision < revision:
            self._pending.pop(entry.key, None)  # the order of the dict is that of the revisions
            self._pending[entry.key] = PendingWrite(revision, entry if in_scope else None, entry.uid)

    def record_own_change(self, key: ObjectKey, resource_version: str) -> None:
        """Record that an own write alone made the change to this resource version."""
        self._own_changes[key, resource_version] = None
        _drop_oldest(self._own_changes)

    def record_deleted(self, key: ObjectKey, uid: str, watched: StoreEntry | None = None) -> None:
        """Record that an object is gone.

        Args:
            key: of the object.
            uid: of the object.
            watched: what the watch has shown under the key. If that is another object, it may be older or newer,
                and is read again.
        """
        self._deleted[uid] = (self._list_count, self._bookmark_count)
        _drop_oldest(self._deleted)
        pending = self._pending.get(key)
        if pending is not None and pending.uid == uid:
            del self._pending[key]
            pending = None
        if pending is not None or (watched is not None and watched.uid not in self._deleted):
            self.record_unknown(key)

    def record_unknown(self, key: ObjectKey) -> None:
        """Record that the object's state is not known."""
        self.unknown[key] = None
        _drop_oldest(self.unknown)

    # -------------------------------------------------------------- reading
    def visible(self, key: ObjectKey, watched: StoreEntry | None) -> StoreEntry | None:
        """Return the newer of the watched object and the own write."""
        if watched is not None and watched.uid in self._deleted:
            watched = None
        pending = self._pending.get(key)
        if pending is None:
            return watched
        if watched is not None and (revision_of(watched.resource_version) or 0) >= pending.revision:
            return watched
        return pending.entry

    def entries(self) -> Iterator[StoreEntry]:
        """Iterate over the objects of own writes."""
        return iter([write.entry for write in self._pending.values() if write.entry is not None])

    # -------------------------------------------------------------- what the watch shows
    def take_own_change(self, entry: StoreEntry) -> bool:
        """Whether an own write alone made the change to this state. A second call returns False."""
        if (entry.key, entry.resource_version) not in self._own_changes:
            return False
        del self._own_changes[entry.key, entry.resource_version]
        return True

    def shown(self, entry: StoreEntry) -> StoreEntry | None:
        """The watch or a list shows a state of an object.

        Returns the own write that it replaces, if that was another object with the same key: a missed deletion.
        """
        pending = self._pending.get(entry.key)
        if pending is None or (revision_of(entry.resource_version) or 0) < pending.revision:
            return None
        del self._pending[entry.key]
        return pending.entry if pending.uid != entry.uid else None

    def removed(self, key: ObjectKey, uid: str) -> StoreEntry | None:
        """The watch shows a deletion. Returns the own write of that object, if it was pending."""
        self._deleted.pop(uid, None)
        pending = self._pending.get(key)
        if pending is None or pending.uid != uid:
            return None
        del self._pending[key]
        return pending.entry

    def list_started(self) -> None:
        """The first page of a list is requested: the list is newer than every write until now."""
        self._list_count += 1

    def listed(self, keys: Container[ObjectKey], revision: int | None) -> list[StoreEntry]:
        """A list at `revision` is in the store. Returns the own writes that it should hold and does not: deletions."""
        self._deleted = {uid: seq for uid, seq in self._deleted.items() if seq[0] == self._list_count}
        lost = []
        for key, pending in list(self._pending.items()):
            if revision is None or pending.revision <= revision:
                del self._pending[key]
                if pending.entry is not None and key not in keys:
                    lost.append(pending.entry)
        return lost

    def bookmark(self) -> None:
        """The watch shows a bookmark."""
        self._bookmark_count += 1
        if self._deleted:
            self._deleted = {uid: seq for uid, seq in self._deleted.items() if seq[1] > self._bookmark_count - 2}

    def passed(self, revision: int) -> None:
        """The watch has shown everything up to `revision`: older own writes were outside the informer's scope."""
        while self._pending:
            key, pending = next(iter(self._pending.items()))
            if pending.revision >= revision:
                return
            del self._pending[key]

    def __repr__(self) -> str:
        return f"<OwnWrites: {len(self._pending)} pending, {len(self._deleted)} deleted>"


def _drop_oldest(kept: dict[K, V]) -> None:
    while len(kept) > _MAX_KEPT:
        del kept[next(iter(kept))]
