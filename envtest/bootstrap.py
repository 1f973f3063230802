"""Objects that every cluster has from its first second on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envtest.kinds.core import label_namespace
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import AlreadyExistsError

if TYPE_CHECKING:
    from envtest.control_plane import ControlPlane

NAMESPACES = ("kube-system", "kube-public", "kube-node-lease", "default")


async def bootstrap(plane: ControlPlane) -> None:
    """Create what is missing."""
    for name in NAMESPACES:
        await ensure(plane, "/namespaces", namespace_object(name))


def namespace_object(name: str) -> Tree:
    """A namespace as the server makes it for itself."""
    obj: Tree = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}, "spec": {}, "status": {}}
    label_namespace(obj)
    return obj


async def ensure(plane: ControlPlane, resource: str, obj: Tree, *, namespace: str = "") -> None:
    """Create an object unless it is there."""
    try:
        await plane.stores[resource].create(Context(namespace=namespace, clock=plane.clock), "", obj)
    except AlreadyExistsError:
        return
