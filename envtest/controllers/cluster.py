"""What the simulated controllers see and do: objects by key and by uid, writes past the rules of clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.ports import DeleteOptions, ListQuery
from opsdk.apiserver.registry.store import Store
from opsdk.apiserver.storage.ports import KeyNotFoundError, Remove, Tree
from opsdk.apiserver.tree_copy import copy_tree
from opsdk.errors import NotFoundError

if TYPE_CHECKING:
    from envtest.control_plane import ControlPlane


class Cluster:
    """The control plane, as its controllers use it."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.context = Context(clock=plane.clock)

    def stores(self) -> Iterator[Store]:
        """Every store that keeps objects, each once."""
        seen: set[str] = set()
        for store in (*self.plane.stores.values(), *self.plane.extensions.stores()):
            if store.prefix not in seen:
                seen.add(store.prefix)
                yield store

    def store_of(self, key: str) -> Store | None:
        """The store that keeps a key."""
        return next((s for s in self.stores() if key.startswith(s.prefix)), None)

    def store(self, name: str) -> Store:
        """A built-in store by ``group/resource``."""
        return self.plane.stores[name]

    def get(self, name: str, namespace: str, object_name: str) -> Tree | None:
        """An object, or None."""
        return self.at(self.store(name).key(namespace, object_name))

    def at(self, key: str) -> Tree | None:
        """The object at a key, or None."""
        try:
            return self.plane.storage.get(key)
        except KeyNotFoundError:
            return None

    def list(self, name: str, namespace: str = "") -> list[Tree]:
        """Objects of one kind."""
        return list(self.store(name).list_now(namespace, ListQuery()).items)

    def everything(self) -> Iterator[tuple[Store, Tree]]:
        """Every object with its store."""
        for store in self.stores():
            for obj in store.list_now("", ListQuery()).items:
                yield store, obj

    def inside(self, obj: Tree) -> Context:
        """A context in the object's namespace."""
        return replace(self.context, namespace=obj["metadata"].get("namespace", ""))

    async def create(self, name: str, namespace: str, obj: Tree) -> Tree:
        """Create an object with its kind's defaults."""
        served = self.plane.core.find(*_where(name))
        if served is not None:
            obj = served.model.default(served.model.decode(obj).obj)
        return await self.store(name).create(replace(self.context, namespace=namespace), "", obj)

    async def delete(self, store: Store, obj: Tree, options: DeleteOptions | None = None) -> None:
        """Delete an object; fine if it is gone."""
        try:
            await store.delete(self.inside(obj), obj["metadata"]["name"], options or DeleteOptions())
        except NotFoundError:
            return

    async def change(self, store: Store, obj: Tree, edit: Callable[[Tree], None]) -> None:
        """Change an object in place, by no rules but the caller's; fine if it is gone.

        An object whose last hold this drops is removed.
        """
        meta = obj["metadata"]

        async def step(current: Tree | None) -> Tree | Remove:
            if current is None or current["metadata"]["uid"] != meta["uid"]:
                raise NotFoundError(meta["name"])
            wanted: Tree = copy_tree(current)
            edit(wanted)
            if _released(wanted, store):
                return Remove(wanted)
            return wanted

        key = store.key(meta.get("namespace", ""), meta["name"])
        try:
            await store.storage.guaranteed_update(key, step)
        except NotFoundError:
            return
        if self.at(key) is None:
            await store.strategy.after_delete(self.inside(obj), obj)


def _released(obj: Tree, store: Store) -> bool:
    meta = obj["metadata"]
    gone = meta.get("deletionTimestamp") and not meta.get("finalizers") and not meta.get("deletionGracePeriodSeconds")
    return bool(gone) and store.strategy.removable(obj)


def _where(name: str) -> tuple[str, str, str]:
    group, _, resource = name.partition("/")
    return group, "v1", resource


def owner_reference(owner: Tree) -> Tree:
    """A controlling reference."""
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controlled_by(obj: Tree, owner: Tree) -> bool:
    """Whether `owner` controls `obj`."""
    refs = obj["metadata"].get("ownerReferences") or ()
    return any(r.get("controller") and r["uid"] == owner["metadata"]["uid"] for r in refs)


def deleting(obj: Tree) -> bool:
    """Whether an object is on its way out."""
    return bool(obj["metadata"].get("deletionTimestamp"))
