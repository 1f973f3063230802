"""Garbage collection: dependents go when all their owners have gone; orphaning and foreground deletion."""

from __future__ import annotations

from collections.abc import Iterator

from envtest.controllers.cluster import Cluster, deleting
from opsdk.apiserver.registry.deletion import FOREGROUND, ORPHAN
from opsdk.apiserver.registry.ports import DeleteOptions
from opsdk.apiserver.registry.store import Store
from opsdk.apiserver.storage.ports import Change, Kind, Tree


class GarbageCollector:
    """Knows every object by its uid."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._uids: dict[str, str] = {}
        for store, obj in cluster.everything():
            self._uids[obj["metadata"]["uid"]] = store.key(
                obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
            )

    async def handle(self, change: Change) -> None:
        """One change anywhere."""
        obj = change.value
        if obj is None:
            return
        uid = obj["metadata"].get("uid", "")
        if change.kind is Kind.DELETE:
            self._uids.pop(uid, None)
            await self._owner_gone(uid)
            return
        self._uids[uid] = change.key
        store = self._cluster.store_of(change.key)
        current = self._cluster.at(change.key)
        if store is None or current is None:
            return
        if deleting(current):
            await self._finalize(store, current)
        elif current["metadata"].get("ownerReferences"):
            await self._check(store, current)

    def _dependents(self, uid: str) -> Iterator[tuple[Store, Tree]]:
        for store, obj in self._cluster.everything():
            if any(r.get("uid") == uid for r in obj["metadata"].get("ownerReferences") or ()):
                yield store, obj

    async def _owner_gone(self, uid: str) -> None:
        waiting: set[str] = set()
        for store, obj in list(self._dependents(uid)):
            waiting.update(r["uid"] for r in obj["metadata"]["ownerReferences"])
            await self._check(store, obj)
        for other in waiting - {uid}:
            await self._recheck_owner(other)

    async def _recheck_owner(self, uid: str) -> None:
        key = self._uids.get(uid)
        owner = self._cluster.at(key) if key else None
        store = self._cluster.store_of(key) if key else None
        if owner is not None and store is not None and deleting(owner):
            await self._finalize(store, owner)

    def _exists(self, reference: Tree, namespace: str) -> bool:
        key = self._uids.get(reference.get("uid", ""))
        owner = self._cluster.at(key) if key else None
        if owner is None or owner["metadata"].get("uid") != reference["uid"]:
            return False
        # An owner in another namespace is as good as none.
        return owner["metadata"].get("namespace", "") in ("", namespace)

    async def _check(self, store: Store, obj: Tree) -> None:
        """Delete an object without owners; drop the references that lead nowhere."""
        references = obj["metadata"].get("ownerReferences") or []
        namespace = obj["metadata"].get("namespace", "")
        live = [r for r in references if self._exists(r, namespace)]
        if not references or len(live) == len(references) or deleting(obj):
            return
        if not live:
            await self._cluster.delete(store, obj)
            return

        def drop(wanted: Tree) -> None:
            wanted["metadata"]["ownerReferences"] = live

        await self._cluster.change(store, obj, drop)

    async def _finalize(self, store: Store, obj: Tree) -> None:
        finalizers = obj["metadata"].get("finalizers") or ()
        if ORPHAN in finalizers:
            await self._orphan(store, obj)
        elif FOREGROUND in finalizers:
            await self._foreground(store, obj)

    async def _orphan(self, store: Store, obj: Tree) -> None:
        uid = obj["metadata"]["uid"]

        def strip(wanted: Tree) -> None:
            left = [r for r in wanted["metadata"]["ownerReferences"] if r["uid"] != uid]
            wanted["metadata"]["ownerReferences"] = left
            if not left:
                del wanted["metadata"]["ownerReferences"]

        for inner, dependent in list(self._dependents(uid)):
            await self._cluster.change(inner, dependent, strip)
        await self._cluster.change(store, obj, lambda wanted: _drop_finalizer(wanted, ORPHAN))

    async def _foreground(self, store: Store, obj: Tree) -> None:
        blocking = 0
        for inner, dependent in list(self._dependents(obj["metadata"]["uid"])):
            if not deleting(dependent):
                await self._cluster.delete(inner, dependent, DeleteOptions(propagation="Foreground"))
            key = inner.key(dependent["metadata"].get("namespace", ""), dependent["metadata"]["name"])
            blocking += self._cluster.at(key) is not None
        if not blocking:
            await self._cluster.change(store, obj, lambda wanted: _drop_finalizer(wanted, FOREGROUND))


def _drop_finalizer(obj: Tree, name: str) -> None:
    left = [f for f in obj["metadata"].get("finalizers") or () if f != name]
    obj["metadata"]["finalizers"] = left
    if not left:
        del obj["metadata"]["finalizers"]
