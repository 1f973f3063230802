"""HorizontalPodAutoscalers between ``autoscaling/v2``, which is stored, and v1 with its annotations.

Upstream: pkg/apis/autoscaling/v1/conversion.go (v1.36)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final

from envtest.codec.field_order import arranger
from envtest.groups.autoscaling.defaulting import horizontal_pod_autoscaler
from envtest.groups.common.defaulting import put
from envtest.groups.common.model import TypedModel
from opsdk.structured_merge.go_format import go_json
from opsdk.structured_merge.value import JsonObject, JsonValue

OLD: Final = "autoscaling/v1"
_KEPT: Final = "autoscaling/v2"
_METRICS: Final = "autoscaling.alpha.kubernetes.io/metrics"
_SEEN: Final = "autoscaling.alpha.kubernetes.io/current-metrics"
_CONDITIONS: Final = "autoscaling.alpha.kubernetes.io/conditions"
_BEHAVIOR: Final = "autoscaling.alpha.kubernetes.io/behavior"
_NOTES: Final = frozenset({_METRICS, _SEEN, _CONDITIONS, _BEHAVIOR})
_PARTS: Final = {
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "External": "external",
}
_REFERENCE: Final = ("kind", "name", "apiVersion")


def without_notes(obj: JsonObject) -> JsonObject:
    """Return the object without the annotations that hold fields of the other version."""
    meta = obj.get("metadata") or {}
    notes = meta.get("annotations") or {}
    if not _NOTES & notes.keys():
        return obj
    annotations = {key: value for key, value in notes.items() if key not in _NOTES}
    meta = {key: value for key, value in meta.items() if key != "annotations"}
    return {**obj, "metadata": {**meta, "annotations": annotations} if annotations else meta}


# ------------------------------------------------------------------ v1 to v2
def to_new(obj: JsonObject) -> JsonObject:
    """Convert ``autoscaling/v1`` to ``autoscaling/v2``.

    >>> to_new({"metadata": {}, "spec": {"targetCPUUtilizationPercentage": 50}})["spec"]["metrics"][0]["type"]
    'Resource'
    """
    notes = (obj.get("metadata") or {}).get("annotations") or {}
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    converted: JsonObject = {**without_notes(obj), "apiVersion": _KEPT, "spec": spec}
    target = spec.pop("targetCPUUtilizationPercentage", None)
    others = [_new_metric(metric, _TARGETS) for metric in _listed(notes.get(_METRICS))]
    if target is not None:
        target_value = {"type": "Utilization", "averageUtilization": target}
        others.append({"type": "Resource", "resource": {"name": "cpu", "target": target_value}})
    if others:
        spec["metrics"] = others
    behavior = _parsed(notes.get(_BEHAVIOR))
    if isinstance(behavior, dict) and behavior:
        spec["behavior"] = _lower(behavior)
    utilization = status.pop("currentCPUUtilizationPercentage", None)
    if utilization is not None:
        status["currentMetrics"] = [
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": utilization}}}
        ]
    if current := [_new_metric(metric, _CURRENT) for metric in _listed(notes.get(_SEEN))]:
        status["currentMetrics"] = current
    if conditions := _listed(notes.get(_CONDITIONS)):
        status["conditions"] = conditions
    if status:
        converted["status"] = status
    return converted


def _parsed(text: str | None) -> JsonValue:
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return None


def _listed(text: str | None) -> list[JsonObject]:
    items = _parsed(text)
    return [part for part in items if isinstance(part, dict)] if isinstance(items, list) else []


def _lower(value: JsonValue) -> JsonValue:
    """Return the fields with v2 names, without nulls: the annotation has the Go names of the internal type."""
    if isinstance(value, dict):
        return {f"{key[:1].lower()}{key[1:]}": _lower(part) for key, part in value.items() if part is not None}
    return [_lower(part) for part in value] if isinstance(value, list) else value


def _known(metric: JsonObject) -> JsonObject:
    return {key: value for key, value in metric.items() if value is not None}


def _target(value: JsonValue, average: JsonValue, share: JsonValue = None) -> JsonObject:
    kind = "Utilization" if share is not None else "AverageValue" if average is not None else "Value"
    return _known({"type": kind, "value": value, "averageValue": average, "averageUtilization": share})


def _current(value: JsonValue, average: JsonValue, share: JsonValue = None) -> JsonObject:
    return _known({"value": value, "averageValue": average, "averageUtilization": share})


# The field of v2, the function that builds it, and the names of its values in v1.
_TARGETS: Final = ("target", _target, ("targetValue", "targetAverageValue", "targetAverageUtilization"))
_CURRENT: Final = ("current", _current, ("currentValue", "currentAverageValue", "currentAverageUtilization"))
_Side = tuple[str, Callable[..., JsonObject], tuple[str, str, str]]


def _new_metric(metric: JsonObject, side: _Side) -> JsonObject:
    """Return a metric of v1 annotations in the form of v2."""
    part, make, (value, average, share) = side
    kind = metric.get("type", "")
    key = _PARTS.get(kind, "")
    old = metric.get(key)
    if not isinstance(old, dict):
        return {"type": kind}
    if kind in ("Resource", "ContainerResource"):
        source: JsonObject = {"name": old.get("name", ""), part: make(None, old.get(average), old.get(share))}
        if kind == "ContainerResource":
            source["container"] = old.get("container", "")
        return {"type": kind, key: source}
    selector = old.get("metricSelector" if kind == "External" else "selector")
    source = {"metric": _known({"name": old.get("metricName", ""), "selector": selector})}
    if kind == "Object":
        amounts = make(old.get(value), old.get("averageValue"))
        return {"type": kind, key: {"describedObject": old.get("target") or {}, part: amounts, **source}}
    return {"type": kind, key: {**source, part: make(old.get(value), old.get(average))}}


# ------------------------------------------------------------------ v2 to v1
def to_old(obj: JsonObject) -> JsonObject:
    """Convert ``autoscaling/v2`` to ``autoscaling/v1``."""
    if obj.get("apiVersion") == OLD:
        return obj
    bare = without_notes(obj)
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    converted: JsonObject = {**bare, "apiVersion": OLD, "spec": spec}
    notes: dict[str, str] = {}
    metrics, behavior = spec.pop("metrics", None) or [], spec.pop("behavior", None)
    _note(notes, _METRICS, [_old_metric(metric, _TARGETS) for metric in metrics if _cpu(metric, "target") is None])
    if (target := next((t for m in metrics if (t := _cpu(m, "target")) is not None), None)) is not None:
        spec["targetCPUUtilizationPercentage"] = target
    current = status.pop("currentMetrics", None) or []
    _note(notes, _SEEN, [_old_metric(metric, _CURRENT) for metric in current])
    if (utilization := next((t for m in current if (t := _cpu(m, "current")) is not None), None)) is not None:
        status["currentCPUUtilizationPercentage"] = utilization
    _note(notes, _CONDITIONS, status.pop("conditions", None) or [])
    if behavior is not None:
        # Encoded as the internal Go type.
        notes[_BEHAVIOR] = go_json(
            {"ScaleUp": _shown_rules(behavior.get("scaleUp")), "ScaleDown": _shown_rules(behavior.get("scaleDown"))},
            ordered=True,
        )
    if "status" in obj:
        converted["status"] = {"currentReplicas": 0, "desiredReplicas": 0, **status}
    if notes:
        meta = bare.get("metadata") or {}
        converted["metadata"] = {**meta, "annotations": {**(meta.get("annotations") or {}), **notes}}
    return converted


def _note(notes: dict[str, str], key: str, values: Sequence[JsonObject]) -> None:
    if values:
        notes[key] = go_json(list(values), ordered=True)


def _cpu(metric: JsonObject, side: str) -> int | None:
    """Return the CPU utilization, which has its own field in v1."""
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    utilization: int | None = (resource.get(side) or {}).get("averageUtilization")
    return utilization


def _old_metric(metric: JsonObject, side: _Side) -> JsonObject:
    """Return a v1 metric with the fields in Go's order; fields that are not pointers are written even if zero."""
    part, _, (value, average, share) = side
    kind = metric.get("type", "")
    key = _PARTS.get(kind, "")
    new = metric.get(key)
    if not isinstance(new, dict):
        return {"type": kind}
    amounts, name = new.get(part) or {}, (new.get("metric") or {}).get("name", "")
    selector, zero = (new.get("metric") or {}).get("selector"), "0" if part == "current" else None
    most: JsonObject
    if kind in ("Resource", "ContainerResource"):
        most = {"name": new.get("name", ""), share: amounts.get("averageUtilization")}
        most |= {average: amounts.get("averageValue", zero)}
        most |= {"container": new.get("container", "")} if kind == "ContainerResource" else {}
    elif kind == "Object":
        about = new.get("describedObject") or {}
        most = {"target": {k: about[k] for k in _REFERENCE if about.get(k)}, "metricName": name}
        most |= {value: amounts.get("value", "0"), "selector": selector, "averageValue": amounts.get("averageValue")}
    elif kind == "Pods":
        most = {"metricName": name, average: amounts.get("averageValue", "0"), "selector": selector}
    else:
        most = {"metricName": name, "metricSelector": selector}
        most |= {value: amounts.get("value", zero), average: amounts.get("averageValue")}
    return {"type": kind, key: _known(most)}


def _shown_rules(rules: JsonObject | None) -> JsonObject | None:
    if rules is None:
        return None
    policies = rules.get("policies")
    keys = (("Type", "type", ""), ("Value", "value", 0), ("PeriodSeconds", "periodSeconds", 0))
    return {
        "StabilizationWindowSeconds": rules.get("stabilizationWindowSeconds"),
        "SelectPolicy": rules.get("selectPolicy"),
        "Policies": policies and [{label: policy.get(key, zero) for label, key, zero in keys} for policy in policies],
        "Tolerance": rules.get("tolerance"),
    }


class OldAutoscalerModel(TypedModel):
    """The model of ``autoscaling/v1``: one CPU target; annotations hold the other fields."""

    def default(self, obj: JsonObject, *, nulls: bool = False) -> JsonObject:
        put(obj.setdefault("spec", {}), minReplicas=1)
        return obj

    def to_storage(self, obj: JsonObject) -> JsonObject:
        converted = to_new(obj)
        horizontal_pod_autoscaler(converted)
        return converted

    def from_storage(self, obj: JsonObject) -> JsonObject:
        return dict(arranger(self.name, self._typing.types.version)(to_old(obj)))
