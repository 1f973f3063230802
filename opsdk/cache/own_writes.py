"""Own writes that the watch has not shown yet. Pure.

A cached read after a successful write must not go back in time, and the cache knows the write's result: the response
holds the object. `OwnWrites` keeps that object until the watch has passed its resource version, and reads prefer it
where the watched object is older. The watched state itself, and so every event, stays the server's.

It also closes a hole that every informer has: an object that is created and deleted while no watch runs leaves no
difference between two lists. An own write that a later list does not hold is a deletion.

Invariants:

- A list that was requested after a write was acknowledged is newer than the write, whatever its resource version: an
  API server whose etcd was restored goes back. So such a list ends everything that was recorded before its request.
- The watch ends what it has passed: own writes by their revision, and what has no revision by its second bookmark.
- Each record ends by one of the two, so memory is bounded by the writes of the last minutes.

Resource versions of one collection are compared as numbers (KEP-5504). Writes with other ones are not recorded.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.cache.entry import StoreEntry

# Deletions and unknown objects. It takes a broken watch to collect so many: then all objects are unknown.
_MAX_MARKS = 65_536
# Own changes whose event will be named an own one. The oldest are dropped: their events count as foreign.
_MAX_OWN_CHANGES = 4096


def revision_of(resource_version: str) -> int | None:
    """Return a resource version as a number, or None if it is not a number."""
    if not resource_version.isdecimal():
        return None
    try:
        return int(resource_version)
    except ValueError:
        return None  # it has more than 4,300 digits


class _Since(NamedTuple):
    """When a record was made."""

    lists: int
    """Lists requested until then."""
    bookmarks: int
    """Bookmarks seen until then."""


class PendingWrite(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The result of a write that the watch has not shown.

    Attributes:
        key: of the object.
        revision: the resource version of the result.
        entry: the object; None if it left the scope of the informer.
        uid: the object's uid.
        since: when the write was acknowledged.
        after_rollback: the server has gone back, and the watched state is of the time before: only a list ends this.
    """

    key: ObjectKey
    revision: int
    entry: StoreEntry | None
    uid: str
    since: _Since
    after_rollback: bool = False


class UnknownMark(msgspec.Struct, frozen=True, eq=False):
    """An object, or a whole collection, whose state after an own write is not known. Compared by identity.

    Attributes:
        revision: the resource version of the write; None if the response did not hold it.
        since: when the write ended.
    """

    revision: int | None
    since: _Since


class _OwnChange(msgspec.Struct, frozen=True, gc=False):
    revision: int
    written_at: float
    since: _Since


class OwnWrites:
    """The own writes of one store."""

    def __init__(self) -> None:
        self.pending: dict[ObjectKey, PendingWrite] = {}
        """The results of writes. Only this class changes it."""
        self.deleted: dict[str, _Since] = {}
        """When objects were deleted, by uid. Only this class changes it."""
        self._own_changes: dict[tuple[ObjectKey, str], _OwnChange] = {}
        self._now = _Since(0, 0)
        self.unknown: dict[ObjectKey, UnknownMark] = {}
        """Objects whose state after an own write is not known: the next cached read asks the server for them."""
        self.unknown_list: UnknownMark | None = None
        """Set after an own write that may have changed any object: the next cached read asks the server for all."""
        self.newest_revision = 0
        """The highest resource version of a write that the server acknowledged; 0 before the first."""
        self.shown_own_changes: list[float] = []
        """When the own changes were written that `take_own_change` has found."""

    def __len__(self) -> int:
        """Return the number of all records: they end with the watch, so an idle store has none."""
        marks = len(self.unknown) + (self.unknown_list is not None)
        return len(self.pending) + len(self.deleted) + len(self._own_changes) + marks

    # -------------------------------------------------------------- recording
    def record(
        self, entry: StoreEntry, revision: int | None, *, passed: int, in_scope: bool, after_rollback: bool = False
    ) -> None:
        """Record the object that a write or a read from the server returned.

        Args:
            entry: the object.
            revision: its resource version as a number, see `revision_of`.
            passed: the resource version up to which the watch has shown everything.
            in_scope: whether the informer's selectors select the object.
            after_rollback: the server has gone back: this state is newer than the watched one, whatever its version.
        """
        pending = self.pending.get(entry.key)
        follows_rollback = pending is not None and pending.after_rollback
        after_rollback = after_rollback or follows_rollback
        # The response to a write may arrive after the one to a later deletion.
        if revision is None or (revision <= passed and not after_rollback) or entry.uid in self.deleted:
            return
        self.newest_revision = max(self.newest_revision, revision)
        if pending is None or pending.revision < revision or (after_rollback and not follows_rollback):
            self.pending.pop(entry.key, None)  # the order of the dict is about that of the revisions
            self.pending[entry.key] = PendingWrite(
                entry.key, revision, entry if in_scope else None, entry.uid, self._now, after_rollback
            )

    def record_own_change(self, entry: StoreEntry, revision: int | None, *, passed: int, written_at: float) -> None:
        """Record that an own write alone made the change to this state.

        Args:
            entry: the state.
            revision: as for `record`.
            passed: as for `record`: an event that the watch has shown cannot be named an own one any more.
            written_at: the time of the response, in seconds.
        """
        if revision is None or revision <= passed:
            return
        self._own_changes[entry.key, entry.resource_version] = _OwnChange(revision, written_at, self._now)
        if len(self._own_changes) > _MAX_OWN_CHANGES:
            del self._own_changes[next(iter(self._own_changes))]

    def record_deleted(self, key: ObjectKey, uid: str, watched: StoreEntry | None = None) -> None:
        """Record that an object is gone.

        Args:
            key: of the object.
            uid: of the object.
            watched: what the watch has shown under the key. If that is another object, it may be older or newer,
                and is read again.
        """
        self.deleted[uid] = self._now
        pending = self.pending.get(key)
        if pending is not None and pending.uid == uid:
            del self.pending[key]
            pending = None
        if pending is not None or (watched is not None and watched.uid not in self.deleted):
            self.record_unknown(key)
        self._bound_marks()

    def record_unknown(self, key: ObjectKey, *, revision: int | None = None) -> None:
        """Record that the object's state is not known.

        Args:
            key: of the object.
            revision: the resource version of the write, if the response held it and the watch has not passed it.
        """
        if revision is not None:
            self.newest_revision = max(self.newest_revision, revision)
        self.unknown.pop(key, None)  # the order of the dict is about that of the revisions
        self.unknown[key] = UnknownMark(revision, self._now)
        self._bound_marks()

    def record_all_unknown(self) -> None:
        """Record that any object of the collection may have changed."""
        self.unknown_list = UnknownMark(None, self._now)

    def _bound_marks(self) -> None:
        if len(self.deleted) + len(self.unknown) > _MAX_MARKS:
            self.deleted.clear()
            self.unknown.clear()
            self.record_all_unknown()

    # -------------------------------------------------------------- reading
    def is_after_rollback(self, key: ObjectKey) -> bool:
        """Whether the object was written or read after the server went back, and no list has come since."""
        pending = self.pending.get(key)
        return pending is not None and pending.after_rollback

    def is_deleted(self, uid: str) -> bool:
        """Whether an own write deleted the object with this uid, and the watch has not shown it."""
        return uid in self.deleted

    def visible(self, key: ObjectKey, watched: StoreEntry | None) -> StoreEntry | None:
        """Return the newer of the watched object and the own write."""
        if watched is not None and watched.uid in self.deleted:
            watched = None
        pending = self.pending.get(key)
        if pending is None:
            return watched
        if pending.after_rollback or watched is None:
            return pending.entry
        return watched if (revision_of(watched.resource_version) or 0) >= pending.revision else pending.entry

    def entries(self) -> Iterator[StoreEntry]:
        """Iterate over the objects of own writes."""
        return iter([write.entry for write in self.pending.values() if write.entry is not None])

    def pending_write(self, key: ObjectKey) -> PendingWrite | None:
        """Return the pending write of an object: pass it to `resolve` after a read that began now."""
        return self.pending.get(key)

    def pending_writes(self) -> dict[ObjectKey, PendingWrite]:
        """Return all pending writes, for a read of all objects."""
        return dict(self.pending)

    def resolve(self, key: ObjectKey, mark: UnknownMark | None, pending: PendingWrite | None) -> None:
        """A read of the server has ended that began with this mark and this pending write.

        Its result is newer than both: also than a pending write with a higher resource version, which the server has
        lost then. A write during the read replaces the mark, and stays.
        """
        if mark is not None and self.unknown.get(key) is mark:
            del self.unknown[key]
        if pending is not None and self.pending.get(key) is pending:
            del self.pending[key]

    # -------------------------------------------------------------- what the watch shows
    def take_own_change(self, entry: StoreEntry) -> bool:
        """Whether an own write alone made the change to this state. A second call returns False."""
        change = self._own_changes.pop((entry.key, entry.resource_version), None) if self._own_changes else None
        if change is None:
            return False
        self.shown_own_changes.append(change.written_at)
        return True

    def shown(self, entry: StoreEntry) -> StoreEntry | None:
        """The watch or a list shows a state of an object.

        Returns the own write that it replaces, if that was another object with the same key: a missed deletion.
        """
        pending = self.pending.get(entry.key)
        if pending is None or pending.after_rollback:
            return None
        if (revision_of(entry.resource_version) or 0) < pending.revision:
            return None
        del self.pending[entry.key]
        return pending.entry if pending.uid != entry.uid else None

    def removed(self, key: ObjectKey, uid: str, revision: int | None = None) -> StoreEntry | None:
        """The watch shows a deletion. Returns the own write of that object, if it was pending.

        Args:
            key: of the object.
            uid: of the object.
            revision: of the deletion. A later own write stays: the object left the selection of the informer, and the
                own write put it back.
        """
        self.deleted.pop(uid, None)
        pending = self.pending.get(key)
        if pending is None or pending.uid != uid or pending.after_rollback:
            return None
        if revision is not None and revision < pending.revision:
            return None
        del self.pending[key]
        return pending.entry

    def list_started(self) -> None:
        """The first page of a list is requested: the list is newer than every write until now."""
        self._now = self._now._replace(lists=self._now.lists + 1)

    def listed(self, keys: Container[ObjectKey], revision: int | None) -> list[StoreEntry]:
        """The list that was started last is in the store, at `revision`.

        Returns the own writes that it should hold and does not: deletions.
        """
        started = self._now.lists

        def is_older(since: _Since, of: int | None) -> bool:
            return since.lists < started or revision is None or (of is not None and of <= revision)

        # A deletion during the list may come before or after its snapshot.
        self.deleted = {uid: since for uid, since in self.deleted.items() if since.lists == started}
        self.unknown = {k: mark for k, mark in self.unknown.items() if not is_older(mark.since, mark.revision)}
        if self.unknown_list is not None and self.unknown_list.since.lists < started:
            self.unknown_list = None
        self._own_changes = {k: own for k, own in self._own_changes.items() if not is_older(own.since, own.revision)}
        lost = []
        for key, pending in list(self.pending.items()):
            if is_older(pending.since, pending.revision):
                del self.pending[key]
                if pending.entry is not None and key not in keys:
                    lost.append(pending.entry)
            elif pending.after_rollback:
                # The list is of the time after the rollback too: the watch shows the write, and ends this record.
                self.pending[key] = replace(pending, after_rollback=False)
        revisions = [write.revision for write in self.pending.values()]
        revisions += [mark.revision for mark in self.unknown.values() if mark.revision is not None]
        self.newest_revision = max(revisions, default=0)
        return lost

    def bookmark(self) -> None:
        """The watch shows a bookmark. The second bookmark after a write, a minute later, is newer than the write."""
        self._now = self._now._replace(bookmarks=self._now.bookmarks + 1)
        oldest = self._now.bookmarks - 2

        if self.deleted:
            self.deleted = {uid: since for uid, since in self.deleted.items() if since.bookmarks > oldest}
        if self.unknown:
            self.unknown = {
                key: mark
                for key, mark in self.unknown.items()
                if mark.revision is not None or mark.since.bookmarks > oldest
            }
        if self.unknown_list is not None and self.unknown_list.since.bookmarks <= oldest:
            self.unknown_list = None
        if self._own_changes:
            self._own_changes = {k: own for k, own in self._own_changes.items() if own.since.bookmarks > oldest}
        for key, pending in list(self.pending.items()):
            # The watch has not reached the write in all that time: ask the server whether it still has it.
            if pending.since.bookmarks <= oldest and not pending.after_rollback:
                del self.pending[key]
                self.record_unknown(key, revision=pending.revision)

    def passed(self, revision: int) -> list[StoreEntry]:
        """The watch has shown everything up to `revision`.

        Returns the own writes that it should have shown and did not: the server has lost them.
        """
        lost = self._end_passed_writes(revision) if self.pending else []
        while self._own_changes:
            change, own = next(iter(self._own_changes.items()))
            if own.revision >= revision:
                break
            del self._own_changes[change]
        if self.unknown:
            self._clear_passed_marks(revision)
        return lost

    def _end_passed_writes(self, revision: int) -> list[StoreEntry]:
        ended: list[PendingWrite] = []
        for pending in self.pending.values():
            if pending.revision >= revision:
                break  # the order is about that of the revisions
            if not pending.after_rollback:
                ended.append(pending)
        for pending in ended:
            del self.pending[pending.key]
        return [pending.entry for pending in ended if pending.entry is not None]

    def _clear_passed_marks(self, revision: int) -> None:
        passed: list[ObjectKey] = []
        for key, mark in self.unknown.items():
            if mark.revision is not None:
                if mark.revision > revision:
                    break  # the order is about that of the revisions: looking at all for each event would be quadratic
                passed.append(key)
        for key in passed:
            del self.unknown[key]

    def __repr__(self) -> str:
        return f"<OwnWrites: {len(self.pending)} pending, {len(self.deleted)} deleted, {len(self.unknown)} unknown>"
