"""Validation of the counts in the status of workloads.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envtest.groups.common import validation
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

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
    """Validate replica counts of a status: not negative, and no part above the total."""
    for key in _COUNTS.get(resource, ()):
        yield from validation.not_negative(status.get(key), f"status.{key}")
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
