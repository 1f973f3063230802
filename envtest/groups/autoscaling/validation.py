"""Validation of HorizontalPodAutoscalers.

Upstream: pkg/apis/autoscaling/validation (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator

from envtest.groups.common import validation
from envtest.groups.core.resource_names import container_name
from opsdk.apimachinery.quantity import Quantity
from opsdk.apimachinery.validation import path_segment
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_SOURCES = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
"""Metric types and their fields, in the order of upstream's checks."""
_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
_SCALE_TO_ZERO = "must specify at least one Object or External metric to support scaling to zero replicas"


def validate_autoscaler(obj: JsonObject) -> Iterator[Cause]:
    """Validate the spec of a HorizontalPodAutoscaler."""
    spec = obj.get("spec") or {}
    low, high, metrics = spec.get("minReplicas"), spec.get("maxReplicas") or 0, spec.get("metrics") or ()
    if low is not None and low < 1:
        # The feature gate HPAScaleToZero is off.
        yield api_errors.invalid_value("spec.minReplicas", low, "must be greater than or equal to 1")
    if high == 0:
        yield api_errors.required("spec.maxReplicas", "must be set and greater than 0")
    elif high < 1:
        yield api_errors.invalid_value("spec.maxReplicas", high, "must be greater than or equal to 1")
    if low is not None and high < low:
        yield api_errors.invalid_value("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`")
    yield from _reference(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef")
    for index, metric in enumerate(metrics):
        yield from _metric(metric, f"spec.metrics[{index}]")
    if low == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        yield api_errors.not_allowed("spec.metrics", _SCALE_TO_ZERO)
    yield from _behavior(spec.get("behavior") or {}, "spec.behavior")


def validate_autoscaler_status(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate the replica counts of the status."""
    status = obj.get("status") or {}
    for key in ("currentReplicas", "desiredReplicas"):
        yield from validation.not_negative(status.get(key), f"status.{key}")


def _reference(ref: JsonObject, path: str, *, grouped: bool = True) -> Iterator[Cause]:
    """Validate an object reference; `grouped` requires an API group, except for ReplicationControllers."""
    for key in ("kind", "name"):
        value = ref.get(key, "")
        if not value:
            yield api_errors.required(f"{path}.{key}")
        else:
            yield from validation.each(path_segment(value), value, f"{path}.{key}")
    version = ref.get("apiVersion", "")
    if version.count("/") > 1:
        yield api_errors.invalid_value(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    elif grouped and not version.rpartition("/")[0] and (version, ref.get("kind")) != ("v1", "ReplicationController"):
        yield api_errors.invalid_value(f"{path}.apiVersion", version, "apiVersion must specify API group")


def _metric(metric: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a metric: its type, and a source of exactly this type."""
    kind = metric.get("type", "")
    unknown = api_errors.unsupported(f"{path}.type", kind, _TYPES)
    if not kind:
        yield api_errors.required(f"{path}.type", "must specify a metric source type")
    if kind not in _SOURCES:
        yield unknown
    sources = [(other, key) for other, key in _SOURCES.items() if metric.get(key) is not None]
    for other, key in sources[:1]:
        yield from _source(other, metric[key], f"{path}.{key}")
    if kind not in _SOURCES:
        # Upstream reports this twice: for the enum value, and for the field of the metric source.
        yield unknown
    elif metric.get(_SOURCES[kind]) is None:
        yield api_errors.required(f"{path}.{_SOURCES[kind]}", "must populate information for the given metric source")
    for other, key in sources if len(sources) > 1 else ():
        if other != kind:
            yield api_errors.not_allowed(f"{path}.{key}", "must populate the given metric source only")


def _source(kind: str, source: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the source of a metric."""
    target = source.get("target") or {}
    if kind in ("Resource", "ContainerResource"):
        name = source.get("name", "")
        yield from validation.required(name, f"{path}.name", "must specify a resource name")
        if kind == "ContainerResource":
            yield from container_name(name, f"{path}.name") if name else ()
            yield from validation.required(source.get("container"), f"{path}.container", "must specify a container")
        yield from _target(target, f"{path}.target")
    else:
        if kind == "Object":
            yield from _reference(source.get("describedObject") or {}, f"{path}.describedObject", grouped=False)
        name = (source.get("metric") or {}).get("name", "")
        if not name:
            yield api_errors.required(f"{path}.metric.name", "must specify a metric name")
        else:
            yield from validation.each(path_segment(name), name, f"{path}.metric.name")
        yield from _target(target, f"{path}.target")
    yield from _amounts(kind, target, f"{path}.target")


def _target(target: JsonObject, path: str) -> Iterator[Cause]:
    kind = target.get("type", "")
    if not kind:
        yield api_errors.required(f"{path}.type", "must specify a metric target type")
    if kind not in ("Utilization", "Value", "AverageValue"):
        text = "must be either Utilization, Value, or AverageValue"
        yield api_errors.invalid_value(f"{path}.type", kind, text)
    for key in ("value", "averageValue"):
        if target.get(key) is not None and Quantity(target[key]) <= Quantity("0"):
            yield api_errors.invalid_value(f"{path}.{key}", target[key], "must be positive")
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        yield api_errors.invalid_value(f"{path}.averageUtilization", share, "must be greater than 0")


def _amounts(kind: str, target: JsonObject, path: str) -> Iterator[Cause]:
    """Validate the target values: those that a metric type requires, and those that are mutually exclusive."""
    value, average, share = (target.get(key) for key in ("value", "averageValue", "averageUtilization"))
    if kind == "Pods":
        if average is None or Quantity(average) <= Quantity("0"):
            yield api_errors.required(f"{path}.averageValue", "must specify a positive target averageValue")
    elif kind == "Object":
        if value is None and average is None:
            yield api_errors.required(f"{path}.averageValue", "must set either a target value or averageValue")
    elif kind == "External":
        if value is None and average is None:
            text = "must set either a target value for metric or a per-pod target"
            yield api_errors.required(f"{path}.averageValue", text)
        if value is not None and average is not None:
            text = "may not set both a target value for metric and a per-pod target"
            yield api_errors.not_allowed(f"{path}.value", text)
    else:
        if share is None and average is None:
            text = "must set either a target raw value or a target utilization"
            yield api_errors.required(f"{path}.averageUtilization", text)
        if share is not None and average is not None:
            text = "may not set both a target raw value and a target utilization"
            yield api_errors.not_allowed(f"{path}.averageValue", text)


def _behavior(behavior: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the rules for scaling up and down."""
    for direction in ("scaleUp", "scaleDown"):
        rule = behavior.get(direction)
        if rule is None:
            continue
        rules_path = f"{path}.{direction}"
        window = rule.get("stabilizationWindowSeconds")
        if window is not None and window < 0:
            yield api_errors.invalid_value(
                f"{rules_path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"
            )
        if window is not None and window > 3600:
            text = "must be less than or equal to 3600"
            yield api_errors.invalid_value(f"{rules_path}.stabilizationWindowSeconds", window, text)
        if rule.get("selectPolicy") not in (None, "Max", "Min", "Disabled"):
            yield api_errors.unsupported(f"{rules_path}.selectPolicy", rule["selectPolicy"], ("Disabled", "Max", "Min"))
        if not rule.get("policies"):
            yield api_errors.required(f"{rules_path}.policies", "must specify at least one Policy")
        for index, policy in enumerate(rule.get("policies") or ()):
            yield from _policy(policy, f"{rules_path}.policies[{index}]")
        tolerance = rule.get("tolerance")
        if tolerance is not None and Quantity(str(tolerance)) < Quantity("0"):
            yield api_errors.invalid_value(f"{rules_path}.tolerance", tolerance, validation.NOT_NEGATIVE)


def _policy(policy: JsonObject, path: str) -> Iterator[Cause]:
    if policy.get("type") not in ("Pods", "Percent"):
        yield api_errors.unsupported(f"{path}.type", policy.get("type", ""), ("Percent", "Pods"))
    for key in ("value", "periodSeconds"):
        if (policy.get(key) or 0) <= 0:
            yield api_errors.invalid_value(f"{path}.{key}", policy.get(key) or 0, "must be greater than zero")
    if (policy.get("periodSeconds") or 0) > 1800:
        text = "must be less than or equal to 1800"
        yield api_errors.invalid_value(f"{path}.periodSeconds", policy["periodSeconds"], text)
