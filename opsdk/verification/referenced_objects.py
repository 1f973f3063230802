"""The objects that generated custom resources name: Secrets with the keys of a login, classes, accounts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from opsdk.structured_merge.paths import get_path
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.workload.operations import GeneratedWorkload, ReferencedObject

__all__ = ["reference_trees", "referenced_tree"]

_KEYS: Final = ("username", "password", "token", "tls.crt", "tls.key", "ca.crt")
"""Keys that operators look for in a Secret."""
_NAME: Final = "name"
"""A key with the object's name: a field that names another object changes something if its content counts."""
_ROOTS: Final[Mapping[str, JsonObject]] = {
    "ConfigMap": {"apiVersion": "v1"},
    "IngressClass": {"apiVersion": "networking.k8s.io/v1", "spec": {"controller": "verify.example.com/ingress"}},
    "PriorityClass": {"apiVersion": "scheduling.k8s.io/v1", "value": 1},
    "RuntimeClass": {"apiVersion": "node.k8s.io/v1", "handler": "example"},
    "Secret": {"apiVersion": "v1"},
    "ServiceAccount": {"apiVersion": "v1"},
    "StorageClass": {
        "apiVersion": "storage.k8s.io/v1",
        "provisioner": "verify.example.com/disk",
        "allowVolumeExpansion": True,
    },
}
"""Required fields by kind. Objects of other kinds are not created: their definitions are not known."""
_NAMESPACED: Final = frozenset({"ConfigMap", "Secret", "ServiceAccount"})


def reference_trees(workload: GeneratedWorkload, namespace: str) -> Iterator[JsonObject]:
    """Yield the objects that the operations of a workload name, with the keys that stand beside their names."""
    for reference in workload.references:
        keys = {get_path(each.after, (*reference.path[:-1], "key"), None) for each in workload.operations}
        names = sorted(key for key in keys if isinstance(key, str) and key)
        tree = referenced_tree(reference, namespace, names)
        if tree is not None:
            yield tree


def referenced_tree(reference: ReferencedObject, namespace: str, keys: Iterable[str] = ()) -> JsonObject | None:
    """Return the object that a field names; None if its kind is not one of Kubernetes.

    Args:
        reference: the field, and the kind and name of the object.
        namespace: of the custom resource.
        keys: that custom resources name beside the object.

    >>> reference = ReferencedObject(("spec", "settings", "name"), "ConfigMap", "settings")
    >>> referenced_tree(reference, "default", ["colour"])["data"]
    {'name': 'settings', 'colour': 'example'}
    """
    root = _ROOTS.get(reference.kind)
    if root is None:
        return None
    metadata = {"name": reference.name}
    if reference.kind in _NAMESPACED:
        metadata["namespace"] = namespace
    tree: JsonObject = {**root, "kind": reference.kind, "metadata": metadata}
    if reference.kind == "Secret":
        tree["stringData"] = {_NAME: reference.name, **dict.fromkeys((*_KEYS, *keys), "example")}
    if reference.kind == "ConfigMap":
        tree["data"] = {_NAME: reference.name, **dict.fromkeys(keys, "example")}
    return tree
