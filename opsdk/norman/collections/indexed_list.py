"""The objects of one kind, filtered, sorted and in pages. Pure.

Columns of fields, orders and views of queries are built when a query first needs them, and follow the events of the
informer: after an event, a page costs only what the event changed. The objects are the entries of the cache, not
copies. Measured with 50,000 objects: a page after an event takes 1 to 3 ms, whatever fields sort and filter it.

Upstream: github.com/rancher/steve/pkg/sqlcache/informer/listoption_indexer.go
Deviates: the lists are in memory. SQLite with an index for each field took 150 to 430 ms for such a page.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Sequence

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.cache.entry import StoreEntry
from opsdk.cache.own_writes import revision_of
from opsdk.norman.codes import ErrorCode
from opsdk.norman.collections.access_set import VisibleObjects
from opsdk.norman.collections.column import Column, ReaderFor
from opsdk.norman.collections.field_path import Cell, FieldPath
from opsdk.norman.collections.list_order import ListOrder, complete_all
from opsdk.norman.collections.query import ID, ObjectQuery, SortKey
from opsdk.norman.collections.query_view import QueryView
from opsdk.norman.collections.recently_used import RecentlyUsed
from opsdk.norman.errors import NormanError

# Fields that queries filtered or sorted by. 50,000 objects take 0.4 MB for each, plus their strings.
_MAX_COLUMNS = 32
# Sorted orders; 0.8 MB each.
_MAX_ORDERS = 8
# The part of an order that one query of one user selects; 8 bytes for each of its objects.
_MAX_VIEWS = 32


class IndexedPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list.

    Attributes:
        entries: the objects of the page.
        count: the objects of all pages.
        previous: the first object of the page before; None without one.
        next: the first object of the page after; None without one.
        last: the first object of the last page; None without other pages.
    """

    entries: Sequence[StoreEntry]
    count: int
    previous: StoreEntry | None = None
    next: StoreEntry | None = None
    last: StoreEntry | None = None


class IndexedList:
    """The objects of one kind.

    Args:
        read: returns the reader of a field.
    """

    def __init__(self, read: ReaderFor) -> None:
        self.revision = 0
        """The largest resource version that the list has seen."""
        self._reader = read
        self._entries: list[StoreEntry | None] = []
        self._keys: list[str] = []
        self._free_slots: list[int] = []
        self._slots: dict[ObjectKey, int] = {}
        self._namespaces: dict[str, set[int]] = {}
        self._columns: RecentlyUsed[FieldPath, Column] = RecentlyUsed(_MAX_COLUMNS)
        self._default_order = ListOrder(self._entries, self._keys)
        self._orders: RecentlyUsed[tuple[SortKey, ...], ListOrder] = RecentlyUsed(_MAX_ORDERS)
        self._views: RecentlyUsed[Hashable, QueryView] = RecentlyUsed(_MAX_VIEWS)

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
        parts: Iterable[Column | ListOrder | QueryView]
        for parts in ((self._default_order,), self._columns.values(), self._orders.values(), self._views.values()):
            for part in parts:
                part.touch(slot)

    # -------------------------------------------------------------- queries
    def get(self, key: ObjectKey) -> StoreEntry | None:
        """Return an object, or None."""
        slot = self._slots.get(key)
        return self._entries[slot] if slot is not None else None

    def prepare(self, query: ObjectQuery) -> Iterator[None]:
        """Compute the data of `page` for the same query. Yields after each slice, so that other tasks can run."""
        yield from complete_all(self._parts(query))

    def _parts(self, query: ObjectQuery) -> tuple[ListOrder | QueryView, Column]:
        """Return the objects of a list and their ids; both may be incomplete. Raises `NormanError`; see `page`."""
        conditions = [condition.path for item in query.filters for condition in item]
        paths = {ID, *conditions, *(key.path for key in query.sort)}
        if len(paths) > self._columns.limit:
            message = f"the query uses {len(paths)} fields: use at most {self._columns.limit} in one request"
            raise NormanError(message, status=400, code=ErrorCode.INVALID_FORMAT.code, field_name="filter")
        return self._view(query), self._column(ID)

    def page(self, query: ObjectQuery) -> IndexedPage:
        """Return a part of the objects that a query selects. Raises `NormanError` if it reads too many fields."""
        view, ids = self._parts(query)
        for _ in complete_all((view, ids)):
            pass
        slots, count = view.slots, len(view.slots)
        first = _index_of(query, slots, ids.cells) if query.marker else 0
        size = query.limit or max(count - first, 1)

        def entry_at(index: int) -> StoreEntry | None:
            return self._entries[slots[index]] if index < count else None

        entries = [self._entries[slot] for slot in slots[first : first + size]]
        return IndexedPage(
            entries=[entry for entry in entries if entry is not None],
            count=count,
            previous=entry_at(max(first - size, 0)) if first else None,
            next=entry_at(first + size),
            last=entry_at(max(count - size, 0)) if first or size < count else None,
        )

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

    def _column(self, path: FieldPath) -> Column:
        column = self._columns.use(path)
        if column is None:
            column = self._columns.put(path, Column(self._entries, self._reader(path)))
        return column

    def __len__(self) -> int:
        return len(self._slots)

    def __repr__(self) -> str:
        indices = f"{len(self._columns)} columns, {len(self._orders)} orders"
        return f"<IndexedList of {len(self)} objects at {self.revision}, {indices}>"


def _index_of(query: ObjectQuery, slots: list[int], ids: list[Cell]) -> int:
    """Return the index of the object of the marker; of the one after it, where ids are the order; else 0."""
    if query.sort[:1] == (SortKey(ID),):
        return bisect_left(slots, query.marker, key=lambda slot: str(ids[slot]))
    try:
        return slots.index(ids.index(query.marker))
    except ValueError:
        return 0
