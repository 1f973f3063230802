"""Columns read each object once, and then only changed ones."""

from __future__ import annotations

import pytest

from opsdk.cache.entry import StoreEntry
from opsdk.norman.collections.column import Column
from opsdk.norman.collections.field_path import Cell
from opsdk.norman.collections.filter import FilterOperator
from tests.norman.collections.kit import entry, only


def test_a_column_reads_only_what_changed() -> None:
    """The second refresh of a column reads only changed slots."""
    calls: list[str] = []

    def read(item: StoreEntry) -> Cell:
        calls.append(item.key.name)
        return item.key.name

    entries: list[StoreEntry | None] = [entry("a"), None, entry("c")]
    column = Column(entries, read)
    list(column.refresh())
    entries.append(entry("d"))
    column.touch(3)
    list(column.refresh())
    assert (calls, column.cells, column.complete) == (["a", "c", "d"], ["a", None, "c", "d"], True)


@pytest.mark.parametrize(
    ("operator", "values"),
    [
        (FilterOperator.EQUALS, ("5",)),
        (FilterOperator.IN, ("5", "x")),
        (FilterOperator.NOT_EQUALS, ("5",)),
        (FilterOperator.NOT_IN, ("5", "x")),
        (FilterOperator.EXISTS, ()),
    ],
)
@pytest.mark.parametrize("cells", [["5", "x", None, "15"], [5, "x", None, (5, "a")]])
def test_the_short_ways_decide_as_the_condition(
    operator: FilterOperator, values: tuple[str, ...], cells: list[Cell]
) -> None:
    """The fast paths of a column select the same cells as the condition."""
    entries: list[StoreEntry | None] = [entry(str(number)) for number in range(len(cells))]
    column = Column(entries, lambda item: cells[int(item.key.name)])
    list(column.refresh())
    (condition,) = only(operator, "f", *values)
    assert column.select(condition) == [condition.test()(cell) for cell in cells]
