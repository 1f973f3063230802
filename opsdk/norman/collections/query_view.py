"""The objects of a list that one query and one user select, in order, cached between requests. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.cache.entry import StoreEntry
from opsdk.norman.collections.column import Column
from opsdk.norman.collections.field_path import FieldPath
from opsdk.norman.collections.filter import FilterCondition
from opsdk.norman.collections.list_order import DerivedSlots, ListOrder

_ColumnFilter = Sequence[tuple[FilterCondition, Column]]
"""Alternatives, each with the column of its field."""


class QueryView(DerivedSlots):
    """The slots of an order that are allowed and that all filters select.

    Args:
        entries: the objects by slot.
        order: of the slots.
        filters: all of them must hold.
        allowed: returns the slots that may be in the view; None for all.
        contains: whether the object with a key may be in the view.
    """

    def __init__(
        self,
        entries: Sequence[StoreEntry | None],
        order: ListOrder,
        filters: Sequence[_ColumnFilter],
        allowed: Callable[[], Collection[int] | None],
        contains: Callable[[ObjectKey], bool],
    ) -> None:
        super().__init__(entries)
        self._order = order
        self._filters = filters
        self._tests = [[(condition.test(), column) for condition, column in item] for item in filters]
        self._allowed = allowed
        self._contains = contains

    def uses(self, order: ListOrder, columns: Mapping[FieldPath, Column]) -> bool:
        """Whether the view uses exactly this order and these columns, so that all of them follow the same events."""
        columns_used = [(condition.path, column) for item in self._filters for condition, column in item]
        return order is self._order and all(columns.get(path) is column for path, column in columns_used)

    def _inputs(self) -> Collection[Column | DerivedSlots]:
        return [self._order, *(column for item in self._filters for _, column in item)]

    def _compute(self, changed: Collection[int]) -> Generator[None, None, list[int]]:
        slots = list(self._order.slots)
        for narrow in (self._select_allowed, *(self._selector(item) for item in self._filters)):
            slots = narrow(slots)
            yield
        return slots

    def _put(self, slot: int) -> None:
        if self._selects(slot):
            self._order.insert(self.slots, slot)

    def _select_allowed(self, slots: list[int]) -> list[int]:
        allowed = self._allowed()
        return slots if allowed is None else [slot for slot in slots if slot in allowed]

    def _selector(self, item: _ColumnFilter) -> Callable[[list[int]], list[int]]:
        def select(slots: list[int]) -> list[int]:
            first, *others = [column.select(condition) for condition, column in item]
            # A column that has grown has more slots, which are processed later.
            holds = [any(row) for row in zip(first, *others, strict=False)] if others else first
            return [slot for slot in slots if holds[slot]]

        return select

    def _selects(self, slot: int) -> bool:
        entry = self._entries[slot]
        if entry is None or not self._contains(entry.key):
            return False
        return all(any(test(column.cells[slot]) for test, column in item) for item in self._tests)

    def __repr__(self) -> str:
        return f"<QueryView of {len(self.slots)} objects, {self._order!r}>"
