"""A query: the objects that a list or a watch selects, their order, and the part to return. Pure.

The parameters of a request are parsed into this value, and every store accepts it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import msgspec

from opsdk.norman.collections.access_set import EVERYTHING, VisibleObjects
from opsdk.norman.collections.field_path import FieldPath, cell_at, order_text
from opsdk.norman.collections.filter import OrFilter
from opsdk.structured_merge.value import JsonObject

__all__ = ["ObjectQuery", "SortKey"]

ID: FieldPath = ("id",)


class SortKey(msgspec.Struct, frozen=True):
    """One field that a list is sorted by.

    Attributes:
        path: the field.
        descending: the largest value first.
    """

    path: FieldPath
    descending: bool = False

    def __str__(self) -> str:
        return f"{'-' if self.descending else ''}{'.'.join(self.path)}"


class ObjectQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The selection, the order and the part of a list. A watch uses the selection.

    Attributes:
        filters: all of them must match.
        sort: the most important field first; ties are in the order of namespace and name.
        visible: the objects that the client may see.
        limit: the number of objects in the part; 0 for all.
        marker: the id of the first object of the part; empty for the start.
        since: of a watch: the revision after which it begins; empty for now.
    """

    filters: tuple[OrFilter, ...] = ()
    sort: tuple[SortKey, ...] = ()
    visible: VisibleObjects = EVERYTHING
    limit: int = 0
    marker: str = ""
    since: str = ""

    @property
    def selection(self) -> Hashable:
        """A value that is equal for queries with the same objects and order."""
        return (self.filters, self.sort, self.visible.key)

    def holds(self) -> Callable[[JsonObject], bool]:
        """Return the function that applies the filters to an object."""
        tests = [[(condition.path, condition.test()) for condition in item] for item in self.filters]
        return lambda tree: all(any(test(cell_at(tree, path)) for path, test in item) for item in tests)

    def sorted(self, items: Sequence[JsonObject]) -> list[JsonObject]:
        """Return objects in the order of the query. Equal ones keep their order."""
        result = list(items)
        for key in reversed(self.sort):
            path = key.path
            result.sort(key=lambda item: order_text(cell_at(item, path)), reverse=key.descending)
        return result
