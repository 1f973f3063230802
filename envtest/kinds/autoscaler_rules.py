"""What horizontal pod autoscalers may be."""

from __future__ import annotations

from collections.abc import Iterator

from envtest.kinds import rules
from opsdk.api.quantity import Quantity
from opsdk.apiserver import problems
from opsdk.apiserver.registry import names
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import Cause

_SOURCES = {
    "Resource": "resource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
    "ContainerResource": "containerResource",
}
_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
_SCALE_TO_ZERO = "must specify at least one Object or External metric to support scaling to zero replicas"


def validate_autoscaler(obj: Tree) -> Iterator[Cause]:
    """A new or changed autoscaler."""
    spec = obj.get("spec") or {}
    low, high, metrics = spec.get("minReplicas"), spec.get("maxReplicas") or 0, spec.get("metrics") or ()
    if low is not None and low < 1:
        # Scaling to zero is behind a gate that is off.
        yield problems.invalid_value("spec.minReplicas", low, "must be greater than or equal to 1")
    if high < 1:
        yield problems.required("spec.maxReplicas", "must be set and greater than 0")
    elif low is not None and high < low:
        yield problems.invalid_value("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`")
    yield from _reference(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef")
    yield from _metrics(metrics, low)
    yield from _behavior(spec.get("behavior") or {}, "spec.behavior")


def _reference(ref: Tree, path: str) -> Iterator[Cause]:
    for key in ("kind", "name"):
        value = ref.get(key, "")
        if not value:
            yield problems.required(f"{path}.{key}")
        else:
            yield from rules.each(names.path_segment(value), value, f"{path}.{key}")
    if not ref.get("apiVersion"):
        yield problems.invalid_value(f"{path}.apiVersion", "", "apiVersion must specify API group")


def _metrics(metrics: list[Tree] | tuple[Tree, ...], low: int | None) -> Iterator[Cause]:
    external = False
    for index, metric in enumerate(metrics):
        at, kind = f"spec.metrics[{index}]", metric.get("type", "")
        external = external or kind in ("Object", "External")
        if not kind:
            yield problems.required(f"{at}.type", "must specify a metric source type")
        if kind not in _SOURCES:
            found = problems.unsupported(f"{at}.type", kind, _TYPES)
            # Looked at twice: as a word, and as the name of a part.
            yield from (found, found) if kind else (found,)
            continue
        source = metric.get(_SOURCES[kind])
        if source is None:
            yield problems.required(f"{at}.{_SOURCES[kind]}", "must populate information for the given metric source")
        else:
            yield from _source(kind, source, f"{at}.{_SOURCES[kind]}")
        for other, key in _SOURCES.items():
            if other != kind and metric.get(key) is not None:
                text = "must populate the given metric source only"
                yield problems.not_allowed(f"{at}.{key}", text)
    if low == 0 and not external:
        yield problems.not_allowed("spec.metrics", _SCALE_TO_ZERO)


def _source(kind: str, source: Tree, path: str) -> Iterator[Cause]:
    if kind in ("Resource", "ContainerResource"):
        yield from rules.needed(source.get("name"), f"{path}.name", "must specify a resource name")
        if kind == "ContainerResource":
            yield from rules.needed(source.get("container"), f"{path}.container", "must specify a container")
        yield from _target(source.get("target") or {}, f"{path}.target", ("averageUtilization", "averageValue"))
        return
    name = (source.get("metric") or {}).get("name", "")
    if not name:
        yield problems.required(f"{path}.metric.name", "must specify a metric name")
    else:
        yield from rules.each(names.path_segment(name), name, f"{path}.metric.name")
    if kind == "Object":
        yield from _reference(source.get("describedObject") or {}, f"{path}.describedObject")
    allowed = ("averageValue",) if kind == "Pods" else ("value", "averageValue")
    yield from _target(source.get("target") or {}, f"{path}.target", allowed)


def _target(target: Tree, path: str, allowed: tuple[str, ...]) -> Iterator[Cause]:
    kind = target.get("type", "")
    if not kind:
        yield problems.required(f"{path}.type", "must specify a metric target type")
    elif kind not in ("Utilization", "Value", "AverageValue"):
        text = "must be either Utilization, Value, or AverageValue"
        yield problems.invalid_value(f"{path}.type", kind, text)
    for key in ("value", "averageValue"):
        if target.get(key) is not None and Quantity(target[key]) <= Quantity("0"):
            yield problems.invalid_value(f"{path}.{key}", target[key], "must be positive")
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        yield problems.invalid_value(f"{path}.averageUtilization", share, "must be greater than 0")
    if all(target.get(key) is None for key in allowed):
        words = {"averageUtilization": "a target utilization", "averageValue": "a target averageValue"}
        if allowed[0] == "averageUtilization":
            text = "must set either a target raw value or a target utilization"
        elif allowed == ("averageValue",):
            text = "must specify a positive target averageValue"
        else:
            text = f"must set either a target value for metric or {words['averageValue']}"
        yield problems.required(f"{path}.{allowed[0]}", text)


def _behavior(behavior: Tree, path: str) -> Iterator[Cause]:
    for direction in ("scaleUp", "scaleDown"):
        rule = behavior.get(direction)
        if rule is None:
            continue
        at = f"{path}.{direction}"
        window = rule.get("stabilizationWindowSeconds")
        if window is not None and window < 0:
            yield problems.invalid_value(
                f"{at}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"
            )
        if window is not None and window > 3600:
            text = "must be less than or equal to 3600"
            yield problems.invalid_value(f"{at}.stabilizationWindowSeconds", window, text)
        tolerance = rule.get("tolerance")
        if tolerance is not None and Quantity(str(tolerance)) < Quantity("0"):
            yield problems.invalid_value(f"{at}.tolerance", tolerance, rules.NOT_NEGATIVE)
        if rule.get("selectPolicy") not in (None, "Max", "Min", "Disabled"):
            yield problems.unsupported(f"{at}.selectPolicy", rule["selectPolicy"], ("Disabled", "Max", "Min"))
        if not rule.get("policies"):
            yield problems.required(f"{at}.policies", "must specify at least one Policy")
        for index, policy in enumerate(rule.get("policies") or ()):
            yield from _policy(policy, f"{at}.policies[{index}]")


def _policy(policy: Tree, path: str) -> Iterator[Cause]:
    if policy.get("type") not in ("Pods", "Percent"):
        yield problems.unsupported(f"{path}.type", policy.get("type", ""), ("Percent", "Pods"))
    for key in ("value", "periodSeconds"):
        if (policy.get(key) or 0) <= 0:
            yield problems.invalid_value(f"{path}.{key}", policy.get(key) or 0, "must be greater than zero")
    if (policy.get("periodSeconds") or 0) > 1800:
        text = "must be less than or equal to 1800"
        yield problems.invalid_value(f"{path}.periodSeconds", policy["periodSeconds"], text)
