"""Names of objects as JSON trees, and of kinds in texts. Pure."""

from __future__ import annotations

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.structured_merge.value import JsonObject


def key_of_tree(tree: JsonObject) -> str:
    """Return ``namespace/name``, or the name of a cluster-scoped object."""
    metadata = tree["metadata"]
    return str(ObjectKey(metadata.get("namespace") or "", metadata["name"]))


def subject_of_tree(tree: JsonObject) -> str:
    """Return kind, namespace and name.

    >>> subject_of_tree({"kind": "Node", "metadata": {"name": "a"}})
    'Node a'
    """
    return f"{tree.get('kind', '')} {key_of_tree(tree)}"


def kind_in(gvk: str) -> str:
    """Return the kind in the text of a GroupVersionKind.

    >>> kind_in("apps/v1, Kind=Deployment")
    'Deployment'
    """
    return gvk.rpartition("Kind=")[2]
