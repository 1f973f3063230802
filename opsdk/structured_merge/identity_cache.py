"""Cache of results by the identity of an immutable JSON tree. The event loop and the thread of large work share it."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import Generic, TypeVar

from opsdk.structured_merge.value import JsonValue

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class IdentityCache(Generic[T]):
    """Keeps results for the last `limit` trees. It references the trees too, so that their ids stay unique.

    >>> lengths = IdentityCache[int](limit=2)
    >>> tree = {"a": 1}
    >>> lengths.put(tree, 1)
    >>> lengths.get(tree), lengths.get({"a": 1})
    (1, None)
    """

    __slots__ = ("_limit", "_results")

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._results: dict[int, tuple[JsonValue, T]] = {}

    def get(self, tree: JsonValue) -> T | None:
        """Return the result for exactly this tree, or None."""
        entry = self._results.get(id(tree))
        return None if entry is None else entry[1]

    def get_or_compute(self, tree: JsonValue, compute: Callable[[JsonValue], T]) -> T:
        """Return the result for exactly this tree; call `compute` if there is none."""
        result = self.get(tree)
        if result is None:
            result = compute(tree)
            self.put(tree, result)
        return result

    def put(self, tree: JsonValue, result: T) -> None:
        """Store a result. The oldest result is dropped at the limit."""
        if len(self._results) >= self._limit:
            drop_oldest(self._results)
        self._results[id(tree)] = (tree, result)


def drop_oldest(entries: MutableMapping[K, V]) -> None:
    """Drop the entry that was added first. If another thread changes `entries`, its next call drops it."""
    with suppress(KeyError, RuntimeError):
        del entries[next(iter(entries))]
