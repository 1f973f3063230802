"""What deployments, replica sets, stateful sets and daemon sets may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from envtest.kinds import rules
from envtest.kinds.annotation_rules import validate_pod_annotations
from envtest.kinds.pod_rules import validate_pod_spec
from envtest.kinds.selector_rules import check_label_selector
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry import metadata
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

MISMATCH = "`selector` does not match template `labels`"
_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


def selects(selector: JsonObject, labels: JsonObject) -> bool:
    """Whether a label selector of an object matches."""
    if any(labels.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression(e, labels) for e in selector.get("matchExpressions") or ())


def _expression(expression: JsonObject, labels: JsonObject) -> bool:
    value, values = labels.get(expression.get("key", "")), expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None


def is_empty(selector: JsonObject) -> bool:
    """Whether it selects everything."""
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def understood(selector: JsonObject | None) -> bool:
    """Whether it can be used at all."""
    for expression in (selector or {}).get("matchExpressions") or ():
        operator, values = expression.get("operator"), expression.get("values") or []
        if operator not in _OPERATORS or (operator in ("In", "NotIn")) != bool(values):
            return False
    return True


def template_labels(spec: JsonObject) -> JsonObject:
    """The labels of the pods to be."""
    found: JsonObject = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return found


# ------------------------------------------------------------------ templates
def validate_template(template: JsonObject, path: str, *, kind: str) -> Iterator[Cause]:
    """A pod template of a workload that keeps its pods running."""
    yield from validate_pod_template(template, path)
    yield from _keeps_running(template, path, kind=kind)


def _keeps_running(template: JsonObject, path: str, *, kind: str) -> Iterator[Cause]:
    spec = template.get("spec") or {}
    if spec.get("restartPolicy") != "Always":
        yield api_errors.unsupported(f"{path}.spec.restartPolicy", spec.get("restartPolicy", ""), ["Always"])
    if spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        yield api_errors.not_allowed(f"{path}.spec.activeDeadlineSeconds", text)


def validate_pod_template(template: JsonObject, path: str) -> Iterator[Cause]:
    """Any pod template."""
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    yield from _template_metadata(meta, spec, path)
    yield from validate_pod_spec(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        yield api_errors.not_allowed(f"{path}.spec.ephemeralContainers", text)


def _template_metadata(meta: JsonObject, spec: JsonObject, path: str) -> Iterator[Cause]:
    yield from metadata.labels(meta.get("labels") or {}, f"{path}.labels")
    yield from metadata.annotation_causes(meta.get("annotations") or {}, f"{path}.annotations")
    yield from validate_pod_annotations(meta.get("annotations") or {}, spec, f"{path}.annotations")


def validate_selector(selector: JsonObject | None, path: str, *, word: str) -> Iterator[Cause]:
    """A selector that must be there and select something."""
    if selector is None:
        yield api_errors.required(path)
        return
    yield from check_label_selector(selector or {}, path)
    if is_empty(selector):
        yield api_errors.invalid_value(path, selector, f"empty selector is invalid for {word}")


def _selected_template(spec: JsonObject, *, kind: str) -> Iterator[Cause]:
    if not understood(spec.get("selector")):
        yield api_errors.invalid_value("spec.selector", spec["selector"], "invalid label selector")
        return
    yield from _selected(spec)
    yield from validate_template(spec.get("template") or {}, "spec.template", kind=kind)


def _selected(spec: JsonObject) -> Iterator[Cause]:
    """The template's labels are those that the selector wants."""
    selector, labels = spec.get("selector"), template_labels(spec)
    if selector is None or (not is_empty(selector) and not selects(selector, labels)):
        yield api_errors.invalid_value("spec.template.metadata.labels", labels or None, MISMATCH)


# ------------------------------------------------------------------ kinds
def validate_deployment(spec: JsonObject) -> Iterator[Cause]:
    """A deployment's spec."""
    yield from rules.not_negative(spec.get("replicas"), "spec.replicas")
    yield from validate_selector(spec.get("selector"), "spec.selector", word="deployment")
    yield from _selected_template(spec, kind="ReplicaSet")
    yield from _deployment_strategy(spec.get("strategy") or {}, "spec.strategy")
    for key in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        yield from rules.not_negative(spec.get(key), f"spec.{key}")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        yield api_errors.invalid_value("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _deployment_strategy(strategy: JsonObject, path: str) -> Iterator[Cause]:
    rolling = strategy.get("rollingUpdate")
    match strategy.get("type"):
        case "Recreate":
            if rolling is not None:
                text = "may not be specified when strategy `type` is 'Recreate'"
                yield api_errors.not_allowed(f"{path}.rollingUpdate", text)
        case "RollingUpdate":
            yield from _rolling_deployment(rolling or {}, f"{path}.rollingUpdate")
        case other:
            yield api_errors.unsupported(path, _go_strategy(other, rolling), ("Recreate", "RollingUpdate"))


def _rolling_deployment(rolling: JsonObject, path: str) -> Iterator[Cause]:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    yield from rules.number_or_percent(unavailable, f"{path}.maxUnavailable")
    yield from rules.number_or_percent(surge, f"{path}.maxSurge")
    if not rules.share(unavailable) and not rules.share(surge):
        text = "may not be 0 when `maxSurge` is 0"
        yield api_errors.invalid_value(f"{path}.maxUnavailable", unavailable, text)
    yield from rules.at_most_all(unavailable, f"{path}.maxUnavailable")


def _go_strategy(kind: Any, rolling: JsonObject | None) -> JsonObject:
    """A strategy as messages show it: a struct of the server."""
    shown = None
    if rolling is not None:
        shown = {"MaxUnavailable": rolling.get("maxUnavailable", 0), "MaxSurge": rolling.get("maxSurge", 0)}
    return {"Type": kind or "", "RollingUpdate": shown}


def validate_replica_set(spec: JsonObject) -> Iterator[Cause]:
    """A replica set's spec."""
    yield from rules.not_negative(spec.get("replicas"), "spec.replicas")
    yield from rules.not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from validate_selector(spec.get("selector"), "spec.selector", word="deployment")
    yield from _selected_template(spec, kind="ReplicaSet")


def validate_replication_controller(spec: JsonObject) -> Iterator[Cause]:
    """A replication controller's spec: its selector is a plain map."""
    yield from rules.not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    selector = spec.get("selector") or {}
    yield from rules.needed(selector, "spec.selector")
    yield from rules.not_negative(spec.get("replicas"), "spec.replicas")
    if spec.get("template") is None:
        yield api_errors.required("spec.template")
        return
    labels = template_labels(spec)
    if selector and not selects({"matchLabels": selector}, labels):
        yield api_errors.invalid_value("spec.template.metadata.labels", labels or None, MISMATCH)
    yield from validate_template(spec["template"], "spec.template", kind="ReplicationController")


def validate_stateful_set(spec: JsonObject) -> Iterator[Cause]:
    """A stateful set's spec."""
    policy = spec.get("podManagementPolicy", "")
    if not policy:
        yield api_errors.required("spec.podManagementPolicy")
    elif policy not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        yield api_errors.invalid_value("spec.podManagementPolicy", policy, text)
    yield from _stateful_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for key in ("whenDeleted", "whenScaled"):
        if retention.get(key) not in (None, "Retain", "Delete"):
            where = f"spec.persistentVolumeClaimRetentionPolicy.{key}"
            yield api_errors.unsupported(where, retention[key], ("Retain", "Delete"))
    yield from rules.not_negative(spec.get("replicas"), "spec.replicas")
    yield from rules.not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from rules.not_negative((spec.get("ordinals") or {}).get("start"), "spec.ordinals.start")
    yield from validate_selector(spec.get("selector"), "spec.selector", word="statefulset")
    yield from _stateful_template(spec)
    yield from _keeps_running(spec.get("template") or {}, "spec.template", kind="StatefulSet")
    yield from rules.not_negative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")


def _stateful_template(spec: JsonObject) -> Iterator[Cause]:
    """Nobody looks into its pod spec: what that mounts comes from the claims."""
    if not understood(spec.get("selector")):
        yield api_errors.invalid_value("spec.selector", spec["selector"], "")
        return
    yield from _selected(spec)
    template = spec.get("template") or {}
    meta = template.get("metadata") or {}
    yield from _template_metadata(meta, template.get("spec") or {}, "spec.template")


def _stateful_strategy(strategy: JsonObject, path: str) -> Iterator[Cause]:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if not kind:
        yield api_errors.required(path)
    elif kind == "OnDelete":
        if rolling is not None:
            text = "only allowed for updateStrategy 'RollingUpdate'"
            yield api_errors.invalid_value(f"{path}.rollingUpdate", _go_partition(rolling), text)
    elif kind == "RollingUpdate":
        yield from _rolling_set(rolling or {}, f"{path}.rollingUpdate")
    else:
        shown = {"Type": kind, "RollingUpdate": None if rolling is None else _go_partition(rolling)}
        yield api_errors.invalid_value(path, shown, "must be 'RollingUpdate' or 'OnDelete'")


def _rolling_set(rolling: JsonObject, path: str) -> Iterator[Cause]:
    yield from rules.not_negative(rolling.get("partition"), f"{path}.partition")
    unavailable = rolling.get("maxUnavailable")
    if unavailable is not None:
        yield from rules.number_or_percent(unavailable, f"{path}.maxUnavailable")
        if not rules.share(unavailable):
            yield api_errors.invalid_value(f"{path}.maxUnavailable", unavailable, "cannot be 0")
        yield from rules.at_most_all(unavailable, f"{path}.maxUnavailable")


def _go_partition(rolling: JsonObject) -> JsonObject:
    return {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}


def validate_daemon_set(spec: JsonObject) -> Iterator[Cause]:
    """A daemon set's spec."""
    selector = spec.get("selector")
    yield from check_label_selector(selector or {}, "spec.selector")
    labels = template_labels(spec)
    if understood(selector) and (selector is None or not selects(selector, labels)):
        yield api_errors.invalid_value("spec.template.metadata.labels", labels or None, MISMATCH)
    if selector is not None and is_empty(selector):
        yield api_errors.invalid_value("spec.selector", selector, "empty selector is invalid for daemonset")
    yield from validate_template(spec.get("template") or {}, "spec.template", kind="DaemonSet")
    yield from rules.not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from _daemon_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    yield from rules.not_negative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")


def _daemon_strategy(strategy: JsonObject, path: str) -> Iterator[Cause]:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "RollingUpdate":
        if rolling is None:
            yield api_errors.required(f"{path}.rollingUpdate")
            return
        yield from _rolling_daemon(rolling, f"{path}.rollingUpdate")
    elif kind != "OnDelete":
        yield api_errors.unsupported(path, _go_strategy(kind, rolling), ("RollingUpdate", "OnDelete"))


def _rolling_daemon(rolling: JsonObject, path: str) -> Iterator[Cause]:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    for check in (rules.number_or_percent, rules.at_most_all):
        yield from check(unavailable, f"{path}.maxUnavailable")
        yield from check(surge, f"{path}.maxSurge")
    if rules.share(unavailable) and rules.share(surge):
        text = "may not be set when maxUnavailable is non-zero"
        yield api_errors.invalid_value(f"{path}.maxSurge", surge, text)
    elif not rules.share(unavailable) and not rules.share(surge):
        yield api_errors.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


# ------------------------------------------------------------------ status
_COUNTS: dict[str, Sequence[str]] = {
    "deployments": (
        "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
        "unavailableReplicas", "terminatingReplicas", "collisionCount",
    ),
    "replicasets": (
        "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "terminatingReplicas",
        "observedGeneration",
    ),
    "replicationcontrollers": (
        "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration",
    ),
    "statefulsets": (
        "replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas", "observedGeneration",
        "collisionCount",
    ),
    "daemonsets": (
        "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "observedGeneration",
        "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount",
    ),
}  # fmt: skip
_BOUNDED = {
    "deployments": ("updatedReplicas", "readyReplicas", "availableReplicas"),
    "replicasets": ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "replicationcontrollers": ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "statefulsets": ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
}


def validate_counts(resource: str, status: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """The numbers of a workload's status: not negative, and no part larger than the whole."""
    for key in _COUNTS.get(resource, ()):
        yield from rules.not_negative(status.get(key), f"status.{key}")
    replicas = status.get("replicas") or 0
    for key in _BOUNDED.get(resource, ()):
        if (status.get(key) or 0) > replicas:
            text = "cannot be greater than status.replicas"
            yield api_errors.invalid_value(f"status.{key}", status.get(key) or 0, text)
    if resource in _BOUNDED and (status.get("availableReplicas") or 0) > (status.get("readyReplicas") or 0):
        text = "cannot be greater than readyReplicas"
        if resource == "statefulsets":
            text = "cannot be greater than status.readyReplicas"
        yield api_errors.invalid_value("status.availableReplicas", status.get("availableReplicas") or 0, text)
    count, before = status.get("collisionCount"), old.get("collisionCount")
    if before is not None and (count is None or count < before):
        yield api_errors.invalid_value("status.collisionCount", count or 0, "cannot be decremented")
