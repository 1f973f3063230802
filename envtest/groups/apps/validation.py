"""Validation of deployments, replica sets, stateful sets and daemon sets.

Upstream: pkg/apis/apps/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator

from envtest.groups.common import validation
from envtest.groups.common.label_selectors import check_label_selector, is_empty, is_valid, selects
from envtest.groups.core.validation.pod_template import (
    MISMATCH,
    template_labels,
    validate_keeps_running,
    validate_selected_labels,
    validate_selected_template,
    validate_selector,
    validate_template,
    validate_template_metadata,
)
from opsdk.apiserver import api_errors
from opsdk.apiserver.serializer.raw import raw_text
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject, JsonValue


# ------------------------------------------------------------------ kinds
def validate_deployment(spec: JsonObject) -> Iterator[Cause]:
    """Validate the spec of a Deployment."""
    yield from validation.not_negative(spec.get("replicas"), "spec.replicas")
    yield from validate_selector(spec.get("selector"), "spec.selector", word="deployment")
    yield from validate_selected_template(spec, kind="ReplicaSet")
    strategy = spec.get("strategy") or {}
    path = "spec.strategy"
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
    for key in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        yield from validation.not_negative(spec.get(key), f"spec.{key}")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        yield api_errors.invalid_value("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _rolling_deployment(rolling: JsonObject, path: str) -> Iterator[Cause]:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    yield from validation.int_or_percent(unavailable, f"{path}.maxUnavailable")
    yield from validation.int_or_percent(surge, f"{path}.maxSurge")
    if not validation.numeric_value(unavailable) and not validation.numeric_value(surge):
        text = "may not be 0 when `maxSurge` is 0"
        yield api_errors.invalid_value(f"{path}.maxUnavailable", unavailable, text)
    yield from validation.not_more_than_100_percent(unavailable, f"{path}.maxUnavailable")


def _go_strategy(kind: JsonValue, rolling: JsonObject | None) -> JsonObject:
    """Return a strategy as Go prints the struct in messages."""
    rolling_update = None
    if rolling is not None:
        rolling_update = {"MaxUnavailable": rolling.get("maxUnavailable", 0), "MaxSurge": rolling.get("maxSurge", 0)}
    return {"Type": kind or "", "RollingUpdate": rolling_update}


def validate_replica_set(spec: JsonObject) -> Iterator[Cause]:
    """Validate the spec of a ReplicaSet."""
    yield from validation.not_negative(spec.get("replicas"), "spec.replicas")
    yield from validation.not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from validate_selector(spec.get("selector"), "spec.selector", word="deployment")
    yield from validate_selected_template(spec, kind="ReplicaSet")


def validate_stateful_set(spec: JsonObject) -> Iterator[Cause]:
    """Validate the spec of a StatefulSet."""
    policy = spec.get("podManagementPolicy", "")
    if not policy:
        yield api_errors.required("spec.podManagementPolicy")
    elif policy not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        yield api_errors.invalid_value("spec.podManagementPolicy", policy, text)
    strategy = spec.get("updateStrategy") or {}
    path = "spec.updateStrategy"
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
        rendered = {"Type": kind, "RollingUpdate": None if rolling is None else _go_partition(rolling)}
        yield api_errors.invalid_value(path, rendered, "must be 'RollingUpdate' or 'OnDelete'")
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for key in ("whenDeleted", "whenScaled"):
        if retention.get(key) not in (None, "Retain", "Delete"):
            where = f"spec.persistentVolumeClaimRetentionPolicy.{key}"
            yield api_errors.unsupported(where, retention[key], ("Retain", "Delete"))
    yield from validation.not_negative(spec.get("replicas"), "spec.replicas")
    yield from validation.not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from validation.not_negative((spec.get("ordinals") or {}).get("start"), "spec.ordinals.start")
    yield from validate_selector(spec.get("selector"), "spec.selector", word="statefulset")
    yield from _stateful_template(spec)
    yield from validate_keeps_running(spec.get("template") or {}, "spec.template", kind="StatefulSet")
    yield from validation.not_negative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")


def _stateful_template(spec: JsonObject) -> Iterator[Cause]:
    """Validate only that the template has containers: volume mounts may name the claim templates."""
    if not is_valid(spec.get("selector")):
        yield api_errors.invalid_value("spec.selector", spec["selector"], "")
        return
    yield from validate_selected_labels(spec)
    template = spec.get("template") or {}
    meta = template.get("metadata") or {}
    yield from validate_template_metadata(meta, template.get("spec") or {}, "spec.template")
    if not (template.get("spec") or {}).get("containers"):
        yield api_errors.required("spec.template.spec.containers")


def _rolling_set(rolling: JsonObject, path: str) -> Iterator[Cause]:
    yield from validation.not_negative(rolling.get("partition"), f"{path}.partition")
    unavailable = rolling.get("maxUnavailable")
    if unavailable is not None:
        yield from validation.int_or_percent(unavailable, f"{path}.maxUnavailable")
        if not validation.numeric_value(unavailable):
            yield api_errors.invalid_value(f"{path}.maxUnavailable", unavailable, "cannot be 0")
        yield from validation.not_more_than_100_percent(unavailable, f"{path}.maxUnavailable")


def _go_partition(rolling: JsonObject) -> JsonObject:
    return {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}


def validate_daemon_set(spec: JsonObject) -> Iterator[Cause]:
    """Validate the spec of a DaemonSet."""
    selector = spec.get("selector")
    yield from check_label_selector(selector or {}, "spec.selector")
    labels = template_labels(spec)
    if is_valid(selector) and (selector is None or not selects(selector, labels)):
        yield api_errors.invalid_value("spec.template.metadata.labels", labels or None, MISMATCH)
    if selector is not None and is_empty(selector):
        yield api_errors.invalid_value("spec.selector", selector, "empty selector is invalid for daemonset")
    yield from validate_template(spec.get("template") or {}, "spec.template", kind="DaemonSet")
    yield from validation.not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from _daemon_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    yield from validation.not_negative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")


def _daemon_strategy(strategy: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a DaemonSet's update strategy."""
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "RollingUpdate":
        if rolling is None:
            yield api_errors.required(f"{path}.rollingUpdate")
            return
        rolling_update_path = f"{path}.rollingUpdate"
        unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
        for check in (validation.int_or_percent, validation.not_more_than_100_percent):
            yield from check(unavailable, f"{rolling_update_path}.maxUnavailable")
            yield from check(surge, f"{rolling_update_path}.maxSurge")
        if validation.numeric_value(unavailable) and validation.numeric_value(surge):
            text = "may not be set when maxUnavailable is non-zero"
            yield api_errors.invalid_value(f"{rolling_update_path}.maxSurge", surge, text)
        elif not validation.numeric_value(unavailable) and not validation.numeric_value(surge):
            yield api_errors.required(f"{rolling_update_path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    elif kind != "OnDelete":
        yield api_errors.unsupported(path, _go_strategy(kind, rolling), ("RollingUpdate", "OnDelete"))


_SET_FIELDS = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip


def validate_stateful_set_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: only a few fields of the spec are mutable."""
    yield from validate_stateful_set(obj.get("spec") or {})
    now = {k: v for k, v in obj["spec"].items() if k not in _SET_FIELDS}
    before = {k: v for k, v in old["spec"].items() if k not in _SET_FIELDS}
    if now != before:
        listed = ", ".join(f"'{f}'" for f in _SET_FIELDS[:-1])
        text = f"updates to statefulset spec for fields other than {listed} and '{_SET_FIELDS[-1]}' are forbidden"
        yield api_errors.not_allowed("spec", text)


def validate_controller_revision(obj: JsonObject) -> Iterator[Cause]:
    """Validate the data and a revision that is not negative."""
    yield from validation.required(obj.get("data"), "data", "data is mandatory")
    yield from validation.not_negative(obj.get("revision"), "revision")


def validate_controller_revision_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: the data is immutable."""
    yield from validate_controller_revision(obj)
    if raw_text(obj.get("data")) != raw_text(old.get("data")):
        yield api_errors.invalid_value("data", obj.get("data"), "field is immutable")
