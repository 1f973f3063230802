"""The objects of one kind, filtered, sorted, counted and in pages. Pure.

Columns of fields, orders and views of queries are built when a query first needs them, and follow the events of the
informer: after an event, a page costs only what the event changed. The objects are the entries of the cache, not
copies. Measured with 50,000 objects against SQLite in memory, with an index for each field as steve has it. SQLite
needed 430 ms for a page deep in a sorted list, 150 to 300 ms for a filter with the order of another field, and 46 us
for each event. Here a page after an event takes 1 to 3 ms, even by fields without a declared index.

Upstream: github.com/rancher/steve/pkg/sqlcache/informer/listoption_indexer.go
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.base.options import Options
from opsdk.cache.entry import StoreEntry
from opsdk.cache.own_writes import revision_of
from opsdk.norman.codes import ErrorCode
from opsdk.norman.collections.access_set import VisibleObjects
from opsdk.norman.collections.column import Column, ReaderFor
from opsdk.norman.collections.field_path import FieldPath, format_path, texts
from opsdk.norman.collections.filter import query_error
from opsdk.norman.collections.list_order import DerivedSlots, ListOrder, complete_all
from opsdk.norman.collections.query import ID, ObjectQuery, SortKey
from opsdk.norman.collections.query_view import QueryView
from opsdk.norman.collections.recently_used import RecentlyUsed
from opsdk.norman.errors import NormanError

__all__ = ["IndexedListOptions"]


class IndexedListOptions(Options, frozen=True, kw_only=True):
    """Memory limits of a list.

    Attributes:
        columns: fields that queries filtered, sorted or counted by. 50,000 objects take 0.4 MB for each, plus their
            strings.
        orders: sorted orders; 0.8 MB each.
        views: the part of an order that one query of one user selects; 8 bytes for each of its objects.
        snapshots: lists from which further pages are read.
        snapshot_rows: objects in all snapshots; 8 bytes each, and the old states of changed objects.
        row_bytes: bytes of JSON of objects that were on a page, so that the next page does not encode them again.
    """

    columns: int = 32
    orders: int = 8
    views: int = 32
    snapshots: int = 64
    snapshot_rows: int = 2_000_000
    row_bytes: int = 4 << 20


class SummaryEntry(msgspec.Struct, frozen=True):
    """The number of objects for each value of a field. Objects without a value are not counted."""

    property: str
    counts: Mapping[str, int]


class IndexedPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list.

    Attributes:
        entries: the objects of the page.
        first: the index of the first one in the list.
        count: the objects of all pages.
        revision: of the list; pages with the same revision belong together.
        previous: the first object of the page before; None without one.
        next: the first object of the page after; None without one.
        last: the first object of the last page; None without other pages.
        summary: one for each field of the query's summary.
    """

    entries: Sequence[StoreEntry]
    first: int
    count: int
    revision: int
    previous: StoreEntry | None = None
    next: StoreEntry | None = None
    last: StoreEntry | None = None
    summary: Sequence[SummaryEntry] = ()


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """The number of objects that a user may see, in all and by namespace, and by state in all."""

    count: int
    namespaces: Mapping[str, int]
    states: Mapping[str, int] = {}


class _Snapshot(msgspec.Struct, frozen=True):
    """A list at one revision. `old` has the objects of slots that changed since."""

    changes: int
    slots: Sequence[int]
    summary: Sequence[SummaryEntry]
    old: dict[int, StoreEntry]

    @property
    def rows(self) -> int:
        return len(self.slots) + len(self.old)


class IndexedList:
    """The objects of one kind.

    Args:
        read: returns the reader of a field.
        options: see `IndexedListOptions`.
    """

    def __init__(self, read: ReaderFor, options: IndexedListOptions | None = None) -> None:
        options = options or IndexedListOptions()
        self.revision = 0
        """The largest resource version that the list has seen."""
        self._changes = 0
        self._reader = read
        self._entries: list[StoreEntry | None] = []
        self._keys: list[str] = []
        self._free_slots: list[int] = []
        self._slots: dict[ObjectKey, int] = {}
        self._namespaces: dict[str, set[int]] = {}
        self._columns: RecentlyUsed[FieldPath, Column] = RecentlyUsed(options.columns)
        self._default_order = ListOrder(self._entries, self._keys)
        self._orders: RecentlyUsed[tuple[SortKey, ...], ListOrder] = RecentlyUsed(options.orders)
        self._views: RecentlyUsed[Hashable, QueryView] = RecentlyUsed(options.views)
        self._snapshots: RecentlyUsed[Hashable, _Snapshot] = RecentlyUsed(options.snapshots)
        self._rows = options.snapshot_rows

    # -------------------------------------------------------------- changes
    def put(self, entry: StoreEntry) -> None:
        """Add or replace an object."""
        slot = self._slots.get(entry.key)
        if slot is None:
            slot = self._new_slot(entry.key)
        self._change(slot, entry)
        self._entries[slot] = entry

    def _new_slot(self, key: ObjectKey) -> int:
        text = f"{key.namespace}\0{key.name}"
        if self._free_slots:
            slot = self._free_slots.pop()
            self._keys[slot] = text
        else:
            slot = len(self._entries)
            self._entries.append(None)
            self._keys.append(text)
        self._slots[key] = slot
        self._namespaces.setdefault(key.namespace, set()).add(slot)
        return slot

    def remove(self, last: StoreEntry, *, missed: bool = False) -> None:
        """Remove an object, if it exists.

        Args:
            last: the last state, with the resource version of the deletion.
            missed: the deletion was not observed, so the revision of the list only grows by one.
        """
        if missed:
            self.revision += 1
        slot = self._slots.pop(last.key, None)
        if slot is None:
            return
        self._change(slot, last)
        self._entries[slot] = None
        self._free_slots.append(slot)
        slots = self._namespaces[last.key.namespace]
        slots.discard(slot)
        if not slots:
            del self._namespaces[last.key.namespace]

    def _change(self, slot: int, entry: StoreEntry) -> None:
        """Record a change before it is made."""
        self.revision = max(self.revision, revision_of(entry.resource_version) or 0)
        self._changes += 1
        parts: Iterable[Column | ListOrder | QueryView]
        for parts in ((self._default_order,), self._columns.values(), self._orders.values(), self._views.values()):
            for part in parts:
                part.touch(slot)
        old = self._entries[slot]
        if old is not None:
            for snapshot in self._snapshots.values():
                snapshot.old.setdefault(slot, old)

    # -------------------------------------------------------------- queries
    def get(self, key: ObjectKey) -> StoreEntry | None:
        """Return an object, or None."""
        slot = self._slots.get(key)
        return self._entries[slot] if slot is not None else None

    def prepare(self, query: ObjectQuery) -> Iterator[None]:
        """Compute the data of `page` for the same query. Yields after each slice, so that other tasks can run."""
        self._check_fields(query)
        if self._find_snapshot(query, self._revision_of(query)) is None:
            yield from complete_all(self._parts(query))

    def _check_fields(self, query: ObjectQuery) -> None:
        conditions = [condition.path for item in query.filters for condition in item]
        paths = {*conditions, *(key.path for key in query.sort), *query.summary}
        if len(paths) > self._columns.limit:
            limit = self._columns.limit
            raise query_error("filter", 0, f"the query uses {len(paths)} fields: use at most {limit} in one request")

    def _parts(self, query: ObjectQuery) -> list[Column | DerivedSlots]:
        ids = [self._column(ID)] if query.marker else []
        return [self._view(query), *ids, *(self._column(path) for path in query.summary)]

    def page(self, query: ObjectQuery) -> IndexedPage:
        """Return a part of the objects that a query selects.

        Raises:
            NormanError: the snapshot is no longer kept (410), the revision is unknown (400), or the query reads too
                many fields (400).
        """
        self._check_fields(query)
        revision = self._revision_of(query)
        snapshot = self._snapshot(query, revision)
        count = len(snapshot.slots)
        first = self._index_of(query, snapshot) if query.marker else query.first
        size = query.limit or max(count - first, 1)

        def entry_at(index: int) -> StoreEntry | None:
            entries = self._entries_at(snapshot, snapshot.slots[index : index + 1]) if 0 <= index < count else ()
            return entries[0] if entries else None

        is_part = first > 0 or first + size < count
        return IndexedPage(
            entries=self._entries_at(snapshot, snapshot.slots[first : first + size]),
            first=first,
            count=count,
            revision=revision,
            previous=entry_at(max(first - size, 0)) if first else None,
            next=entry_at(first + size),
            last=entry_at(max(count - size, 0)) if is_part else None,
            summary=snapshot.summary,
        )

    def _index_of(self, query: ObjectQuery, snapshot: _Snapshot) -> int:
        """Return the index of the object with an id; of the one after it, where ids are the order; else 0."""
        slots = snapshot.slots
        column = self._column(ID)
        for _ in column.refresh():
            pass
        if query.sort[:1] == (SortKey(ID),):
            return bisect_left(slots, query.marker, key=lambda slot: str(column.cells[slot]))
        try:
            return slots.index(column.cells.index(query.marker))
        except ValueError:
            return 0

    def _revision_of(self, query: ObjectQuery) -> int:
        if query.snapshot is not None:
            return query.snapshot
        if query.revision is None:
            return self.revision
        # A list that is not kept is replaced by the newest one.
        is_kept = query.revision > self.revision or self._find_snapshot(query, query.revision) is not None
        return query.revision if is_kept else self.revision

    def _entries_at(self, snapshot: _Snapshot, slots: Sequence[int]) -> list[StoreEntry]:
        entries = [snapshot.old.get(slot) or self._entries[slot] for slot in slots]
        return [entry for entry in entries if entry is not None]  # a slot that lost its object is in `old`

    def _find_snapshot(self, query: ObjectQuery, revision: int) -> _Snapshot | None:
        snapshot = self._snapshots.use((query.selection, revision))
        if snapshot is not None and revision == self.revision and snapshot.changes != self._changes:
            return None
        return snapshot

    def _snapshot(self, query: ObjectQuery, revision: int) -> _Snapshot:
        """Return the kept list of a query at a revision, or make the one of the present revision. See `page`."""
        snapshot = self._find_snapshot(query, revision)
        if snapshot is not None:
            return snapshot
        if revision < self.revision:
            message = f"the revision {revision} is too old: list again without revision and continue"
            raise ErrorCode.GONE.error(message, field_name="revision")
        if revision > self.revision:
            message = f"unknown revision {revision}: the list is at {self.revision}, try again"
            raise NormanError(message, status=400, code="UnknownRevision", field_name="revision")
        for _ in complete_all(self._parts(query)):
            pass
        slots = list(self._view(query).slots)
        summary = [self._summary(path, slots) for path in query.summary]
        snapshot = self._snapshots.put((query.selection, revision), _Snapshot(self._changes, slots, summary, {}))
        while len(self._snapshots) > 1 and sum(each.rows for each in self._snapshots.values()) > self._rows:
            self._snapshots.popitem(last=False)
        return snapshot

    def _summary(self, path: FieldPath, slots: Sequence[int]) -> SummaryEntry:
        return SummaryEntry(format_path(path), dict(sorted(self._count_values(path, slots).items())))

    def _count_values(self, path: FieldPath, slots: Iterable[int]) -> Counter[str]:
        cells = self._column(path).cells
        values: Counter[str] = Counter()
        for cell, count in Counter(cells[slot] for slot in slots).items():
            for text in texts(cell):
                values[text] += count
        return values

    def _order(self, sort: tuple[SortKey, ...]) -> ListOrder:
        if not sort:
            return self._default_order
        columns = [(key, self._column(key.path)) for key in sort]
        order = self._orders.use(sort)
        if order is None or not order.uses(self._columns):
            order = self._orders.put(sort, ListOrder(self._entries, self._keys, columns, self._default_order))
        return order

    def _view(self, query: ObjectQuery) -> ListOrder | QueryView:
        """Return the view or order with the slots of a list; it may be incomplete."""
        order = self._order(query.sort)
        filters = [[(condition, self._column(condition.path)) for condition in item] for item in query.filters]
        if not filters and query.visible.everything:
            return order
        view = self._views.use(query.selection)
        if view is None or not view.uses(order, self._columns):
            view = QueryView(
                self._entries,
                order,
                filters,
                lambda: self._allowed(query.visible),
                lambda key: query.visible.contains(*key),
            )
            self._views.put(query.selection, view)
        return view

    def _allowed(self, visible: VisibleObjects) -> set[int] | None:
        """Return the slots that a user may see, or None for all."""
        if visible.everything:
            return None
        allowed = set[int]().union(*(self._namespaces.get(namespace, ()) for namespace in visible.namespaces))
        for namespace, names in visible.names.items():
            for place in self._namespaces if namespace is None else (namespace,):
                keys = (ObjectKey(place, name) for name in names)
                allowed.update(slot for key in keys if (slot := self._slots.get(key)) is not None)
        return allowed

    def counts(self, visible: VisibleObjects, state: FieldPath) -> Counts:
        """Return how many objects a user may see. `prepare_counts` reads the states before.

        Args:
            visible: the objects of the user.
            state: the field whose values are counted as states.
        """
        for _ in self.prepare_counts(state):
            pass
        allowed = self._allowed(visible)
        sizes = {
            namespace: len(slots if allowed is None else slots & allowed)
            for namespace, slots in self._namespaces.items()
        }
        return Counts(
            count=sum(sizes.values()),
            namespaces={name: size for name, size in sorted(sizes.items()) if name and size},
            states=dict(self._count_values(state, self._slots.values() if allowed is None else allowed)),
        )

    def prepare_counts(self, state: FieldPath) -> Iterator[None]:
        """Read the states of changed objects. Yields after each slice of objects."""
        return self._column(state).refresh()

    def _column(self, path: FieldPath) -> Column:
        column = self._columns.use(path)
        if column is None:
            column = self._columns.put(path, Column(self._entries, self._reader(path)))
        return column

    def __len__(self) -> int:
        return len(self._slots)

    def __repr__(self) -> str:
        return f"<IndexedList of {len(self)} objects at {self.revision}, {len(self._columns)} columns>"
