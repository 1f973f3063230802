"""``PodResizeValidator`` and ``NodeDeclaredFeatureValidator``: checks for in-place pod resize.

Upstream: plugin/pkg/admission/nodedeclaredfeatures (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envtest.admission.pod_resources import ZERO, of_pod, read, with_overhead
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.errors import refused
from opsdk.apiserver.admission.object_cache import ObjectCache
from opsdk.apiserver.admission.plugin import Plugin, writes
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_OS: Final = "kubernetes.io/os"
_AMOUNTS: Final = (("cpu", 1000), ("memory", 1))
"""Resources, and the factor from a quantity to the unit in messages."""


class _OnNode(Plugin):
    """Base of the checks of resized pods that have a node; `nodes` is the lister of the nodes."""

    resources = ("pods/resize",)

    def __init__(self, nodes: ObjectCache) -> None:
        self._nodes = nodes

    def _node(self, attributes: Attributes) -> JsonObject:
        name = _spec(attributes.obj)["nodeName"]
        node = self._nodes.get(name)
        if node is None:
            raise refused(attributes, f'node "{name}" not found')
        return node


class PodResizeValidator(_OnNode):
    """Refuses a resize if the node does not run Linux or has too little allocatable."""

    async def validate(self, attributes: Attributes) -> None:
        """Raise `ForbiddenError` if the node cannot resize the pod."""
        if not _resizes(attributes):
            return
        node = self._node(attributes)
        lacking = "; ".join(_missing_resources(attributes.obj or {}, node))
        if lacking:
            text = f"Node didn't have enough allocatable resources: {lacking}"
            raise refused(attributes, text, causes=(Cause(reason="NodeCapacity"),))
        system = (node["metadata"].get("labels") or {}).get(_OS, "")
        if system != "linux":
            name = node["metadata"]["name"]
            text = f'pod resize is only supported on linux nodes, node "{name}" is "{system}"'
            raise refused(attributes, text, causes=(Cause(reason="UnsupportedPlatform"),))


class NodeDeclaredFeatureValidator(_OnNode):
    """Refuses a resize whose features the node does not declare."""

    async def validate(self, attributes: Attributes) -> None:
        """Raise `ForbiddenError` if the node lacks a declared feature."""
        needed = list(_features(_spec(attributes.obj), _spec(attributes.old))) if _resizes(attributes) else []
        if not needed:
            return
        node = self._node(attributes)
        missing = [f for f in needed if f not in ((node.get("status") or {}).get("declaredFeatures") or ())]
        if missing:
            name = node["metadata"]["name"]
            text = f'pod update requires features {", ".join(missing)} which are not available on node "{name}"'
            raise refused(attributes, text)


def _spec(obj: JsonObject | None) -> JsonObject:
    return (obj or {}).get("spec") or {}


def _resizes(attributes: Attributes) -> bool:
    """Whether the request changes a pod that is assigned to a node."""
    if not writes(attributes, "pods/resize", "UPDATE"):
        return False
    spec = _spec(attributes.obj)
    return bool(spec.get("nodeName")) and spec != _spec(attributes.old)


def _missing_resources(pod: JsonObject, node: JsonObject) -> Iterator[str]:
    allocatable = read((node.get("status") or {}).get("allocatable"))
    spec = _spec(pod)
    requests = with_overhead(spec, "requests", of_pod(spec, "requests"))
    for name, units in _AMOUNTS:
        requested, capacity = (int(amounts.get(name, ZERO) * units) for amounts in (requests, allocatable))
        if requested > capacity:
            yield f"{name}, requested: {requested}, allocatable: {capacity}"


def _features(new: JsonObject, old: JsonObject) -> Iterator[str]:
    """Yield the declared features that the node must have for the change."""
    if (new.get("resources") or {}) != (old.get("resources") or {}):
        yield "InPlacePodLevelResourcesVerticalScaling"
    pairs = zip(new.get("initContainers") or (), old.get("initContainers") or (), strict=False)
    if any(n.get("resources") != o.get("resources") for n, o in pairs if o.get("restartPolicy") != "Always"):
        yield "InPlacePodVerticalScalingInitContainers"
