"""The store of one kind: the watched objects with indices, and the own writes that the watch has not shown. Pure.

Upstream: k8s.io/client-go/tools/cache/thread_safe_store.go, delta_fifo.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.selectors import Selector
from opsdk.cache.entry import Indexer, Problem, StoreEntry, Transform, index_function, make_entry, with_index
from opsdk.cache.own_writes import OwnWrites, revision_of
from opsdk.errors import UsageError


class DeltaType(Enum):
    """What happened to an object."""

    ADDED = "added"
    UPDATED = "updated"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
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


class InformerStore:
    """Entries by key, by namespace and by index value.

    The informer is the only writer of the watched objects; `own` holds the client's writes. Deltas describe the watched
    objects, reads prefer an own write that is newer. Every method leaves the store consistent.

    Args:
        transform: changes each object before it is stored.
        selector: the informer's label selector: an own write that it does not select is not visible.
    """

    def __init__(self, *, transform: Transform | None = None, selector: Selector | None = None) -> None:
        self.indexers: dict[str, Indexer] = {}
        self.own = OwnWrites()
        self.revision = 0
        """Everything up to this resource version is in the store; 0 before the first list."""
        self.problems: list[Problem] = []
        """What failed since the last `take_problems`."""
        self._transform = transform
        self._selector = selector or Selector()
        self._entries: dict[ObjectKey, StoreEntry] = {}
        self._namespaces: dict[str, dict[ObjectKey, None]] = {}
        self._indices: dict[str, dict[str, dict[ObjectKey, None]]] = {}
        self._failing: dict[str, dict[ObjectKey, None]] = {}

    # -------------------------------------------------------------- writing
    def make_entry(self, data: bytes) -> StoreEntry:
        """Return an entry for this store. Raises `DecodeError`; failed user functions are added to `problems`."""
        entry, problems = make_entry(data, self.indexers, self._transform)
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
        old = self._entries.get(entry.key)
        if old is not None and old.uid != entry.uid:
            removed = self.remove(entry.key, final_state_unknown=True)
            return (*removed, *self.put(entry, initial=initial, watched=watched))
        lost = self.own.shown(entry)
        own = self.own.is_echo(entry) and (watched or old is None)
        if old is not None and old.resource_version == entry.resource_version:
            return ()
        self._insert(entry, old)
        if old is not None:
            return (Delta(change=DeltaType.UPDATED, old=old, new=entry, own=own),)
        missed = (Delta(change=DeltaType.DELETED, old=lost, final_state_unknown=True),) if lost is not None else ()
        return (*missed, Delta(change=DeltaType.ADDED, new=entry, initial=initial, own=own))

    def remove(
        self, key: ObjectKey, last: StoreEntry | None = None, *, final_state_unknown: bool = False
    ) -> tuple[Delta, ...]:
        """Remove an entry. `last` is the final state, if the server sent it. Returns no delta if there is no entry."""
        old = self._entries.get(key)
        if old is not None:
            del self._entries[key]
            self._unindex(old)
        uid = last.uid if last is not None else old.uid if old is not None else ""
        last = last or self.own.removed(key, uid) or old
        if old is None:
            return ()
        return (Delta(change=DeltaType.DELETED, old=last, final_state_unknown=final_state_unknown),)

    def replace(
        self,
        entries: Iterable[StoreEntry],
        *,
        resource_version: str = "",
        unreadable: Collection[ObjectKey] = (),
        initial: bool = False,
    ) -> list[Delta]:
        """Replace the content of the store by a list. Returns the deltas, deletions last.

        All changes are made before it returns: readers never see half of a list. An own write that the list should hold
        and does not is a deletion, also if the watch never showed the object.

        Args:
            entries: the objects of the list.
            resource_version: of the list.
            unreadable: objects of the list that do not decode: they keep their last readable state.
            initial: the list is the first.
        """
        deltas: list[Delta] = []
        keys: set[ObjectKey] = set(unreadable)
        for entry in entries:
            keys.add(entry.key)
            deltas += self.put(entry, initial=initial)
        for key in [k for k in self._entries if k not in keys]:
            deltas += self.remove(key, final_state_unknown=True)
        revision = revision_of(resource_version)
        missed = self.own.listed(keys, revision)
        deltas += [Delta(change=DeltaType.DELETED, old=entry, final_state_unknown=True) for entry in missed]
        self.revision = revision or 0
        return deltas

    def advance(self, resource_version: str) -> None:
        """The watch has shown everything up to `resource_version`."""
        revision = revision_of(resource_version)
        if revision is not None and revision > self.revision:
            self.revision = revision
            self.own.passed(revision)

    def write(self, entry: StoreEntry) -> None:
        """Record an own write, or a fresh read, so that reads show at least this state."""
        self.own.record(entry, passed=self.revision, in_scope=self._selector.matches(entry.labels))

    def write_deleted(self, key: ObjectKey, uid: str) -> None:
        """Record that an own write deleted an object."""
        self.own.record_deleted(key, uid, self._entries.get(key))

    def add_index(self, name: str, indexer: Indexer) -> None:
        """Add an index for future entries. `index_entry` adds existing ones. Raises `UsageError` if it exists."""
        if name in self.indexers:
            raise UsageError(f"there is an index {name!r} already: use it, or choose another name")
        self.indexers[name] = indexer
        self._indices[name] = {}

    def index_entry(self, key: ObjectKey, name: str) -> int:
        """Compute the values of a new index for the entry of `key`, if it has none. Returns the object's bytes."""
        old = self._entries.get(key)
        if old is None or name in old.indexed or index_function(name) in old.failed:
            return 0
        entry, problems = with_index(old, name, self.indexers[name])
        self.problems += problems
        self._insert(entry, old)
        return len(entry.data)

    def _insert(self, entry: StoreEntry, old: StoreEntry | None) -> None:
        if old is not None:
            self._unindex(old)
        self._entries[entry.key] = entry
        self._namespaces.setdefault(entry.key.namespace, {})[entry.key] = None
        for name, values in entry.indexed.items():
            index = self._indices[name]
            for value in values:
                index.setdefault(value, {})[entry.key] = None
        for function in entry.failed:
            self._failing.setdefault(function, {})[entry.key] = None

    def _unindex(self, entry: StoreEntry) -> None:
        _discard(self._namespaces, entry.key.namespace, entry.key)
        for name, values in entry.indexed.items():
            for value in values:
                _discard(self._indices[name], value, entry.key)
        for function in entry.failed:
            _discard(self._failing, function, entry.key)

    # -------------------------------------------------------------- reading
    def keys(self) -> list[ObjectKey]:
        """Return the keys of the watched objects."""
        return list(self._entries)

    def get(self, key: ObjectKey, *, own_writes: bool = True) -> StoreEntry | None:
        """Return the entry of a key, or None. Without `own_writes`, as the watch has shown it."""
        entry = self._entries.get(key)
        return self.own.visible(key, entry) if own_writes and self.own else entry

    def entries(self, namespace: str = "", *, own_writes: bool = True) -> Iterator[StoreEntry]:
        """Iterate over all entries, or those of one namespace. A snapshot: the store may change meanwhile."""
        keys = self._entries if not namespace else self._namespaces.get(namespace, ())
        watched = [self._entries[key] for key in keys]
        if not own_writes or not self.own:
            return iter(watched)
        written = [e for e in self.own.entries() if not namespace or e.key.namespace == namespace]
        return self._merged(watched, written)

    def by_index(self, name: str, value: str, namespace: str = "", *, own_writes: bool = True) -> Iterator[StoreEntry]:
        """Iterate over the entries with an index value. Raises `UsageError` if there is no such index."""
        if name not in self._indices:
            raise UsageError(f"there is no index {name!r}: add it with index_field before listing by it")
        keys = self._indices[name].get(value, ())
        watched = [self._entries[k] for k in keys if not namespace or k.namespace == namespace]
        if not own_writes or not self.own:
            return iter(watched)
        written = [e for e in self.own.entries() if not namespace or e.key.namespace == namespace]
        return (entry for entry in self._merged(watched, written) if value in entry.indexed.get(name, ()))

    def _merged(self, watched: list[StoreEntry], written: list[StoreEntry]) -> Iterator[StoreEntry]:
        """Return the newer of the watched and the written entry of each key."""
        keys = {entry.key: None for entry in (*watched, *written)}
        visible = (self.own.visible(key, self._entries.get(key)) for key in keys)
        return iter([entry for entry in visible if entry is not None])

    def failing(self) -> Mapping[str, Collection[ObjectKey]]:
        """Return the user functions that fail now, with the objects they fail on."""
        return self._failing

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def size(self) -> int:
        """Return the number of bytes of all objects."""
        return sum(len(entry.data) for entry in self._entries.values())

    def __repr__(self) -> str:
        return f"<InformerStore of {len(self)} objects, indices {sorted(self._indices) or 'none'}>"


def _discard(index: dict[str, dict[ObjectKey, None]], value: str, key: ObjectKey) -> None:
    keys = index.get(value)
    if keys is not None:
        keys.pop(key, None)
        if not keys:
            del index[value]
