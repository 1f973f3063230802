"""``RuntimeClass``: set the pod overhead and scheduling constraints of the pod's RuntimeClass.

Upstream: plugin/pkg/admission/runtimeclass/admission.go (v1.36)
"""

from __future__ import annotations

from envtest.admission.tolerations import merged
from opsdk.apimachinery.quantity import Quantity
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.errors import refused
from opsdk.apiserver.admission.object_cache import ObjectCache
from opsdk.apiserver.admission.plugin import Plugin, writes
from opsdk.structured_merge.value import JsonObject

_DIFFERS = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_ALONE = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class RuntimeClass(Plugin):
    """Applies RuntimeClasses to pods; `classes` is the lister of the runtime classes."""

    resources = ("pods",)

    def __init__(self, classes: ObjectCache) -> None:
        self._classes = classes

    async def mutate(self, attributes: Attributes) -> None:
        """Apply overhead and scheduling of the RuntimeClass to a new pod."""
        runtime_class = self._class(attributes)
        if runtime_class is None or attributes.obj is None:
            return
        spec = dict(attributes.obj["spec"])
        overhead = runtime_class.get("overhead")
        if overhead is not None:
            if spec.get("overhead") is not None and not _same(spec["overhead"], _pod_overhead(overhead)):
                raise refused(attributes, _DIFFERS)
            spec["overhead"] = _pod_overhead(overhead)
        if runtime_class.get("scheduling") is not None:
            _place(attributes, spec, runtime_class["scheduling"])
        attributes.obj = {**attributes.obj, "spec": spec}

    async def validate(self, attributes: Attributes) -> None:
        """Require that the overhead of a new pod is that of its RuntimeClass."""
        if not writes(attributes, "pods", "CREATE"):
            return
        runtime_class, declared = (
            self._class(attributes),
            ((attributes.obj or {}).get("spec") or {}).get("overhead") or {},
        )
        overhead = (runtime_class or {}).get("overhead")
        if overhead is not None and not _same(declared, _pod_overhead(overhead)):
            raise refused(attributes, _DIFFERS)
        if overhead is None and declared:
            raise refused(attributes, _ALONE)

    def _class(self, attributes: Attributes) -> JsonObject | None:
        if not writes(attributes, "pods", "CREATE"):
            return None
        name = ((attributes.obj or {}).get("spec") or {}).get("runtimeClassName")
        if name is None:
            return None
        runtime_class = self._classes.get(name)
        if runtime_class is None:
            raise refused(attributes, f'pod rejected: RuntimeClass "{name}" not found')
        return runtime_class


def _pod_overhead(overhead: JsonObject) -> JsonObject:
    fixed: JsonObject = overhead.get("podFixed") or {}
    return fixed


def _same(one: JsonObject, other: JsonObject) -> bool:
    return one.keys() == other.keys() and all(Quantity(one[k]) == Quantity(other[k]) for k in one)


def _place(attributes: Attributes, spec: JsonObject, scheduling: JsonObject) -> None:
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in sorted((scheduling.get("nodeSelector") or {}).items()):
        if selector.get(key, value) != value:
            text = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value};"
            raise refused(attributes, f"{text} pod.spec.nodeSelector[{key}] = {selector[key]}")
        selector[key] = value
    tolerations = merged(spec.get("tolerations") or (), scheduling.get("tolerations") or ())
    for key, defaults in (("nodeSelector", selector), ("tolerations", tolerations)):
        if defaults:
            spec[key] = defaults
