"""In-memory storage. A durable storage receives each commit before it is visible."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import msgspec

from opsdk.apiserver.metrics import StorageMetrics
from opsdk.apiserver.storage.history import HISTORY_BYTES, History, HistoryBudget, put, removal
from opsdk.apiserver.storage.objects import bucket_of, same_but_revision, with_revision
from opsdk.apiserver.storage.ports import (
    ChangeType,
    CompactedError,
    FutureRevisionError,
    KeyExistsError,
    KeyNotFoundError,
    Remove,
    StorageChange,
    StoragePage,
    StoragePreconditions,
    Update,
)
from opsdk.apiserver.storage.snapshots import NOTHING, Snapshot, SnapshotEntry
from opsdk.apiserver.storage.watch import QueueWatch
from opsdk.structured_merge.value import JsonObject

__all__ = ["MemoryStorage"]

Journal = Callable[[Sequence[StorageChange], int], None]
"""Persists changes and the new revision before they are visible, all or none. Raises if it cannot."""


Listener = Callable[[StorageChange], None]


class _Bucket(msgspec.Struct):
    """One resource: its name in keys, its objects, sorted keys, history and watches."""

    name: str
    history: History
    objects: dict[str, JsonObject] = msgspec.field(default_factory=dict)
    keys: list[str] = msgspec.field(default_factory=list)
    watches: dict[QueueWatch, None] = msgspec.field(default_factory=dict)  # in order, so that runs repeat
    listeners: tuple[Listener, ...] | None = None
    """The listeners of this bucket; None until the next change."""
    shared: bool = False
    """Whether a snapshot shares the objects; then the next change copies them."""

    def copy_if_shared(self) -> None:
        """Copy objects that a snapshot shares, before a change."""
        if self.shared:
            self.objects, self.keys, self.shared = dict(self.objects), list(self.keys), False

    def replace_all(self, entry: SnapshotEntry, *, floor: int) -> None:
        """Replace all objects and drop the history."""
        self.objects, self.keys, self.shared = entry.objects, entry.keys, True
        self.history.clear()
        self.history.floor = floor

    def end_late_watches(self) -> None:
        """End the watches that have to read changes before the history."""
        for watch in tuple(self.watches):
            watch.check_floor(self.history.floor)


class MemoryStorage:
    """A `LocalStorage`. Every method is atomic, because only the step of an update awaits.

    Attributes:
        history_limit: changes kept for each bucket; older watches get `CompactedError`.
        watch_limit: maximum number of pending changes of a slow watcher before it is closed.
        failure: why the last write failed; see `LocalStorage`.
        metrics: get the latencies of requests; None measures nothing.

    The histories of all buckets share `history_bytes`. A watcher is closed when its next change is dropped.
    """

    def __init__(
        self,
        *,
        revision: int = 1,
        history_limit: int = 10_000,
        watch_limit: int = 10_000,
        history_bytes: int = HISTORY_BYTES,
        journal: Journal | None = None,
    ) -> None:
        self.history_limit = history_limit
        self.watch_limit = watch_limit
        self.failure = ""
        self.metrics: StorageMetrics | None = None
        self._budget = HistoryBudget(history_bytes)
        self._revision = revision
        self._floor = 0
        self._compacted = 0
        self._journal = journal
        self._buckets: dict[str, _Bucket] = {}
        self._listeners: Sequence[tuple[Listener, tuple[str, ...]]] = ()

    def __repr__(self) -> str:
        objects = sum(len(bucket.objects) for bucket in self._buckets.values())
        watches = sum(len(bucket.watches) for bucket in self._buckets.values())
        held = f"{objects} objects of {len(self._buckets)} resources, {watches} watches"
        return f"<{type(self).__name__} at revision {self._revision}: {held}>"

    @property
    def current_rv(self) -> int:
        """The revision of the last write."""
        return self._revision

    def load(self, key: str, value: JsonObject, *, floor: int) -> None:
        """Load an object of an earlier process; watches can start at `floor` at the earliest."""
        self._floor = max(self._floor, floor)
        bucket = self._bucket(key)
        bucket.copy_if_shared()
        bucket.objects[key] = value
        bisect.insort(bucket.keys, key)

    def _bucket(self, key: str) -> _Bucket:
        name = bucket_of(key)
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = _Bucket(name, History(floor=self._floor, limit=self.history_limit, budget=self._budget))
            bucket.history.on_evict = bucket.end_late_watches
            self._buckets[name] = bucket
        return bucket

    # -------------------------------------------------------------- reads
    async def get_current_resource_version(self) -> int:
        return self._revision

    async def get(self, key: str) -> JsonObject:
        if (metrics := self.metrics) is None:
            return self.get_now(key)
        began = metrics.clock()
        try:
            return self.get_now(key)
        finally:
            metrics.observe("get", bucket_of(key), began)

    async def list(self, prefix: str, *, revision: int | None = None, start: str = "", limit: int = 0) -> StoragePage:
        if (metrics := self.metrics) is None:
            return self.list_now(prefix, revision=revision, start=start, limit=limit)
        began = metrics.clock()
        try:
            return self.list_now(prefix, revision=revision, start=start, limit=limit)
        finally:
            metrics.observe("list", bucket_of(prefix), began)

    def get_now(self, key: str) -> JsonObject:
        try:
            return self._bucket(key).objects[key]
        except KeyError:
            raise KeyNotFoundError(key) from None

    def list_now(self, prefix: str, *, revision: int | None = None, start: str = "", limit: int = 0) -> StoragePage:
        bucket = self._bucket(prefix)
        objects, keys = bucket.objects, bucket.keys
        revision_read = self._revision if revision is None else revision
        if revision is not None:
            if revision < self._compacted:
                raise CompactedError(revision, self._compacted)
            bucket.history.check(revision, self._revision)
            if any(True for _ in bucket.history.since(revision)):
                objects = bucket.history.undo(objects, revision)
                keys = sorted(objects)
        first = bisect.bisect_left(keys, max(prefix, start))
        end = bisect.bisect_left(keys, prefix[:-1] + chr(ord(prefix[-1]) + 1))
        last = min(end, first + limit) if limit else end
        items = [(key, objects[key]) for key in keys[first:last]]
        return StoragePage(items, revision_read, keys[last] if last < end else "", max(end - last, 0))

    # -------------------------------------------------------------- writes
    async def create(self, key: str, value: JsonObject) -> JsonObject:
        return self.create_now(key, value)

    def create_now(self, key: str, value: JsonObject) -> JsonObject:
        bucket = self._bucket(key)
        if key in bucket.objects:
            raise KeyExistsError(key)
        return self._put(bucket, key, value, None)

    async def guaranteed_update(self, key: str, update: Update) -> JsonObject:
        while True:
            current = self._bucket(key).objects.get(key)
            desired = await update(current)
            bucket = self._bucket(key)
            if bucket.objects.get(key) is not current:
                continue
            if isinstance(desired, Remove):
                if current is None:
                    raise KeyNotFoundError(key)
                return self._remove(key, current)
            if current is not None and same_but_revision(current, desired):
                return current
            return self._put(bucket, key, desired, current)

    async def delete(self, key: str, preconditions: StoragePreconditions | None = None) -> JsonObject:
        return self.delete_now(key, preconditions)

    def delete_now(self, key: str, preconditions: StoragePreconditions | None = None) -> JsonObject:
        current = self.get_now(key)
        if preconditions is not None:
            preconditions.check(current)
        return self._remove(key, current)

    def _put(self, bucket: _Bucket, key: str, value: JsonObject, previous: JsonObject | None) -> JsonObject:
        revision = self._revision + 1
        stored = with_revision(value, revision)
        self._commit(bucket, put(key, revision, stored, previous))
        return stored

    def _remove(self, key: str, last: JsonObject) -> JsonObject:
        revision = self._revision + 1
        final = with_revision(last, revision)
        bucket = self._bucket(key)
        self._commit(bucket, removal(key, revision, final, bucket.objects[key]))
        return final

    def _commit(self, bucket: _Bucket, change: StorageChange) -> None:
        """Store one change, and offer it to watches and listeners, in this order."""
        metrics, operation = self.metrics, "update"
        began = metrics.clock() if metrics is not None else 0.0
        if self._journal is not None:
            self._journal((change,), change.revision)
        bucket.copy_if_shared()
        self._revision = change.revision
        value = change.value
        if change.kind is ChangeType.PUT and value is not None:
            if change.key not in bucket.objects:
                bisect.insort(bucket.keys, change.key)
                operation = "create"
            bucket.objects[change.key] = value
        else:
            del bucket.objects[change.key]
            bucket.keys.pop(bisect.bisect_left(bucket.keys, change.key))
            operation = "delete"
        if metrics is not None:
            metrics.observe(operation, bucket.name, began)
        for watch in tuple(bucket.watches):
            if change.key.startswith(watch.prefix):
                watch.offer(change)
        bucket.history.append(change)
        for listener in self._listeners_of(bucket, change.key):
            listener(change)

    # -------------------------------------------------------------- watches and history
    async def watch(self, prefix: str, revision: int | None = None) -> QueueWatch:
        return self.watch_now(prefix, revision)

    def watch_now(self, prefix: str, revision: int | None = None) -> QueueWatch:
        bucket = self._bucket(prefix)
        since = self._revision if revision is None else revision
        bucket.history.check(since, max(self._revision, since))
        backlog = [c for c in bucket.history.since(since) if c.key.startswith(prefix)]
        watch = QueueWatch(
            prefix,
            backlog,
            limit=self.watch_limit,
            after=since,
            current=lambda: self._revision,
            on_close=lambda watch: bucket.watches.pop(watch, None),
        )
        bucket.watches[watch] = None
        return watch

    def drop_history(self, prefix: str) -> None:
        bucket = self._bucket(prefix)
        bucket.history.compact(self._revision)
        for watch in tuple(bucket.watches):
            watch.close()
        if not bucket.objects:
            # Its resource may never return. A new bucket must not offer changes that were dropped.
            del self._buckets[bucket_of(prefix)]
            self._floor = self._revision

    def compact(self, revision: int, *, watches: bool = True) -> None:
        if revision > self._revision:
            raise FutureRevisionError(revision, self._revision)
        self._compacted = max(self._compacted, revision)
        if not watches:
            return
        self._floor = max(self._floor, revision)
        for bucket in self._buckets.values():
            bucket.history.compact(revision)

    # -------------------------------------------------------------- snapshots
    def snapshot(self) -> Snapshot:
        """Return the current state, in constant time."""
        for bucket in self._buckets.values():
            bucket.shared = True
        held = {name: SnapshotEntry(bucket.objects, bucket.keys) for name, bucket in self._buckets.items()}
        return Snapshot(self._revision, held)

    @classmethod
    def of(cls, snapshot: Snapshot) -> MemoryStorage:
        """Return a new storage with the state of a snapshot."""
        storage = MemoryStorage(revision=snapshot.revision)
        storage._floor = snapshot.revision
        for name, held in snapshot.buckets.items():
            storage._bucket(f"{name}/").replace_all(held, floor=snapshot.revision)
        return storage

    def restore(self, snapshot: Snapshot, *, reset: bool = False) -> Sequence[StorageChange]:
        """Restore a snapshot's objects in one write; return the changes.

        The revision increases, or is the snapshot's with `reset`. Listeners get each changed object. The history before
        it is dropped, and every watch fails with `CompactedError`.
        """
        revision = snapshot.revision if reset else self._revision + 1
        names = {**self._buckets, **snapshot.buckets}
        changes = [change for name in names for change in self._difference(name, snapshot, revision)]
        if self._journal is not None:
            self._journal(changes, revision)
        self._revision = self._floor = self._compacted = revision
        for name in names:
            bucket = self._bucket(f"{name}/")
            bucket.replace_all(snapshot.buckets.get(name, NOTHING), floor=revision)
        self.fail_watches(lambda watch: CompactedError(watch.after, revision))
        for change in changes:
            for listener in self._listeners_of(self._bucket(change.key), change.key):
                listener(change)
        return changes

    def _difference(self, name: str, snapshot: Snapshot, revision: int) -> Iterator[StorageChange]:
        """Yield the changes from the current state of a bucket to the snapshot's."""
        now, then = self._bucket(f"{name}/").objects, snapshot.buckets.get(name, NOTHING).objects
        if now is then:
            return
        for key, value in now.items():
            if key not in then:
                yield removal(key, revision, with_revision(value, revision), value)
        for key, value in then.items():
            before = now.get(key)
            if before is not value:
                yield put(key, revision, value, before)

    def fail_watches(self, error: Callable[[QueueWatch], Exception]) -> None:
        """Fail every watch with an error; new ones can start."""
        for bucket in self._buckets.values():
            for watch in tuple(bucket.watches):
                watch.fail(error(watch))

    def subscribe(self, listener: Listener, *prefixes: str) -> None:
        self._set_listeners([*self._listeners, (listener, prefixes)])

    def unsubscribe(self, listener: Listener) -> None:
        self._set_listeners([entry for entry in self._listeners if entry[0] != listener])

    def _set_listeners(self, listeners: Sequence[tuple[Listener, tuple[str, ...]]]) -> None:
        self._listeners = listeners
        for bucket in self._buckets.values():
            bucket.listeners = None

    def _listeners_of(self, bucket: _Bucket, key: str) -> tuple[Listener, ...]:
        """Return the listeners of a key's bucket. They are cached, because most listen to one bucket of a hundred."""
        if bucket.listeners is None:
            whole = f"{bucket_of(key)}/"
            bucket.listeners = tuple(
                listener
                for listener, prefixes in self._listeners
                if not prefixes or whole.startswith(prefixes) or any(prefix.startswith(whole) for prefix in prefixes)
            )
        return bucket.listeners

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        self.end_watches()

    def end_watches(self) -> None:
        for bucket in self._buckets.values():
            for watch in tuple(bucket.watches):
                with suppress(KeyError):
                    watch.close()
