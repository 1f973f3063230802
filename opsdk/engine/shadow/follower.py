"""Follows the objects of a cluster, with list and watch only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

import msgspec

from opsdk.aio.closing import Closing
from opsdk.apimachinery.gvk import GroupVersionKind, GroupVersionResource, ObjectKey
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import Unstructured
from opsdk.apimachinery.rest_mapper import RestMapping
from opsdk.cache.entry import StoreEntry
from opsdk.cache.informer import Informer, InformerOptions
from opsdk.cache.list_watch import RestListerWatcher
from opsdk.cache.store import Delta
from opsdk.engine.connections import exempt_tasks
from opsdk.engine.read_only import ReadOnlyTransport
from opsdk.engine.snapshot import SnapshotKind, Unseen
from opsdk.errors import OpsdkError
from opsdk.structured_merge.value import JsonObject

__all__ = ["ClusterEvent", "ClusterFollower"]

_SYNC_SECONDS: Final = 60.0


class ClusterEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A change in the cluster.

    Attributes:
        key: of a storage.
        before: the object before; None if it was created.
        after: the object after; None if it was removed.
        initial: it is part of the first list.
    """

    key: str
    before: JsonObject | None
    after: JsonObject | None
    initial: bool = False


class ClusterFollower(Closing):
    """Informers of some kinds. Their events come in the order of each kind.

    Args:
        transport: of the cluster.
        kinds: to follow.
        on_event: called with each change; it must not block.
    """

    def __init__(
        self, transport: ReadOnlyTransport, kinds: Iterable[SnapshotKind], on_event: Callable[[ClusterEvent], None]
    ) -> None:
        self._transport, self._kinds, self._on_event = transport, list(kinds), on_event
        self._informers: dict[str, tuple[SnapshotKind, Informer]] = {}
        self._kinds_by_name = {(kind.group, kind.kind): kind for kind in self._kinds}
        self._stack = AsyncExitStack()

    async def start(self) -> Sequence[Unseen]:
        """List all kinds, and watch them from then on. Returns those that cannot be watched."""
        with exempt_tasks():
            for kind in self._kinds:
                informer = Informer(_source(self._transport, kind), InformerOptions(expected=_gvk(kind)))
                informer.start()
                self._stack.push_async_callback(informer.aclose)
                self._informers[kind.bucket] = (kind, informer)
        unseen = await asyncio.gather(*(self._first_list(kind, informer) for kind, informer in self._all()))
        return [each for each in unseen if each is not None]

    async def aclose(self) -> None:
        """End all watches. Idempotent."""
        await self._stack.aclose()

    def _all(self) -> list[tuple[SnapshotKind, Informer]]:
        return list(self._informers.values())

    async def _first_list(self, kind: SnapshotKind, informer: Informer) -> Unseen | None:
        try:
            await informer.wait_synced(_SYNC_SECONDS, fail_fast=True)
        except OpsdkError as error:
            del self._informers[kind.bucket]
            await informer.aclose()
            return Unseen(what=kind.resource, reason=f"it cannot be watched: {error}")
        await informer.add_handler(partial(self._on_delta, kind)).wait_synced()
        return None

    def _on_delta(self, kind: SnapshotKind, delta: Delta) -> None:
        before, after = (None if each is None else _tree(each, kind) for each in (delta.old, delta.new))
        self._on_event(
            ClusterEvent(key=f"{kind.bucket}/{delta.entry.key}", before=before, after=after, initial=delta.initial)
        )

    # -------------------------------------------------------------- reads
    def get(self, key: str) -> JsonObject | None:
        """Return the object with a storage key; None without one."""
        group, resource, *names = key.split("/")
        kind, informer = self._informers.get(f"{group}/{resource}", (None, None))
        if kind is None or informer is None:
            return None
        entry = informer.store.get(ObjectKey(names[0] if len(names) > 1 else "", names[-1]))
        return None if entry is None else _tree(entry, kind)

    def is_collected(self, obj: JsonObject, lookup: Callable[[str], JsonObject | None]) -> bool:
        """Whether the built-in controllers delete an object: no owner is left, or its namespace is being deleted.

        Args:
            obj: in the cluster or in a fork of it.
            lookup: returns the objects there, by storage key.
        """
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "")
        owners = metadata.get("ownerReferences") or ()
        if owners and not any(self._is_alive(owner, namespace, lookup) for owner in owners):
            return True
        if not namespace or "core/namespaces" not in self._informers:
            return False
        return not _is_left(lookup(f"core/namespaces/{namespace}"))

    def _is_alive(self, owner: JsonObject, namespace: str, lookup: Callable[[str], JsonObject | None]) -> bool:
        """Whether an owner is left. One of a kind that is not followed is."""
        kind = self._kinds_by_name.get((str(owner.get("apiVersion", "")).rpartition("/")[0], str(owner.get("kind"))))
        if kind is None or kind.bucket not in self._informers:
            return True
        key = ObjectKey(namespace if kind.namespaced else "", str(owner.get("name")))
        obj = lookup(f"{kind.bucket}/{key}")
        return obj is not None and _is_left(obj) and obj["metadata"].get("uid") == owner.get("uid")

    def follows(self, key: str) -> bool:
        """Whether objects with this storage key are followed."""
        return "/".join(key.split("/", 2)[:2]) in self._informers


def _is_left(obj: JsonObject | None) -> bool:
    return obj is not None and "deletionTimestamp" not in obj["metadata"]


def _gvk(kind: SnapshotKind) -> GroupVersionKind:
    return GroupVersionKind(kind.group, kind.version, kind.kind)


def _source(transport: ReadOnlyTransport, kind: SnapshotKind) -> RestListerWatcher:
    resource = GroupVersionResource(kind.group, kind.version, kind.plural)
    mapping = RestMapping(gvk=_gvk(kind), resource=resource, namespaced=kind.namespaced)
    return RestListerWatcher(transport, mapping, Kind(_gvk(kind), Unstructured))


def _tree(entry: StoreEntry, kind: SnapshotKind) -> JsonObject:
    """Return the object of an entry. Items of lists lack their kind."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **msgspec.json.decode(entry.data, type=dict)}
