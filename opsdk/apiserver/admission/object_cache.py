"""Caches of the stored objects that plugins look up; storage changes keep them current."""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.apiserver.storage.ports import ChangeType, LocalStorage, StorageChange
from opsdk.structured_merge.value import JsonObject


class ObjectCache:
    """The objects of one resource, by namespace and name.

    Args:
        prefix: the key prefix of the resource in storage.
    """

    def __init__(self, storage: LocalStorage, prefix: str) -> None:
        self._storage = storage
        self._prefix = prefix
        self._by_namespace: dict[str, dict[str, JsonObject]] | None = None
        self._sorted: dict[str, tuple[JsonObject, ...]] = {}
        storage.subscribe(self._changed, prefix)

    def __repr__(self) -> str:
        return f"<ObjectCache objects under {self._prefix}>"

    def of(self, namespace: str = "") -> Sequence[JsonObject]:
        """Return the objects of a namespace, or cluster-scoped ones, sorted by name."""
        namespace_object = self._all().get(namespace)
        if namespace_object is None:
            return ()
        listed = self._sorted.get(namespace)
        if listed is None:
            listed = self._sorted[namespace] = tuple(namespace_object[name] for name in sorted(namespace_object))
        return listed

    def get(self, name: str, namespace: str = "") -> JsonObject | None:
        """Return one object, or None."""
        return self._all().get(namespace, {}).get(name)

    def _all(self) -> dict[str, dict[str, JsonObject]]:
        if self._by_namespace is None:
            self._by_namespace = {}
            for key, value in self._storage.list_now(self._prefix).items:
                self._put(key, value)
        return self._by_namespace

    def _put(self, key: str, value: JsonObject | None) -> None:
        assert self._by_namespace is not None
        namespace, _, name = key.removeprefix(self._prefix).rpartition("/")
        self._sorted.pop(namespace, None)
        if value is not None:
            self._by_namespace.setdefault(namespace, {})[name] = value
            return
        entries = self._by_namespace.get(namespace, {})
        entries.pop(name, None)
        if not entries:
            self._by_namespace.pop(namespace, None)

    def _changed(self, change: StorageChange) -> None:
        # The informer starts with the first read.
        if self._by_namespace is not None and change.key.startswith(self._prefix):
            self._put(change.key, None if change.kind is ChangeType.DELETE else change.value)
