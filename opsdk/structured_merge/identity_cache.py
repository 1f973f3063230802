"""What was worked out about a tree, found again by the tree's identity: for trees that nobody changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class IdentityCache(Generic[T]):
    """Answers about the last `limit` trees. A tree is kept too: while it lives, nothing else has its identity.

    >>> lengths = IdentityCache[int](limit=2)
    >>> tree = {"a": 1}
    >>> lengths.put(tree, 1)
    >>> lengths.get(tree), lengths.get({"a": 1})
    (1, None)
    """

    __slots__ = ("_found", "_limit")

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._found: dict[int, tuple[Any, T]] = {}

    def get(self, tree: Any) -> T | None:
        """What was put for this very tree."""
        entry = self._found.get(id(tree))
        return None if entry is None else entry[1]

    def get_or_compute(self, tree: Any, make: Callable[[Any], T]) -> T:
        """What was put for this very tree, made now where nothing was."""
        answer = self.get(tree)
        if answer is None:
            answer = make(tree)
            self.put(tree, answer)
        return answer

    def put(self, tree: Any, answer: T) -> None:
        """Remember; the oldest gives way."""
        if len(self._found) >= self._limit:
            del self._found[next(iter(self._found))]
        self._found[id(tree)] = (tree, answer)
