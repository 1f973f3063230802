"""HorizontalPodAutoscalers: kept as ``autoscaling/v2``, also shown as v1."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from envtest.kinds.arrange import arranger
from envtest.kinds.autoscaler_rules import validate_autoscaler
from envtest.kinds.base import TableStrategy
from envtest.kinds.pod_defaults import put
from envtest.kinds.typed import TypedModel
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import Cause

_KEPT: Final = "autoscaling/v2"
_OLD: Final = "autoscaling/v1"
_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_IN_NOTES: Final = ((("spec", "metrics"), "metrics"), (("spec", "behavior"), "behavior"))
_STATUS_IN_NOTES: Final = ((("status", "currentMetrics"), "current-metrics"), (("status", "conditions"), "conditions"))


class AutoscalerStrategy(TableStrategy):
    """Nothing is known of the metrics at first."""

    def __init__(self, row: Any, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def initial_status(self, obj: Tree) -> Tree:  # noqa: ARG002 - the shape of the hook
        """No replicas are wished for yet."""
        return {"desiredReplicas": 0, "currentMetrics": None}

    def validate(self, context: Context, obj: Tree) -> Sequence[Cause]:  # noqa: ARG002 - the shape of the hook
        """See the rules; a form that is shown to old clients is checked in the new one."""
        return list(validate_autoscaler(to_new(obj) if obj.get("apiVersion") == _OLD else obj))


class OldAutoscalerModel(TypedModel):
    """The first version: one target for CPU, everything else in annotations."""

    def default(self, obj: Tree, *, nulls: bool = False) -> Tree:  # noqa: ARG002 - decoding left no nulls
        """See `Model`."""
        put(obj.setdefault("spec", {}), minReplicas=1)
        return obj

    def to_storage(self, obj: Tree) -> Tree:
        """See `Model`."""
        return to_new(obj)

    def from_storage(self, obj: Tree) -> Tree:
        """See `Model`."""
        return dict(arranger(self.name)(to_old(obj)))


def to_new(obj: Tree) -> Tree:
    """v1 to v2.

    >>> to_new({"metadata": {}, "spec": {"targetCPUUtilizationPercentage": 50}})["spec"]["metrics"][0]["type"]
    'Resource'
    """
    meta, spec = dict(obj.get("metadata") or {}), dict(obj.get("spec") or {})
    status = dict(obj.get("status") or {})
    notes = dict(meta.get("annotations") or {})
    made: Tree = {**obj, "apiVersion": _KEPT, "metadata": meta, "spec": spec}
    for (part, key), note in (*_IN_NOTES, *_STATUS_IN_NOTES):
        kept = _parsed(notes.pop(_PREFIX + note, None))
        if kept is not None:
            (spec if part == "spec" else status)[key] = kept
    target = spec.pop("targetCPUUtilizationPercentage", None)
    if target is not None:
        spec["metrics"] = [_cpu("target", target), *(spec.get("metrics") or ())]
    seen = status.pop("currentCPUUtilizationPercentage", None)
    if seen is not None:
        status["currentMetrics"] = [_cpu("current", seen), *(status.get("currentMetrics") or ())]
    if status:
        made["status"] = status
    _annotate(meta, notes)
    return made


def to_old(obj: Tree) -> Tree:
    """v2 to v1."""
    if obj.get("apiVersion") == _OLD:
        return obj
    meta, spec = dict(obj.get("metadata") or {}), dict(obj.get("spec") or {})
    status = dict(obj.get("status") or {})
    notes = dict(meta.get("annotations") or {})
    made: Tree = {**obj, "apiVersion": _OLD, "metadata": meta, "spec": spec}
    target, spec["metrics"] = _split(spec.get("metrics"), "target")
    seen, status["currentMetrics"] = _split(status.get("currentMetrics"), "current")
    if target is not None:
        spec["targetCPUUtilizationPercentage"] = target
    if seen is not None:
        status["currentCPUUtilizationPercentage"] = seen
    for (part, key), note in (*_IN_NOTES, *_STATUS_IN_NOTES):
        kept = (spec if part == "spec" else status).pop(key, None)
        if kept:
            notes[_PREFIX + note] = json.dumps(kept, separators=(",", ":"))
    if "status" in obj:
        made["status"] = {"currentReplicas": 0, "desiredReplicas": 0, **status}
    _annotate(meta, notes)
    return made


def _annotate(meta: Tree, notes: Tree) -> None:
    if notes:
        meta["annotations"] = notes
    else:
        meta.pop("annotations", None)


def _parsed(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _cpu(key: str, percent: int) -> Tree:
    value: Tree = {"averageUtilization": percent}
    return {
        "type": "Resource",
        "resource": {"name": "cpu", key: {"type": "Utilization", **value} if key == "target" else value},
    }


def _split(metrics: list[Tree] | None, key: str) -> tuple[int | None, list[Tree]]:
    """The utilization of the CPU, which v1 has a field for, and the other metrics."""
    found: int | None = None
    rest: list[Tree] = []
    for metric in metrics or ():
        resource = metric.get("resource") or {}
        percent = (resource.get(key) or {}).get("averageUtilization")
        if found is None and metric.get("type") == "Resource" and resource.get("name") == "cpu" and percent is not None:
            found = percent
        else:
            rest.append(metric)
    return found, rest
