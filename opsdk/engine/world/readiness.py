"""Whether an object that runs something is ready: workloads, pods and jobs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from opsdk.structured_merge.value import JsonObject

__all__ = ["unready_reason"]


def unready_reason(obj: JsonObject) -> str:
    """Return what an object waits for; empty if it is ready, or if its kind runs nothing.

    >>> unready_reason({"kind": "StatefulSet", "spec": {"replicas": 3}, "status": {"replicas": 3, "readyReplicas": 2}})
    '2 of 3 replicas are ready'
    """
    check = _CHECKS.get(str(obj.get("kind")))
    return "" if check is None else check(obj.get("spec") or {}, obj.get("status") or {})


def _replicas(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    desired, ready = spec.get("replicas", 1), status.get("readyReplicas") or 0
    if ready < desired:
        return f"{ready} of {desired} replicas are ready"
    # A rollout that hangs leaves the replicas of the last revision running.
    if unavailable := status.get("unavailableReplicas"):
        return f"{unavailable} of {status.get('replicas', desired)} replicas are not available"
    updated = status.get("updatedReplicas") or 0
    partition = ((spec.get("updateStrategy") or {}).get("rollingUpdate") or {}).get("partition") or 0
    on_delete = (spec.get("updateStrategy") or {}).get("type") == "OnDelete"
    is_behind = updated < desired - partition and not on_delete and not spec.get("paused")
    return f"{updated} of {desired} replicas have the last revision" if is_behind else ""


def _daemons(_: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    desired, ready = status.get("desiredNumberScheduled") or 0, status.get("numberReady") or 0
    return f"{ready} of {desired} pods are ready" if ready < desired else ""


def _pod(_: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    phase = status.get("phase", "Pending")
    ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in status.get("conditions") or ())
    return "" if ready or phase == "Succeeded" else f"the pod is {phase}"


def _job(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    true = {each.get("type") for each in status.get("conditions") or () if each.get("status") == "True"}
    if "Failed" in true:
        return "the job has failed"
    return "" if "Complete" in true or spec.get("suspend") else "the job is not complete"


_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], str]]] = {
    "DaemonSet": _daemons,
    "Deployment": _replicas,
    "Job": _job,
    "Pod": _pod,
    "StatefulSet": _replicas,
}
