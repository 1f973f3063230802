"""Columns read each object once, and then only changed ones."""

from __future__ import annotations

from typing import Any

import pytest
from stevekit import entry

from opsdk.cache.entry import StoreEntry
from opsdk.norman.collections.column import Column
from opsdk.norman.collections.field_path import Cell
from opsdk.norman.steve.filter_language import parse_filter
from opsdk.norman.steve.raw_fields import raw_fields


def decorate(tree: Any) -> Any:
    """A state for each object."""
    return {**tree, "metadata": {**tree["metadata"], "state": {"name": "ready"}}}


@pytest.mark.parametrize(
    ("path", "cell"),
    [
        (("id",), "n/a"),
        (("metadata", "name"), "a"),
        (("metadata", "namespace"), "n"),
        (("metadata", "labels", "l"), "x"),
        (("metadata", "resourceVersion"), "1"),
        (("metadata", "state", "name"), "ready"),
        (("spec", "size"), 3),
        (("od'd\\", "x"), 1),
        (("missing", "x"), None),
    ],
)
def test_a_reader_reads_its_field(path: tuple[str, ...], cell: Cell) -> None:
    """A reader uses the entry's attributes, one part of the object, or the decorated object."""
    item = entry("a", "n", labels={"l": "x"}, spec={"size": 3}, **{"od'd\\": {"x": 1}})
    assert raw_fields(decorate)(path)(item) == cell


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


@pytest.mark.parametrize("text", ["f=5", "f in (5,x)", "f~5", "f!=5", "f>4", "f"])
@pytest.mark.parametrize("cells", [["5", "x", None, "15"], [5, "x", None, (5, "a")]])
def test_the_short_ways_decide_as_the_condition(text: str, cells: list[Cell]) -> None:
    """The fast paths of a column select the same cells as the condition."""
    entries: list[StoreEntry | None] = [entry(str(number)) for number in range(len(cells))]
    column = Column(entries, lambda item: cells[int(item.key.name)])
    list(column.refresh())
    condition = parse_filter(text)[0]
    assert column.select(condition) == [condition.test()(cell) for cell in cells]
