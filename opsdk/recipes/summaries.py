"""Computes the state of an object: current, in progress, failed or terminating. Pure.

Upstream: sigs.k8s.io/cli-utils/pkg/kstatus/status/core.go; github.com/rancher/wrangler/pkg/summary
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from opsdk.apimachinery.gvk import GroupKind, GroupVersionKind
from opsdk.apimachinery.object import AnyObject, to_dict
from opsdk.structured_merge.value import JsonObject

Tree = Mapping[str, Any]


class SummaryState(Enum):
    """The state of an object."""

    CURRENT = "current"
    """The object matches its spec, or has nothing to reconcile."""
    IN_PROGRESS = "in progress"
    """A controller is reconciling it, or has not observed its newest spec."""
    FAILED = "failed"
    """A controller gave up, or reports an error."""
    TERMINATING = "terminating"
    """The object is being deleted."""


class Summary(msgspec.Struct, frozen=True):
    """The state of an object.

    Attributes:
        state: see `SummaryState`.
        message: the reason, human-readable; may be empty.
    """

    state: SummaryState
    message: str = ""

    @property
    def error(self) -> bool:
        """Whether the object needs attention."""
        return self.state is SummaryState.FAILED

    @property
    def transitioning(self) -> bool:
        """Whether the state will change without a change of the spec."""
        return self.state in (SummaryState.IN_PROGRESS, SummaryState.TERMINATING)

    def __str__(self) -> str:
        return f"{self.state.value}: {self.message}" if self.message else self.state.value


_CURRENT: Final = Summary(SummaryState.CURRENT)
_ERROR_TYPES: Final = frozenset({"Failed", "Degraded", "Error", "Stalled", "ReplicaFailure"})
"""Conditions that are errors when they are True."""
_PROGRESS_TYPES: Final = frozenset({"Reconciling", "Updating", "Provisioning", "Removing", "Activating", "Creating"})
"""Conditions that are progress when they are True."""
_READY_TYPES: Final = ("Ready", "Available")
"""Conditions that must be True; the first one that exists counts."""
_FAILED_WAITING_REASONS: Final = frozenset(
    {
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)


def summary(obj: AnyObject) -> Summary:
    """Return the state of an object of any kind, typed or unstructured.

    A deletion is checked first, then a spec that its controller has not observed, then the rules of the kind. Kinds
    without rules are judged by their conditions: ``Stalled``, ``Failed`` and the like are errors, ``Reconciling``
    and the like are progress, ``Ready`` or ``Available`` must be True. An object without conditions is current.

    >>> from opsdk.apimachinery.object import Unstructured
    >>> tree = {"apiVersion": "demo.dev/v1", "kind": "Site", "metadata": {"name": "a", "generation": 2}}
    >>> str(summary(Unstructured.from_tree({**tree, "status": {"observedGeneration": 1}})))
    'in progress: generation 2 is not observed yet, only 1'
    """
    return tree_summary(to_dict(obj))


def tree_summary(tree: JsonObject) -> Summary:
    """Return the state of an object as a JSON tree with ``apiVersion``, ``kind`` and ``metadata``; see `summary`.

    >>> str(tree_summary({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}}))
    'current'
    """
    before = tree_summary_before_rules(tree)
    if before is not None:
        return before
    rule = _RULES.get(GroupVersionKind.parse(tree["apiVersion"], tree["kind"]).group_kind, _by_conditions)
    generation = tree["metadata"].get("generation") or 0
    return rule(_ObjectParts(_map(tree.get("spec")), _map(tree.get("status")), generation))


def tree_summary_before_rules(tree: JsonObject) -> Summary | None:
    """Return the state of a tree that is being deleted, or whose newest spec is not observed; else None."""
    terminating = _terminating(tree)
    if terminating is not None:
        return terminating
    generation, observed = tree["metadata"].get("generation") or 0, _map(tree.get("status")).get("observedGeneration")
    if isinstance(observed, int) and observed < generation:
        return _progress(f"generation {generation} is not observed yet, only {observed}")
    return None


def _terminating(tree: JsonObject) -> Summary | None:
    metadata = tree["metadata"]
    if not metadata.get("deletionTimestamp"):
        return None
    finalizers = ", ".join(metadata.get("finalizers") or ())
    return Summary(SummaryState.TERMINATING, f"waits for finalizers {finalizers}" if finalizers else "is being deleted")


class _ObjectParts(msgspec.Struct, frozen=True):
    spec: Tree
    status: Tree
    generation: int


# ------------------------------------------------------------------ kinds
def _deployment(parts: _ObjectParts) -> Summary:
    """Return the state of a Deployment, by the rules of kstatus."""
    progressing = _condition(parts.status, "Progressing")
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return Summary(SummaryState.FAILED, progressing.get("message") or "the progress deadline is exceeded")
    failure = _condition(parts.status, "ReplicaFailure")
    if failure.get("status") == "True":
        return Summary(SummaryState.FAILED, failure.get("message") or "replicas cannot be created")
    desired = _replicas(parts.spec)
    updated, total = parts.status.get("updatedReplicas") or 0, parts.status.get("replicas") or 0
    available = parts.status.get("availableReplicas") or 0
    if "observedGeneration" not in parts.status and desired:
        return _progress("the controller has not observed it yet")
    if updated < desired:
        return _progress(f"{updated} of {desired} replicas are updated")
    if total > updated:
        return _progress(f"{total - updated} old replicas are pending termination")
    if available < desired:
        return _progress(f"{available} of {desired} replicas are available")
    if progressing and progressing.get("status") != "True":
        return _progress(progressing.get("message") or "it is not progressing")
    return _CURRENT


def _stateful_set(parts: _ObjectParts) -> Summary:
    """Return the state of a StatefulSet, by the rules of kstatus."""
    strategy = _map(parts.spec.get("updateStrategy"))
    if strategy.get("type") == "OnDelete":
        return _CURRENT
    desired, ready = _replicas(parts.spec), parts.status.get("readyReplicas") or 0
    total = parts.status.get("replicas") or 0
    if total < desired or ready < desired:
        return _progress(f"{ready} of {desired} replicas are ready")
    if total > desired:
        return _progress(f"{total - desired} replicas are pending termination")
    expected = desired - (_map(strategy.get("rollingUpdate")).get("partition") or 0)
    updated = parts.status.get("updatedReplicas") or 0
    revised = parts.status.get("currentRevision") == parts.status.get("updateRevision")
    return (
        _CURRENT if revised or updated >= expected > 0 else _progress(f"{updated} of {expected} replicas are updated")
    )


def _daemon_set(parts: _ObjectParts) -> Summary:
    desired = parts.status.get("desiredNumberScheduled")
    if "observedGeneration" not in parts.status or desired is None:
        return _progress("the controller has not observed it yet")
    on_delete = _map(parts.spec.get("updateStrategy")).get("type") == "OnDelete"
    counts = (("updatedNumberScheduled", "updated"), ("numberAvailable", "available"), ("numberReady", "ready"))
    for field, verb in counts[1:] if on_delete else counts:
        if (parts.status.get(field) or 0) < desired:
            return _progress(f"{parts.status.get(field) or 0} of {desired} pods are {verb}")
    return _CURRENT


def _replica_set(parts: _ObjectParts) -> Summary:
    failure = _condition(parts.status, "ReplicaFailure")
    if failure.get("status") == "True":
        return Summary(SummaryState.FAILED, failure.get("message") or "replicas cannot be created")
    desired = _replicas(parts.spec)
    total = parts.status.get("replicas") or 0
    if total > desired:
        return _progress(f"{total - desired} replicas are pending termination")
    for field in ("replicas", "readyReplicas", "availableReplicas"):
        if (parts.status.get(field) or 0) < desired:
            return _progress(f"{parts.status.get(field) or 0} of {desired} replicas are available")
    return _CURRENT


def _job(parts: _ObjectParts) -> Summary:
    failed = _condition(parts.status, "Failed")
    if failed.get("status") == "True":
        return Summary(SummaryState.FAILED, failed.get("message") or "the job failed")
    if _condition(parts.status, "Complete").get("status") == "True" or parts.spec.get("suspend"):
        return _CURRENT
    if not parts.status.get("startTime"):
        return _progress("the job has not started")
    completions = parts.spec.get("completions") or 1
    return _progress(
        f"{parts.status.get('succeeded') or 0} of {completions} completions, {parts.status.get('active') or 0} active"
    )


def _pod(parts: _ObjectParts) -> Summary:
    """Return the state of a Pod, by the rules of kstatus."""
    phase = parts.status.get("phase")
    if phase == "Succeeded":
        return _CURRENT
    if phase == "Failed":
        return Summary(
            SummaryState.FAILED, parts.status.get("message") or parts.status.get("reason") or "the pod failed"
        )
    containers = [*(parts.status.get("initContainerStatuses") or ()), *(parts.status.get("containerStatuses") or ())]
    for container in containers:
        waiting = _map(_map(container.get("state")).get("waiting"))
        if waiting.get("reason") in _FAILED_WAITING_REASONS:
            return Summary(SummaryState.FAILED, f"container {container.get('name')}: {waiting['reason']}")
    scheduled = _condition(parts.status, "PodScheduled")
    if scheduled.get("reason") == "Unschedulable":
        return Summary(SummaryState.FAILED, scheduled.get("message") or "the pod is unschedulable")
    ready = _condition(parts.status, "Ready")
    if ready.get("status") == "True":
        return _CURRENT
    return _progress(ready.get("message") or f"the pod is {(phase or 'Pending').lower()}")


def _service(parts: _ObjectParts) -> Summary:
    if parts.spec.get("type") != "LoadBalancer" or _map(parts.status.get("loadBalancer")).get("ingress"):
        return _CURRENT
    return _progress("the load balancer has no address")


def _persistent_volume_claim(parts: _ObjectParts) -> Summary:
    phase = parts.status.get("phase") or "Pending"
    if phase == "Lost":
        return Summary(SummaryState.FAILED, "the volume of the claim is lost")
    return _CURRENT if phase == "Bound" else _progress(f"the claim is {phase.lower()}")


def _disruption_budget(parts: _ObjectParts) -> Summary:
    healthy, desired = parts.status.get("currentHealthy") or 0, parts.status.get("desiredHealthy") or 0
    return _CURRENT if healthy >= desired else _progress(f"{healthy} of {desired} pods are healthy")


def _custom_resource_definition(parts: _ObjectParts) -> Summary:
    for kind in ("NamesAccepted", "Established"):
        condition = _condition(parts.status, kind)
        refused = kind == "NamesAccepted" or condition.get("reason") not in (None, "Installing")
        if condition.get("status") == "False" and refused:
            return Summary(SummaryState.FAILED, condition.get("message") or f"{kind} is False")
    established = _condition(parts.status, "Established").get("status") == "True"
    return _CURRENT if established else _progress("the definition is not established")


def _by_conditions(parts: _ObjectParts) -> Summary:
    """Return the state of custom resources: errors take precedence over progress, progress over readiness."""
    for condition in _conditions(parts.status):
        if condition.get("type") in _ERROR_TYPES and condition.get("status") == "True":
            return Summary(SummaryState.FAILED, _message(condition))
    for condition in _conditions(parts.status):
        if condition.get("type") in _PROGRESS_TYPES and condition.get("status") == "True":
            return _progress(_message(condition))
    for kind in _READY_TYPES:
        condition = _condition(parts.status, kind)
        if not condition:
            continue
        if (condition.get("observedGeneration") or parts.generation) < parts.generation:
            return _progress(
                f"condition {kind} is of generation {condition['observedGeneration']}, not {parts.generation}"
            )
        if condition.get("status") == "True":
            return _CURRENT
        error = condition.get("status") == "False" and "error" in str(condition.get("reason")).lower()
        return Summary(SummaryState.FAILED if error else SummaryState.IN_PROGRESS, _message(condition))
    return _CURRENT


_RULES: Final[dict[GroupKind, Callable[[_ObjectParts], Summary]]] = {
    GroupKind("apps", "Deployment"): _deployment,
    GroupKind("apps", "StatefulSet"): _stateful_set,
    GroupKind("apps", "DaemonSet"): _daemon_set,
    GroupKind("apps", "ReplicaSet"): _replica_set,
    GroupKind("batch", "Job"): _job,
    GroupKind("", "Pod"): _pod,
    GroupKind("", "Service"): _service,
    GroupKind("", "PersistentVolumeClaim"): _persistent_volume_claim,
    GroupKind("policy", "PodDisruptionBudget"): _disruption_budget,
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): _custom_resource_definition,
}


# ------------------------------------------------------------------ helpers
def _progress(message: str) -> Summary:
    return Summary(SummaryState.IN_PROGRESS, message)


def _replicas(spec: Tree) -> int:
    replicas = spec.get("replicas")
    return replicas if isinstance(replicas, int) else 1


def _map(value: Any) -> Tree:
    return value if isinstance(value, dict) else {}


def _conditions(status: Tree) -> list[Tree]:
    conditions = status.get("conditions")
    return [c for c in conditions if isinstance(c, dict)] if isinstance(conditions, list) else []


def _condition(status: Tree, kind: str) -> Tree:
    return next((c for c in _conditions(status) if c.get("type") == kind), {})


def _message(condition: Tree) -> str:
    return str(condition.get("message") or condition.get("reason") or condition.get("type"))
