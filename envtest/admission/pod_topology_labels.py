"""``PodTopologyLabels``: copy the node's zone and region labels to the pod.

Upstream: plugin/pkg/admission/podtopologylabels/admission.go (v1.36)
"""

from __future__ import annotations

from typing import Final

from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.object_cache import ObjectCache
from opsdk.apiserver.admission.plugin import Plugin, writes
from opsdk.structured_merge.value import JsonObject

_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class PodTopologyLabels(Plugin):
    """Copies topology labels of nodes; `nodes` is the lister of the nodes."""

    resources = ("pods", "pods/binding")

    def __init__(self, nodes: ObjectCache) -> None:
        self._nodes = nodes

    async def mutate(self, attributes: Attributes) -> None:
        """Label bindings, and pods that are created with a node name."""
        name = _node(attributes)
        node = self._nodes.get(name) if name else None
        if node is None or attributes.obj is None:
            return
        node_labels = node["metadata"].get("labels") or {}
        labels = {key: node_labels[key] for key in _LABELS if key in node_labels}
        if labels:
            meta = attributes.obj["metadata"]
            attributes.obj = {
                **attributes.obj,
                "metadata": {**meta, "labels": {**(meta.get("labels") or {}), **labels}},
            }


def _node(attributes: Attributes) -> str:
    """Return the name of the node that a pod is bound to."""
    obj: JsonObject = attributes.obj or {}
    if writes(attributes, "pods/binding", "CREATE"):
        target = obj.get("target") or {}
        return str(target.get("name", "")) if target.get("kind") in (None, "", "Node") else ""
    return str((obj.get("spec") or {}).get("nodeName") or "") if writes(attributes, "pods", "CREATE") else ""
