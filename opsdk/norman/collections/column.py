"""One field of all objects of a list, by slot. Pure.

A column reads the objects when it is first used, in slices. Later it reads those that changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from opsdk.aio.slicer import Slicer
from opsdk.cache.entry import StoreEntry
from opsdk.norman.collections.field_path import Cell, FieldPath
from opsdk.norman.collections.filter import FilterCondition, FilterOperator

Reader = Callable[[StoreEntry], Cell]
"""Returns the value of one field of an object."""

ReaderFor = Callable[[FieldPath], Reader]
"""Returns the reader of a field, in the form of objects that clients see."""


class Column:
    """The cells of one field.

    Args:
        entries: the objects by slot, shared with the list. It may grow, and slots become None.
        read: reads the field of an entry.
    """

    def __init__(self, entries: Sequence[StoreEntry | None], read: Reader) -> None:
        self.cells: list[Cell] = []
        self._entries = entries
        self._read = read
        self._changed_slots: set[int] = set(range(len(entries)))
        self._is_text_only = True

    @property
    def complete(self) -> bool:
        """Whether every cell is up to date."""
        return not self._changed_slots

    def touch(self, slot: int) -> None:
        """Record that the object of a slot changed."""
        self._changed_slots.add(slot)

    def refresh(self) -> Iterator[None]:
        """Read the objects that changed. Yields after each slice of objects."""
        slicer = Slicer()
        while self._changed_slots:
            slot = self._changed_slots.pop()
            if slot >= len(self.cells):
                self.cells += [None] * (len(self._entries) - len(self.cells))
            entry = self._entries[slot]
            cell = self._read(entry) if entry is not None else None
            self.cells[slot] = cell
            if self._is_text_only and not isinstance(cell, (str, type(None))):
                self._is_text_only = False
            if entry is not None and slicer.add(entry.size):
                yield

    def select(self, condition: FilterCondition) -> list[bool]:
        """Return for each slot whether a condition holds. The column must be complete."""
        positive = condition.positive()
        if positive is not condition:
            return [not holds for holds in self.select(positive)]
        if self._is_text_only and condition.operator in (FilterOperator.EQUALS, FilterOperator.IN):
            values = frozenset(condition.values)
            return [cell in values for cell in self.cells]
        return list(map(condition.test(), self.cells))

    def __repr__(self) -> str:
        return f"<Column of {len(self.cells)} cells, {len(self._changed_slots)} to read>"
