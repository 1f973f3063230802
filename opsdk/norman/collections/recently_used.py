"""A cache with a limit that evicts the least recently used value. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RecentlyUsed(OrderedDict[K, V]):
    """The most recently used values. Only `use` and `put` count as use.

    `cachetools.LRUCache` takes each step of an iteration for a use, and an event visits all values.

    >>> kept = RecentlyUsed(2)
    >>> kept.put("a", 1), kept.put("b", 2), kept.use("a"), kept.put("c", 3), sorted(kept)
    (1, 2, 1, 3, ['a', 'c'])

    Args:
        limit: the number of values.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def use(self, key: K) -> V | None:
        """Return a value, or None."""
        value = self.get(key)
        if value is not None:
            self.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> V:
        """Set a value, and return it. At the limit, the least recently used value is evicted."""
        self[key] = value
        self.move_to_end(key)
        while len(self) > self.limit:
            self.popitem(last=False)
        return value
