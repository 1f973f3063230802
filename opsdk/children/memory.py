"""A bounded memory of recent results."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memory(dict[K, V]):
    """A dict that forgets its oldest values. Reads are a dict's, where an LRU cache makes six calls.

    Args:
        size: values to keep.

    >>> memory = Memory(2)
    >>> for number in (1, 2, 1, 3):
    ...     memory.remember(number, str(number))
    >>> list(memory)
    [1, 3]
    """

    __slots__ = ("_size",)

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def remember(self, key: K, value: V) -> None:
        """Set a value, as the newest one."""
        self.pop(key, None)
        self[key] = value
        if len(self) > self._size:
            del self[next(iter(self))]
