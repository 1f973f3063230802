"""A bounded memory of recent results."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memory(dict[K, V]):
    """A dict that forgets its oldest values. Reads are a dict's, where an LRU cache makes six calls.

    Args:
        size: values to keep.
        weigh: returns the bytes of a value; default: 0.
        max_bytes: sum of the bytes to keep.

    >>> memory = Memory(2)
    >>> for number in (1, 2, 1, 3):
    ...     memory.remember(number, str(number))
    >>> list(memory)
    [1, 3]
    """

    __slots__ = ("_max_bytes", "_size", "_weigh", "weight")

    def __init__(self, size: int, *, weigh: Callable[[V], int] | None = None, max_bytes: int = 0) -> None:
        super().__init__()
        self._size = size
        self._weigh = weigh
        self._max_bytes = max_bytes
        self.weight = 0
        """Sum of the bytes of all values."""

    def remember(self, key: K, value: V) -> None:
        """Set a value, as the newest one."""
        self.forget(key)
        self[key] = value
        if self._weigh is not None:
            self.weight += self._weigh(value)
        while len(self) > self._size or self.weight > self._max_bytes:
            self.forget(next(iter(self)))

    def forget(self, key: K) -> V | None:
        """Remove a value. Returns it, or None without one."""
        value = self.pop(key, None)
        if value is not None and self._weigh is not None:
            self.weight -= self._weigh(value)
        return value
