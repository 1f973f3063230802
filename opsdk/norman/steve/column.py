"""One field of all objects of a list, by slot. Pure.

A column reads the objects when it is first used, in slices. Later it reads those that changed since.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from opsdk.cache.entry import StoreEntry
from opsdk.cache.slicer import Slicer
from opsdk.norman.steve.field_path import Cell, FieldPath, cell_at
from opsdk.norman.steve.filter import FilterCondition, FilterOperator
from opsdk.structured_merge.value import JsonObject

Decorate = Callable[[JsonObject], JsonObject]
"""Adds the virtual fields to an object: ``metadata.state`` and ``metadata.fields``."""

# msgspec accepts only these characters in field names.
_SAFE_FIELD_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_VIRTUAL = ("state", "fields", "relationships")
Reader = Callable[[StoreEntry], Cell]


def reader(path: FieldPath, decorate: Decorate) -> Reader:
    """Return the function that reads a field of an entry. Names, labels and the id need no decoding."""
    match path:
        case ("id",):
            return lambda entry: str(entry.key)
        case ("metadata", "name"):
            return lambda entry: entry.key.name
        case ("metadata", "namespace"):
            return lambda entry: entry.key.namespace or None
        case ("metadata", "labels", label):
            return lambda entry: entry.labels.get(label)
        case ("metadata", name, *_) if name in _VIRTUAL:
            return lambda entry: cell_at(decorate(msgspec.json.decode(entry.data)), path)
    if not _SAFE_FIELD_NAME.fullmatch(path[0]):
        return lambda entry: cell_at(msgspec.json.decode(entry.data), path)
    # Decoding one part of the object takes a fifth of the time.
    part = msgspec.defstruct("Part", [("part", Any, None)], rename={"part": path[0]})
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(part)

    def read(entry: StoreEntry) -> Cell:
        return cell_at({path[0]: decoder.decode(entry.data).part}, path)

    return read


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
        if self._is_text_only and condition.operator is FilterOperator.CONTAINS:
            part = condition.values[0]
            return [cell is not None and part in cell for cell in self.cells]  # type: ignore[operator]
        if self._is_text_only and condition.operator in (FilterOperator.EQUALS, FilterOperator.IN):
            values = frozenset(condition.values)
            return [cell in values for cell in self.cells]
        return list(map(condition.test(), self.cells))

    def __repr__(self) -> str:
        return f"<Column of {len(self.cells)} cells, {len(self._changed_slots)} to read>"
