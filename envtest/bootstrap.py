"""Objects that every cluster has from its first second on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from envtest.kinds.core import label_namespace
from opsdk.aio.clock import Clock
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.store import Store
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import AlreadyExistsError


class Stores(Protocol):
    """What is needed of a control plane: its registries by ``group/resource``, and its clock."""

    clock: Clock

    @property
    def stores(self) -> Mapping[str, Store]:
        """The registries."""
        ...


NAMESPACES = ("kube-system", "kube-public", "kube-node-lease", "default")


async def bootstrap(plane: Stores) -> None:
    """Create what is missing."""
    for name in NAMESPACES:
        await ensure(plane, "/namespaces", namespace_object(name))


def namespace_object(name: str) -> Tree:
    """A namespace as the server makes it for itself."""
    obj: Tree = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}, "spec": {}, "status": {}}
    label_namespace(obj)
    return obj


async def ensure(plane: Stores, resource: str, obj: Tree, *, namespace: str = "") -> None:
    """Create an object unless it is there."""
    try:
        await plane.stores[resource].create(Context(namespace=namespace, clock=plane.clock), "", obj)
    except AlreadyExistsError:
        return
