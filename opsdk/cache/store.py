"""The store of one kind: the watched objects with indices, and the own writes that the watch has not shown. Pure.

Upstream: k8s.io/client-go/tools/cache/thread_safe_store.go, delta_fifo.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.selectors import EVERYTHING, LabelRequirements
from opsdk.cache.compression import Compressor
from opsdk.cache.entry import Indexer, Problem, StoreEntry, Transform, index_function, make_entry, with_index
from opsdk.cache.head import HeadMeta
from opsdk.cache.own_writes import OwnWrites, revision_of
from opsdk.cache.shard import HashRange
from opsdk.errors import UsageError


class DeltaType(Enum):
    """Type of the change of an object."""

    ADDED = "added"
    UPDATED = "updated"
    DELETED = "deleted"


# Python 3.11 searches the metaclass for each member of an enum that is named: not for each object.
_ADDED, _UPDATED, _DELETED = DeltaType.ADDED, DeltaType.UPDATED, DeltaType.DELETED


class Delta(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One difference between the store before and after.

    Attributes:
        change: added, updated or deleted.
        old: the entry before; None for ADDED.
        new: the entry after; None for DELETED.
        initial: the object is part of the initial list.
        final_state_unknown: the deletion was not watched: `old` may be outdated (``DeletedFinalStateUnknown``).
        resync: nothing changed; the handler gets the object again.
        own: the change is exactly one write of this process, and no other change is part of it.
    """

    change: DeltaType
    old: StoreEntry | None = None
    new: StoreEntry | None = None
    initial: bool = False
    final_state_unknown: bool = False
    resync: bool = False
    own: bool = False

    @property
    def entry(self) -> StoreEntry:
        """The new entry, or for DELETED the last one."""
        entry = self.new or self.old
        assert entry is not None
        return entry


class _Tables:
    """Entries by key, with their namespaces, index values and failing functions."""

    def __init__(self, indices: Iterable[str]) -> None:
        self.entries: dict[ObjectKey, StoreEntry] = {}
        self.namespaces: dict[str, dict[ObjectKey, None]] = {}
        self.indices: dict[str, dict[str, dict[ObjectKey, None]]] = {name: {} for name in indices}
        self.failing: dict[str, dict[ObjectKey, None]] = {}
        self.owned: dict[str, dict[ObjectKey, None]] | None = None
        """Keys by the uid of an owner; None until the first read of `owned_by`: most stores need no such index."""
        self.size = 0
        """Bytes of all objects, as they are stored."""

    def put(self, entry: StoreEntry) -> None:
        """Add or replace an entry."""
        old = self.entries.get(entry.key)
        if old is None:
            self.namespaces.setdefault(entry.key.namespace, {})[entry.key] = None
        else:
            # In place: a dict whose keys are removed and added again is copied from time to time, all of it.
            self._remove_from_indices(old)
        self.entries[entry.key] = entry
        self.size += len(entry.stored)
        for name, values in entry.indexed.items():
            index = self.indices[name]
            for value in values:
                index.setdefault(value, {})[entry.key] = None
        for function in entry.failed:
            self.failing.setdefault(function, {})[entry.key] = None
        if self.owned is not None:
            for owner in entry.owners:
                self.owned.setdefault(owner.uid, {})[entry.key] = None

    def owned_by(self, uid: str) -> Iterable[ObjectKey]:
        """Return the keys of the objects with an owner reference to this uid."""
        if self.owned is None:
            self.owned = {}
            for entry in self.entries.values():
                for owner in entry.owners:
                    self.owned.setdefault(owner.uid, {})[entry.key] = None
        return self.owned.get(uid, ())

    def discard(self, key: ObjectKey) -> StoreEntry | None:
        """Remove the entry of a key, if there is one, and return it."""
        entry = self.entries.pop(key, None)
        if entry is None:
            return None
        _remove_from_index(self.namespaces, key.namespace, key)
        self._remove_from_indices(entry)
        return entry

    def _remove_from_indices(self, entry: StoreEntry) -> None:
        """Remove size, index values, owners and failing functions of an entry."""
        self.size -= len(entry.stored)
        for name, values in entry.indexed.items():
            for value in values:
                _remove_from_index(self.indices[name], value, entry.key)
        for function in entry.failed:
            _remove_from_index(self.failing, function, entry.key)
        if self.owned is not None:
            for owner in entry.owners:
                _remove_from_index(self.owned, owner.uid, entry.key)


class Replacement:
    """The content of a list that is still being read. `InformerStore.replace` puts it in place at once.

    It is filled in slices, between which other tasks read the store's old content.
    """

    def __init__(self, indices: Iterable[str]) -> None:
        self.tables = _Tables(indices)
        self.unreadable: dict[ObjectKey, None] = {}
        """Objects of the list that do not decode: they keep their last readable state."""

    @property
    def size(self) -> int:
        """The number of objects, those that do not decode included."""
        return len(self.tables.entries) + len(self.unreadable)

    def add(self, entry: StoreEntry) -> None:
        """Add an object; a later state of the same object replaces it."""
        self.tables.put(entry)

    def discard(self, key: ObjectKey) -> None:
        """Remove an object that was deleted while the list was read."""
        self.tables.discard(key)


class InformerStore:
    """Entries by key, by namespace and by index value.

    The informer is the only writer of the watched objects; `own` holds the client's writes. Deltas describe the watched
    objects, reads prefer an own write that is newer. Every method leaves the store consistent.

    Args:
        transform: changes each object before it is stored.
        selector: the informer's label selector: an own write that it does not select is not visible.
        shard: the informer's shard; the same holds for it.
    """

    def __init__(
        self,
        *,
        transform: Transform | None = None,
        selector: LabelRequirements | None = None,
        shard: HashRange | None = None,
    ) -> None:
        self.indexers: dict[str, Indexer] = {}
        self.own = OwnWrites()
        self.lists = 0
        """How many lists have replaced the content. After one, resource versions may be lower than before it."""
        self.revision = 0
        """Everything up to this resource version is in the store; 0 before the first list."""
        self.problems: list[Problem] = []
        """The failures since the last `take_problems`."""
        self._transform = transform
        self._selector = selector if selector is not None and selector != EVERYTHING else EVERYTHING
        self._shard = shard
        self._selects_all = self._selector is EVERYTHING and shard is None
        self._compressor = Compressor()
        self._tables = _Tables(())
        self._newest: StoreEntry | None = None
        """The object with the highest resource version; None if that is not known."""

    # -------------------------------------------------------------- writing
    def make_entry(self, data: bytes, meta: HeadMeta | None = None) -> StoreEntry:
        """Return an entry for this store. `meta` is the decoded metadata of `data`, if the caller has it.

        Raises `DecodeError`; failed user functions are added to `problems`.
        """
        entry, problems = make_entry(data, self.indexers, self._transform, meta=meta, compressor=self._compressor)
        if problems:
            self.problems += problems
        return entry

    def take_problems(self) -> list[Problem]:
        """Return and forget `problems`."""
        problems, self.problems = self.problems, []
        return problems

    def put(self, entry: StoreEntry, *, initial: bool = False, watched: bool = False) -> tuple[Delta, ...]:
        """Add or replace an entry. Returns no delta if the store has this resource version.

        A different uid for the same key means that a deletion was missed: then there are two deltas.

        Args:
            entry: the new state.
            initial: part of the initial list.
            watched: from a watch, which shows every single change; a list may combine several.
        """
        old = self._tables.entries.get(entry.key)
        self._tables.put(entry)
        self._newest = entry if watched else None  # a watch sends the objects in the order of their versions
        return self._deltas(old, entry, initial=initial, watched=watched)

    def _deltas(
        self, old: StoreEntry | None, entry: StoreEntry, *, initial: bool = False, watched: bool = False
    ) -> tuple[Delta, ...]:
        """Return the differences between an old and a new entry of the same key, and update the own writes."""
        if old is not None and old.uid != entry.uid:
            last = self.own.removed(entry.key, old.uid) or old
            missed = Delta(change=_DELETED, old=last, final_state_unknown=True)
            return (missed, *self._deltas(None, entry, initial=initial, watched=watched))
        lost = self.own.shown(entry)
        own = self.own.take_own_change(entry) and watched
        if old is not None and old.resource_version == entry.resource_version:
            return ()
        if old is not None:
            return (Delta(change=_UPDATED, old=old, new=entry, own=own),)
        added = Delta(change=_ADDED, new=entry, initial=initial, own=own)
        if lost is None:
            return (added,)
        return (Delta(change=_DELETED, old=lost, final_state_unknown=True), added)

    def remove(
        self, key: ObjectKey, last: StoreEntry | None = None, *, final_state_unknown: bool = False
    ) -> tuple[Delta, ...]:
        """Remove an entry. `last` is the final state, if the server sent it. Returns no delta if there is no entry."""
        old = self._tables.discard(key)
        if self._newest is not None and self._newest.key == key:
            self._newest = None
        uid = last.uid if last is not None else old.uid if old is not None else ""
        written = self.own.removed(key, uid, revision_of(last.resource_version) if last is not None else None)
        last = last or written or old
        if old is None:
            return ()
        return (Delta(change=_DELETED, old=last, final_state_unknown=final_state_unknown),)

    def replacement(self) -> Replacement:
        """Return an empty replacement, to be filled and passed to `replace`."""
        return Replacement(self.indexers)

    def replace(
        self, new: Replacement, *, resource_version: str = "", initial: bool = False
    ) -> Iterator[tuple[Delta, ...]]:
        """Replace the content of the store by a list, and iterate over the deltas of each object, deletions last.

        The content is replaced before it returns: readers never see half of a list. The deltas are computed while the
        caller iterates; the caller must finish that before any other write. An own write that the list should hold and
        does not is a deletion, also if the watch never showed the object.

        Args:
            new: the objects of the list.
            resource_version: of the list.
            initial: the list is the first.
        """
        old, tables = self._tables.entries, new.tables
        for key in new.unreadable:
            if key in old and key not in tables.entries:
                tables.put(old[key])
        for name in self.indexers.keys() - tables.indices.keys():
            tables.indices[name] = {}  # added in the meantime: `index_entry` fills it
        self._tables = tables
        self._newest = None
        self.lists += 1
        revision = revision_of(resource_version)
        self.revision = revision or 0
        return self._replacement_deltas(old, tables.entries, new.unreadable, revision, initial=initial)

    def _replacement_deltas(
        self,
        old: dict[ObjectKey, StoreEntry],
        listed: dict[ObjectKey, StoreEntry],
        unreadable: Mapping[ObjectKey, None],
        revision: int | None,
        *,
        initial: bool,
    ) -> Iterator[tuple[Delta, ...]]:
        """Yield the deltas between the replaced content and a list: changes first, then objects that are gone."""
        keys = dict.fromkeys(listed)
        for key in keys:
            yield self._deltas(old.get(key), listed[key], initial=initial)
        for key, entry in old.items():
            if key not in keys:
                last = self.own.removed(key, entry.uid) or entry
                yield (Delta(change=_DELETED, old=last, final_state_unknown=True),)
        missed = self.own.listed(keys | dict.fromkeys(unreadable), revision)
        yield tuple(Delta(change=_DELETED, old=entry, final_state_unknown=True) for entry in missed)

    @property
    def newest_revision(self) -> int:
        """The highest resource version that a list, the watch or a response to an own write has shown."""
        own = self.own.newest_revision
        return max(self.revision, own)

    def newest_entry(self) -> StoreEntry | None:
        """Return the watched object with the highest resource version.

        It looks at all objects only if the last change was a list, or deleted the newest object.
        """
        if self._newest is None:
            entries = self._tables.entries.values()
            self._newest = max(entries, key=lambda e: revision_of(e.resource_version) or 0, default=None)
        return self._newest

    def advance(self, revision: int | None) -> tuple[Delta, ...]:
        """The watch has shown everything up to a resource version.

        Returns the deletions of objects that an own write created, and that the watch should have shown and did not.
        """
        if revision is None or revision <= self.revision:
            return ()
        self.revision = revision
        if not (lost := self.own.passed(revision)):
            return ()
        gone = [entry for entry in lost if entry.key not in self._tables.entries]
        return tuple(Delta(change=_DELETED, old=entry, final_state_unknown=True) for entry in gone)

    def write(self, entry: StoreEntry, revision: int | None, *, after_rollback: bool = False) -> None:
        """Record an own write, or a fresh read, so that reads show at least this state. See `OwnWrites.record`."""
        in_scope = self._selects_all or self.selects(entry)
        is_passed = revision is not None and revision <= self.revision
        if in_scope and is_passed and not after_rollback and not self.own.is_after_rollback(entry.key):
            self._check_passed(entry, revision or 0)
        else:
            self.own.record(entry, revision, passed=self.revision, in_scope=in_scope, after_rollback=after_rollback)

    def selects(self, entry: StoreEntry) -> bool:
        """Whether the informer's label selector and shard select an object."""
        if not self._selector.matches(entry.labels):
            return False
        return self._shard is None or self._shard.contains(uid=entry.uid, namespace=entry.key.namespace)

    def _check_passed(self, entry: StoreEntry, revision: int) -> None:
        """Handle an object that the watch should have shown: with this state, with a later one, or as deleted.

        If it has not, the server went back, or another client has just deleted the object: the read goes to the server.
        """
        watched = self._watched_since(entry.key, revision)
        is_shown = watched is not None and watched.uid == entry.uid
        if not is_shown and not self.own.is_deleted(entry.uid):
            self.own.record_unknown(entry.key)

    def _watched_since(self, key: ObjectKey, revision: int) -> StoreEntry | None:
        """Return the watched object of `key` if its resource version is `revision` or later."""
        watched = self._tables.entries.get(key)
        if watched is None or (revision_of(watched.resource_version) or 0) < revision:
            return None
        return watched

    def write_unknown(self, key: ObjectKey, resource_version: str = "") -> None:
        """Record that the result of an own write is not known, except for its resource version."""
        revision = revision_of(resource_version)
        if revision is None or revision > self.revision:
            self.own.record_unknown(key, revision=revision)
        elif self._watched_since(key, revision) is None:
            # The watch has passed this version, and not shown it: as for `_check_passed`, the read goes to the server.
            self.own.record_unknown(key)

    def write_deleted(self, key: ObjectKey, uid: str) -> None:
        """Record that an own write deleted an object."""
        self.own.record_deleted(key, uid, self._tables.entries.get(key))

    def add_index(self, name: str, indexer: Indexer) -> None:
        """Add an index for future entries. `index_entry` adds existing ones. Raises `UsageError` if it exists."""
        if name in self.indexers:
            raise UsageError(f"the index {name!r} already exists: use it, or choose another name")
        self.indexers[name] = indexer
        self._tables.indices[name] = {}

    def index_entry(self, key: ObjectKey, name: str) -> int:
        """Compute the values of a new index for the entry of `key`, if it has none. Returns the object's bytes."""
        old = self._tables.entries.get(key)
        if old is None or name in old.indexed or index_function(name) in old.failed:
            return 0
        entry, problems = with_index(old, name, self.indexers[name])
        self.problems += problems
        self._tables.put(entry)
        if self._newest is old:
            self._newest = entry
        return entry.size

    # -------------------------------------------------------------- reading
    def keys(self) -> list[ObjectKey]:
        """Return the keys of the watched objects."""
        return list(self._tables.entries)

    def get(self, key: ObjectKey, *, own_writes: bool = True) -> StoreEntry | None:
        """Return the entry of a key, or None. Without `own_writes`, as the watch has shown it."""
        entry, own = self._tables.entries.get(key), self.own
        return own.visible(key, entry) if own_writes and (own.pending or own.deleted) else entry

    def entries(self, namespace: str = "", *, own_writes: bool = True) -> Iterator[StoreEntry]:
        """Iterate over all entries, or those of one namespace. A snapshot: the store may change in the meantime."""
        keys = self._tables.entries if not namespace else self._tables.namespaces.get(namespace, ())
        watched = [self._tables.entries[key] for key in keys]
        if not own_writes or not (self.own.pending or self.own.deleted):
            return iter(watched)
        written = [e for e in self.own.entries() if not namespace or e.key.namespace == namespace]
        return self._with_own_writes(watched, written)

    def by_index(self, name: str, value: str, namespace: str = "", *, own_writes: bool = True) -> Iterator[StoreEntry]:
        """Iterate over the entries with an index value. Raises `UsageError` if there is no such index."""
        if name not in self._tables.indices:
            raise UsageError(f"there is no index {name!r}: add it with index_field before listing by it")
        keys = self._tables.indices[name].get(value, ())
        watched = [self._tables.entries[k] for k in keys if not namespace or k.namespace == namespace]
        if not own_writes or not (self.own.pending or self.own.deleted):
            return iter(watched)
        written = [e for e in self.own.entries() if not namespace or e.key.namespace == namespace]
        return (entry for entry in self._with_own_writes(watched, written) if value in entry.indexed.get(name, ()))

    def by_owner(self, uid: str, namespace: str = "", *, own_writes: bool = True) -> Iterator[StoreEntry]:
        """Iterate over the entries with an owner reference to a uid. An own write may have removed the reference."""
        keys = self._tables.owned_by(uid)
        watched = [self._tables.entries[key] for key in keys if not namespace or key.namespace == namespace]
        if not own_writes or not (self.own.pending or self.own.deleted):
            return iter(watched)
        written = [e for e in self.own.entries() if not namespace or e.key.namespace == namespace]
        return self._with_own_writes(watched, written)

    def _with_own_writes(self, watched: list[StoreEntry], written: list[StoreEntry]) -> Iterator[StoreEntry]:
        """Return the newer of the watched and the written entry of each key."""
        keys = {entry.key: None for entry in (*watched, *written)}
        visible = (self.own.visible(key, self._tables.entries.get(key)) for key in keys)
        return iter([entry for entry in visible if entry is not None])

    def failing(self) -> Mapping[str, Collection[ObjectKey]]:
        """Return the user functions that fail now, with the objects they fail on."""
        return self._tables.failing

    def __len__(self) -> int:
        return len(self._tables.entries)

    def __contains__(self, key: object) -> bool:
        return key in self._tables.entries

    def size(self, per_object: int = 0) -> int:
        """Return the number of bytes of all objects, and `per_object` bytes more for each."""
        return self._tables.size + per_object * len(self._tables.entries)

    def __repr__(self) -> str:
        return f"<InformerStore of {len(self)} objects, indices {sorted(self._tables.indices) or 'none'}>"


def _remove_from_index(index: dict[str, dict[ObjectKey, None]], value: str, key: ObjectKey) -> None:
    keys = index.get(value)
    if keys is not None:
        keys.pop(key, None)
        if not keys:
            del index[value]
