"""``Priority``: resolve priorityClassName, and allow one global default PriorityClass.

Upstream: plugin/pkg/admission/priority/admission.go (v1.36)
"""

from __future__ import annotations

from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.errors import refused
from opsdk.apiserver.admission.object_cache import ObjectCache
from opsdk.apiserver.admission.plugin import Plugin, writes
from opsdk.structured_merge.value import JsonObject

_CLASSES = "scheduling.k8s.io/priorityclasses"
_NEVER_MIND: JsonObject = {"value": 0, "preemptionPolicy": "PreemptLowerPriority"}
"""The values of a pod without a PriorityClass, if no class is the global default."""


class Priority(Plugin):
    """Sets the priority of pods; `classes` is the lister of the priority classes."""

    resources = ("pods", _CLASSES)

    def __init__(self, classes: ObjectCache) -> None:
        self._classes = classes

    async def mutate(self, attributes: Attributes) -> None:
        """Set the priority of new pods; restore it on updates."""
        if writes(attributes, "pods", "CREATE"):
            obj = attributes.obj or {}
            spec: JsonObject = dict(obj.get("spec") or {})
            name = spec.get("priorityClassName", "")
            if name:
                priority_class = self._classes.get(name)
                if priority_class is None:
                    raise refused(attributes, f"no PriorityClass with name {name} was found")
            else:
                priority_class = self._default() or _NEVER_MIND
                if "metadata" in priority_class:
                    spec["priorityClassName"] = priority_class["metadata"]["name"]
            _check_priority(attributes, spec, priority_class)
            attributes.obj = {**obj, "spec": spec}
        elif writes(attributes, "pods", "UPDATE"):
            # An update that omits the computed values keeps them.
            obj, old = attributes.obj or {}, (attributes.old or {}).get("spec") or {}
            spec = obj.get("spec") or {}
            lost = {
                k: old[k] for k in ("priority", "preemptionPolicy") if spec.get(k) is None and old.get(k) is not None
            }
            if lost:
                attributes.obj = {**obj, "spec": {**spec, **lost}}

    async def validate(self, attributes: Attributes) -> None:
        """Refuse a second default PriorityClass."""
        if not writes(attributes, _CLASSES, "CREATE", "UPDATE"):
            return
        obj, other = attributes.obj or {}, self._default()
        if not obj.get("globalDefault") or other is None:
            return
        name = other["metadata"]["name"]
        if attributes.operation == "CREATE" or name != obj["metadata"]["name"]:
            raise refused(attributes, f"PriorityClass {name} is already marked as default. Only one default can exist")

    def _default(self) -> JsonObject | None:
        marked = [c for c in self._classes.of() if c.get("globalDefault")]
        return min(marked, key=lambda c: int(c.get("value", 0)), default=None)


def _check_priority(attributes: Attributes, spec: JsonObject, priority_class: JsonObject) -> None:
    """Set the priority and the preemption policy of the class. A value that the pod sets must be equal."""
    value, actual = priority_class.get("value", 0), spec.get("priority")
    if actual is not None and actual != value:
        text = (
            f"the integer value of priority ({actual}) must not be provided in pod spec; priority admission controller"
            f" computed {value} from the given PriorityClass name"
        )
        raise refused(attributes, text)
    spec["priority"] = value
    policy, actual = priority_class.get("preemptionPolicy"), spec.get("preemptionPolicy")
    if policy is None:
        return
    if actual is not None and actual != policy:
        text = (
            f"the string value of PreemptionPolicy ({actual}) must not be provided in pod spec; priority admission"
            f" controller computed {policy} from the given PriorityClass name"
        )
        raise refused(attributes, text)
    spec["preemptionPolicy"] = policy
