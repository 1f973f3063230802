"""An index of storage keys: it holds values of existing objects only. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

V = TypeVar("V", bound=Hashable)


class ObjectIndex(Generic[V]):
    """Keys of objects by index value, in the order in which they were added."""

    def __init__(self) -> None:
        self._keys: dict[V, dict[str, None]] = {}

    def __repr__(self) -> str:
        return f"<ObjectIndex of {len(self._keys)} values>"

    def update(self, key: str, before: Iterable[V], after: Iterable[V]) -> None:
        """Replace the values of an object: `before` of its previous state, `after` of its current one."""
        old, new = dict.fromkeys(before), dict.fromkeys(after)
        for value in old:
            if value not in new and (keys := self._keys.get(value)) is not None:
                keys.pop(key, None)
                if not keys:
                    del self._keys[value]
        for value in new:
            if value not in old:
                self._keys.setdefault(value, {})[key] = None

    def keys(self, value: V) -> list[str]:
        """Return the keys of the objects with a value."""
        return list(self._keys.get(value, ()))

    def count(self, value: V) -> int:
        """Return the number of objects with a value."""
        return len(self._keys.get(value, ()))
