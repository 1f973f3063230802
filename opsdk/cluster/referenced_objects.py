"""Whole objects of kinds that are cached as metadata: only those that something references.

Upstream: none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeGuard

import msgspec

from opsdk.apimachinery.codec import decode, encode
from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import Kind, metadata_only
from opsdk.apimachinery.object import AnyObject, PartialObjectMetadata
from opsdk.cache.cache import Cache
from opsdk.client.activity import current_activity
from opsdk.client.operations import Get, Operation
from opsdk.client.ports import OperationExecutor


class _WholeObject(msgspec.Struct, frozen=True):
    uid: str
    resource_version: str
    data: bytes


class ReferencedObjects:
    """Answers reads of whole objects while the metadata watch shows the state that was read before.

    A read of an object that has changed, or that nothing references, goes to the server. There are at most as many
    objects as references.

    Args:
        cache: has the metadata.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._is_referenced: dict[GroupVersionKind, list[Callable[[ObjectKey], bool]]] = {}
        self._objects: dict[tuple[GroupVersionKind, ObjectKey], _WholeObject] = {}

    def declare(self, kind: Kind[AnyObject], is_referenced: Callable[[ObjectKey], bool]) -> None:
        """Keep whole objects of a kind for the keys for which one of the declared functions returns True."""
        self._is_referenced.setdefault(kind.gvk, []).append(is_referenced)

    def bypasses(self, kind: Kind[Any]) -> bool:
        """Whether reads of a kind go to the server, and start no informer of whole objects.

        Reads of metadata, and of a kind that is cached whole for another reason, are cached reads.
        """
        if kind.gvk not in self._is_referenced:
            return self._cache.holds_only_metadata(kind)
        return kind.representation is not PartialObjectMetadata and self._cache.existing(kind) is None

    def forget(self, kind: Kind[AnyObject], keys: Iterable[ObjectKey]) -> None:
        """Drop objects that are gone, or that nothing references any more."""
        for key in keys:
            self._objects.pop((kind.gvk, key), None)

    def changed(self, kind: Kind[AnyObject], key: ObjectKey, resource_version: str) -> None:
        """Drop the former state of an object."""
        kept_object = self._objects.get((kind.gvk, key))
        if kept_object is not None and kept_object.resource_version != resource_version:
            del self._objects[kind.gvk, key]

    async def get(self, operation: Get, direct: OperationExecutor) -> Any:
        """Return one object: a copy of what was read before if it has not changed since, else from the server."""
        gvk, key = operation.kind.gvk, operation.key
        functions = self._is_referenced.get(gvk)
        if functions is None:
            return await direct.execute(operation)
        kept_object = self._objects.get((gvk, key))
        if kept_object is not None and self._is_current(gvk, key, kept_object):
            if (activity := current_activity()) is not None:
                activity.record_read(gvk, key, kept_object.resource_version, cached=True, data=kept_object.data)
            return decode(kept_object.data, operation.kind)
        obj = await direct.execute(operation)
        if any(is_referenced(key) for is_referenced in functions):
            meta = obj.metadata
            self._objects[gvk, key] = _WholeObject(meta.uid, meta.resource_version, encode(obj))
        return obj

    def _is_current(self, gvk: GroupVersionKind, key: ObjectKey, kept_object: _WholeObject) -> bool:
        """Whether the watch shows this state, and no own write is in doubt."""
        cached = self._cache.synced(metadata_only(gvk))
        if cached is None:
            return False
        for informer in cached.select(key.namespace if cached.mapping.namespaced else ""):
            own = informer.store.own
            if own.unknown_list is not None or key in own.unknown or not informer.has_synced:
                return False
            entry = informer.store.get(key)
            if entry is not None:
                return (entry.uid, entry.resource_version) == (kept_object.uid, kept_object.resource_version)
        return False

    def __len__(self) -> int:
        """Return the number of whole objects."""
        return len(self._objects)

    def __repr__(self) -> str:
        return f"<ReferencedObjects: {len(self)} of {', '.join(map(str, self._is_referenced))}>"


def is_whole_read(operation: Operation) -> TypeGuard[Get]:
    """Whether a read may be answered from memory: a plain one, without options of its own."""
    return isinstance(operation, Get) and not (
        operation.subresource or operation.options.uncached or operation.options.resource_version
    )
