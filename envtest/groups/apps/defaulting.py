"""Defaults of the group apps. Each function fills in an object that the caller owns.

Upstream: pkg/apis/apps/v1/defaults.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.defaulting import Defaults, put
from envtest.groups.core.defaulting import claim_defaults, template
from opsdk.structured_merge.value import JsonObject


def deployment(obj: JsonObject) -> None:
    """Default replicas, rolling update, history limit and progress deadline."""
    spec = obj.setdefault("spec", {})
    put(spec, replicas=1)
    template(spec)
    strategy = spec.setdefault("strategy", {})
    put(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        put(strategy, rollingUpdate={})
        put(strategy["rollingUpdate"], maxUnavailable="25%", maxSurge="25%")
    put(spec, revisionHistoryLimit=10, progressDeadlineSeconds=600)


def replica_set(obj: JsonObject) -> None:
    """Default to one replica."""
    spec = obj.setdefault("spec", {})
    put(spec, replicas=1)
    template(spec)


def stateful_set(obj: JsonObject) -> None:
    """Default to ordered pods and rolling updates."""
    spec = obj.setdefault("spec", {})
    put(spec, podManagementPolicy="OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        put(strategy, rollingUpdate={})
    # Upstream adds the partition only to an existing ``rollingUpdate``.
    if strategy["type"] == "RollingUpdate" and isinstance(strategy.get("rollingUpdate"), dict):
        put(strategy["rollingUpdate"], partition=0)
    put(spec, persistentVolumeClaimRetentionPolicy={})
    put(spec["persistentVolumeClaimRetentionPolicy"], whenDeleted="Retain", whenScaled="Retain")
    put(spec, replicas=1, revisionHistoryLimit=10)
    template(spec)
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim_defaults(claim)


def daemon_set(obj: JsonObject) -> None:
    """Default to a rolling update with one unavailable pod."""
    meta = obj.setdefault("metadata", {})
    meta["annotations"] = {"deprecated.daemonset.template.generation": "0", **(meta.get("annotations") or {})}
    spec = obj.setdefault("spec", {})
    template(spec)
    strategy = spec.setdefault("updateStrategy", {})
    put(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        put(strategy, rollingUpdate={})
        put(strategy["rollingUpdate"], maxUnavailable=1, maxSurge=0)
    put(spec, revisionHistoryLimit=10)


DEFAULTS: Mapping[str, Defaults] = {
    "apps/deployments": deployment,
    "apps/replicasets": replica_set,
    "apps/statefulsets": stateful_set,
    "apps/daemonsets": daemon_set,
}
"""By ``group/resource``."""
