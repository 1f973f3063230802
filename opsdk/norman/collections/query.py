"""A query: the objects that a list or a watch selects, their order, and the part to return. Pure.

Both dialects parse their parameters into this value, and every store of a collection accepts it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import msgspec

from opsdk.norman.collections.access_set import EVERYTHING, VisibleObjects
from opsdk.norman.collections.field_path import Cell, FieldPath, cell_at, format_path, order_address, order_text
from opsdk.norman.collections.filter import OrFilter
from opsdk.structured_merge.value import JsonObject

__all__ = ["ObjectQuery", "SortKey"]

ID: FieldPath = ("id",)


class SortKey(msgspec.Struct, frozen=True):
    """One field that a list is sorted by.

    Attributes:
        path: the field.
        descending: the largest value first.
        as_ip: compare values as IP addresses.
        fold_case: letter case does not matter.
        absent_last: an object without the field comes last in ascending order, not first.
    """

    path: FieldPath
    descending: bool = False
    as_ip: bool = False
    fold_case: bool = False
    absent_last: bool = False

    def order(self, cell: Cell) -> str:
        """Return a string that sorts as this key sorts the cell in ascending order."""
        if cell is None and self.absent_last:
            return "\2"  # after all strings
        text = order_address(cell) if self.as_ip else order_text(cell)
        return text.lower() if self.fold_case else text

    def __str__(self) -> str:
        text = f"{'-' if self.descending else ''}{format_path(self.path)}"
        return f"ip({text})" if self.as_ip else text


class ObjectQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The selection, the order and the part of a list. A watch uses the selection.

    Attributes:
        filters: all of them must match.
        sort: the most important field first; ties are in the order of namespace and name.
        summary: fields whose values are counted.
        visible: the objects that the client may see.
        limit: the number of objects in the part; 0 for all.
        first: the index of the first object of the part.
        marker: the id of the first object, instead of `first`.
        revision: the least revision of the list; None for the present one.
        snapshot: the list as it was at exactly this revision, for further parts of it.
        since: of a watch: the revision after which it begins; empty for now.
    """

    filters: tuple[OrFilter, ...] = ()
    sort: tuple[SortKey, ...] = ()
    summary: tuple[FieldPath, ...] = ()
    visible: VisibleObjects = EVERYTHING
    limit: int = 0
    first: int = 0
    marker: str = ""
    revision: int | None = None
    snapshot: int | None = None
    since: str = ""

    @property
    def selection(self) -> Hashable:
        """A value that is equal for queries with the same objects, order and summary."""
        return (self.filters, self.sort, self.summary, self.visible.key)

    def holds(self) -> Callable[[JsonObject], bool]:
        """Return the function that applies the filters to an object."""
        tests = [[(condition.path, condition.test()) for condition in item] for item in self.filters]
        return lambda tree: all(any(test(cell_at(tree, path)) for path, test in item) for item in tests)

    def sorted(self, items: Sequence[JsonObject]) -> list[JsonObject]:
        """Return objects in the order of the query. Equal ones keep their order."""
        result = list(items)
        for key in reversed(self.sort):
            order, path = key.order, key.path
            result.sort(key=lambda item: order(cell_at(item, path)), reverse=key.descending)
        return result
