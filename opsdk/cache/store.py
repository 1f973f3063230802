"""The store of one kind: encoded objects, frequently read metadata, and indices. Pure.

An entry keeps the object as JSON bytes, plus the metadata that predicates, handlers and lists read. A cached object
costs little more than its bytes, and reads are isolated from each other without copies.

Upstream: k8s.io/client-go/tools/cache/thread_safe_store.go, delta_fifo.go (v1.36)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from opsdk.apimachinery.codec import decode_meta, peek_key
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.errors import DecodeError, UsageError


class OwnerRef(NamedTuple):
    """The identifying fields of an owner reference."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool


_NO_LABELS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, eq=False)
class StoreEntry:
    """One stored object.

    Attributes:
        key: namespace and name.
        data: the object as JSON.
        deleting: whether the object has a deletion timestamp.
        owners: the owner references.
        indexed: values for each index, computed when the entry was created.
    """

    key: ObjectKey
    data: bytes
    uid: str
    resource_version: str
    generation: int
    deleting: bool
    labels: Mapping[str, str]
    finalizers: tuple[str, ...]
    owners: tuple[OwnerRef, ...]
    indexed: Mapping[str, tuple[str, ...]]

    def metadata(self) -> ObjectMeta:
        """Decode all metadata. Returns a new object."""
        return decode_meta(self.data)

    def __repr__(self) -> str:
        return f"<StoreEntry {self.key} at {self.resource_version}, {len(self.data)} bytes>"


Indexer = Callable[[bytes], Iterable[str]]
"""Returns the index values of an object in JSON."""


def make_entry(data: bytes, indexers: Mapping[str, Indexer] | None = None) -> StoreEntry:
    """Return the entry of an object. Raises `DecodeError` if its metadata or an index value is unreadable."""
    meta = decode_meta(data)
    if not meta.name or not meta.resource_version:
        raise DecodeError(f"an object without name or resourceVersion: {data[:80]!r}")
    return StoreEntry(
        key=ObjectKey(sys.intern(meta.namespace), meta.name),
        data=data,
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        deleting=meta.deletion_timestamp is not None,
        # Label keys and values repeat in thousands of objects: intern them.
        labels={sys.intern(k): sys.intern(v) for k, v in meta.labels.items()} or _NO_LABELS,
        finalizers=tuple(sys.intern(f) for f in meta.finalizers),
        owners=tuple(
            OwnerRef(sys.intern(o.api_version), sys.intern(o.kind), o.name, o.uid, bool(o.controller))
            for o in meta.owner_references
        ),
        indexed=_index(data, indexers),
    )


def _index(data: bytes, indexers: Mapping[str, Indexer] | None) -> Mapping[str, tuple[str, ...]]:
    if not indexers:
        return {}
    indexed = {}
    for name, indexer in indexers.items():
        try:
            indexed[name] = tuple(indexer(data))
        except Exception as error:  # a user function may raise anything
            raise DecodeError(f"index {name!r} of {peek_key(data)}: {error!r}") from error
    return indexed


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
    """

    change: DeltaType
    old: StoreEntry | None = None
    new: StoreEntry | None = None
    initial: bool = False
    final_state_unknown: bool = False
    resync: bool = False

    @property
    def entry(self) -> StoreEntry:
        """The new entry, or for DELETED the last one."""
        entry = self.new or self.old
        assert entry is not None
        return entry


class InformerStore:
    """Entries by key, by namespace and by index value.

    The informer is the only writer. Every method leaves the store consistent.
    """

    def __init__(self, indexers: Mapping[str, Indexer] | None = None) -> None:
        self.indexers: dict[str, Indexer] = dict(indexers or {})
        self._entries: dict[ObjectKey, StoreEntry] = {}
        self._namespaces: dict[str, dict[ObjectKey, None]] = {}
        self._indices: dict[str, dict[str, dict[ObjectKey, None]]] = {name: {} for name in self.indexers}

    # -------------------------------------------------------------- writing
    def make_entry(self, data: bytes) -> StoreEntry:
        """Return an entry for this store, with its index values."""
        return make_entry(data, self.indexers)

    def put(self, entry: StoreEntry, *, initial: bool = False) -> tuple[Delta, ...]:
        """Add or replace an entry. Returns no delta if the store has this resource version.

        A different uid for the same key means that a deletion was missed: then there are two deltas.
        """
        old = self._entries.get(entry.key)
        if old is not None and old.uid != entry.uid:
            return (*self.remove(entry.key, final_state_unknown=True), *self.put(entry, initial=initial))
        if old is not None and old.resource_version == entry.resource_version:
            return ()
        self._insert(entry, old)
        if old is None:
            return (Delta(change=DeltaType.ADDED, new=entry, initial=initial),)
        return (Delta(change=DeltaType.UPDATED, old=old, new=entry),)

    def remove(
        self, key: ObjectKey, last: StoreEntry | None = None, *, final_state_unknown: bool = False
    ) -> tuple[Delta, ...]:
        """Remove an entry. `last` is the final state, if the server sent it. Returns no delta if there is no entry."""
        old = self._entries.pop(key, None)
        if old is None:
            return ()
        self._unindex(old)
        return (Delta(change=DeltaType.DELETED, old=last or old, final_state_unknown=final_state_unknown),)

    def replace(self, entries: Iterable[StoreEntry], *, initial: bool = False) -> list[Delta]:
        """Replace the content of the store by `entries`. Returns the deltas, deletions last.

        All changes are made before it returns: readers never see half of a list.
        """
        deltas: list[Delta] = []
        keys: set[ObjectKey] = set()
        for entry in entries:
            keys.add(entry.key)
            deltas += self.put(entry, initial=initial)
        for key in [k for k in self._entries if k not in keys]:
            deltas += self.remove(key, final_state_unknown=True)
        return deltas

    def add_index(self, name: str, indexer: Indexer) -> list[tuple[ObjectKey, DecodeError]]:
        """Add an index for existing and future entries. Returns the objects whose index values failed.

        Those objects are left out of the index. Raises `UsageError` if the index exists.
        """
        if name in self.indexers:
            raise UsageError(f"there is an index {name!r} already: use it, or choose another name")
        self.indexers[name] = indexer
        self._indices[name] = {}
        failed: list[tuple[ObjectKey, DecodeError]] = []
        for entry in list(self._entries.values()):
            try:
                fresh = make_entry(entry.data, self.indexers)
            except DecodeError as error:
                failed.append((entry.key, error))
                continue
            self._insert(fresh, entry)
        return failed

    def _insert(self, entry: StoreEntry, old: StoreEntry | None) -> None:
        if old is not None:
            self._unindex(old)
        self._entries[entry.key] = entry
        self._namespaces.setdefault(entry.key.namespace, {})[entry.key] = None
        for name, values in entry.indexed.items():
            index = self._indices[name]
            for value in values:
                index.setdefault(value, {})[entry.key] = None

    def _unindex(self, entry: StoreEntry) -> None:
        _discard(self._namespaces, entry.key.namespace, entry.key)
        for name, values in entry.indexed.items():
            for value in values:
                _discard(self._indices[name], value, entry.key)

    # -------------------------------------------------------------- reading
    def get(self, key: ObjectKey) -> StoreEntry | None:
        """Return the entry of a key, or None."""
        return self._entries.get(key)

    def entries(self, namespace: str = "") -> Iterator[StoreEntry]:
        """Iterate over all entries, or those of one namespace. A snapshot: the store may change meanwhile."""
        if not namespace:
            return iter(list(self._entries.values()))
        return iter([self._entries[key] for key in self._namespaces.get(namespace, ())])

    def by_index(self, name: str, value: str, namespace: str = "") -> Iterator[StoreEntry]:
        """Iterate over the entries with an index value. Raises `UsageError` if there is no such index."""
        if name not in self._indices:
            raise UsageError(f"there is no index {name!r}: add it with index_field before listing by it")
        keys = self._indices[name].get(value, ())
        return iter([self._entries[k] for k in keys if not namespace or k.namespace == namespace])

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
