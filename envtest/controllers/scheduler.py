"""Filter nodes for a pod and explain why none fits. Pure.

Upstream: pkg/scheduler/framework/plugins (v1.36)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from envtest.admission.pod_resources import ZERO, Amounts, add, of_pod, read, with_overhead
from envtest.controllers.objects import condition_in, conditions_of, deleting, phase_of, with_condition
from envtest.groups.common.label_selectors import selects
from opsdk.apimachinery.integers import parse_int
from opsdk.structured_merge.value import JsonObject

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_HELPLESS = "Preemption is not helpful for scheduling"


# ------------------------------------------------------------------ taints
def tolerates(toleration: JsonObject, taint: JsonObject) -> bool:
    """Return whether one toleration tolerates one taint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def tolerations_tolerate_taint(tolerations: Iterable[JsonObject], taint: JsonObject) -> bool:
    """Return whether any of the tolerations tolerates the taint."""
    return any(tolerates(t, taint) for t in tolerations)


def has_untolerated_taint(
    pod_spec: JsonObject, taints: Iterable[JsonObject], effects: Sequence[str] = ("NoSchedule", "NoExecute")
) -> bool:
    """Return whether a taint with one of the effects is not tolerated."""
    tolerations = pod_spec.get("tolerations") or ()
    return any(t.get("effect") in effects and not tolerations_tolerate_taint(tolerations, t) for t in taints)


def taints_of(node: JsonObject) -> list[JsonObject]:
    """Return the node's taints, with the unschedulable taint that the node controller has yet to add."""
    spec = node.get("spec") or {}
    taints = list(spec.get("taints") or ())
    if spec.get("unschedulable") and all(t.get("key") != UNSCHEDULABLE for t in taints):
        taints.append({"key": UNSCHEDULABLE, "effect": "NoSchedule"})
    return taints


# ------------------------------------------------------------------ affinity
def matches_node_selector(spec: JsonObject, node: JsonObject) -> bool:
    """Return whether the node matches the pod's node selector and required node affinity."""
    labels = node["metadata"].get("labels") or {}
    if not (spec.get("nodeSelector") or {}).items() <= labels.items():
        return False
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    terms = affinity.get("nodeSelectorTerms") or ()
    return not terms or any(_term(t, labels, node["metadata"]["name"]) for t in terms)


def _term(term: JsonObject, labels: Mapping[str, str], name: str) -> bool:
    if not term.get("matchExpressions") and not term.get("matchFields"):
        return False
    return all(_matches_expression(e, dict(labels)) for e in term.get("matchExpressions") or ()) and all(
        _matches_expression(e, {"metadata.name": name}) for e in term.get("matchFields") or ()
    )


def _matches_expression(expression: JsonObject, labels: JsonObject) -> bool:
    operator, value = expression.get("operator"), labels.get(expression.get("key", ""))
    if operator not in ("Gt", "Lt"):
        return selects({"matchExpressions": [expression]}, labels)
    number, bound = parse_int(value or ""), parse_int(next(iter(expression.get("values") or ("",))))
    if number is None or bound is None:
        return False
    return number > bound if operator == "Gt" else number < bound


# ------------------------------------------------------------------ resource requests
def pod_requests(pod: JsonObject) -> Amounts:
    """Return the resource requests of a pod, overhead included."""
    return with_overhead(pod["spec"], "requests", of_pod(pod["spec"], "requests"))


def insufficient_resources(requests: Amounts, node: JsonObject, others: Iterable[JsonObject]) -> list[str]:
    """Return the names of insufficient resources; a node without allocatable has enough."""
    allocatable = (node.get("status") or {}).get("allocatable")
    if not requests or not allocatable:
        return []
    there, taken = read(allocatable), Amounts()
    for pod in others:
        if phase_of(pod) not in ("Succeeded", "Failed"):
            taken = add(taken, pod_requests(pod))
    free = {name: there.get(name, ZERO).value - taken.get(name, ZERO).value for name in requests}
    return [name for name, amount in requests.items() if amount.value > free[name]]


# ------------------------------------------------------------------ the decision
@dataclass(frozen=True, slots=True)
class Placement:
    """The node for a pod; an empty `node` comes with the message of the scheduler."""

    node: str = ""
    message: str = ""


@dataclass(slots=True)
class NodeFilter:
    """Filters nodes for one pod; `pods` are the pods of each node, by its name."""

    pod: JsonObject
    pods: Mapping[str, Sequence[JsonObject]] = field(default_factory=dict)
    fitting: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    def check(self, node: JsonObject) -> None:
        """Add the node to `fitting`, or count the reasons against it."""
        spec = self.pod["spec"]
        taints = taints_of(node)
        if deleting(node) or has_untolerated_taint(spec, [t for t in taints if t.get("key") == UNSCHEDULABLE]):
            reasons = ["node(s) were unschedulable"]
        elif has_untolerated_taint(spec, taints):
            reasons = ["node(s) had untolerated taint(s)"]
        elif not matches_node_selector(spec, node):
            reasons = ["node(s) didn't match Pod's node affinity/selector"]
        else:
            others = self.pods.get(node["metadata"]["name"], ())
            reasons = [f"Insufficient {name}" for name in insufficient_resources(pod_requests(self.pod), node, others)]
        self.reasons.update(reasons)
        if not reasons:
            self.fitting.append(node["metadata"]["name"])


def schedule(
    pod: JsonObject, nodes: Sequence[JsonObject], pods: Mapping[str, Sequence[JsonObject]] | None = None
) -> Placement:
    """Return the placement of a pod; `pods` by node count against their resources."""
    if not nodes:
        return Placement(message="no nodes available to schedule pods")
    search = NodeFilter(pod, pods or {})
    for node in nodes:
        search.check(node)
    if search.fitting:
        # Deterministic distribution over the fitting nodes, by the pod's uid.
        digits = "".join(c for c in pod["metadata"]["uid"] if c in "0123456789abcdef")
        return Placement(sorted(search.fitting)[int(digits[:8] or "0", 16) % len(search.fitting)])
    total = len(nodes)
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in search.reasons.items()))
    none = f"0/{total} nodes are available:"
    return Placement(message=(f"{none} {listed}. no new claims to deallocate, preemption: {none} {total} {_HELPLESS}."))


def waits_for_scheduler(pod: JsonObject) -> bool:
    """Return whether the default scheduler should bind the pod now."""
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not deleting(pod)
        and not spec.get("schedulingGates")
        and spec.get("schedulerName", "default-scheduler") == "default-scheduler"
        and phase_of(pod) not in ("Succeeded", "Failed")
    )


def unschedulable(pod: JsonObject, message: str, now: str) -> JsonObject | None:
    """Return the status with PodScheduled false; None if it is unchanged."""
    new = {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "Unschedulable",
        "message": message,
    }
    before = conditions_of(pod)
    condition = condition_in(before, "PodScheduled") or {}
    if all(condition.get(k) == new[k] for k in ("status", "reason", "message")):
        return None
    return {**(pod.get("status") or {}), "conditions": with_condition(before, new)}


def binding(pod: JsonObject, node: str) -> JsonObject:
    """Return the Binding that the scheduler posts."""
    meta = {k: pod["metadata"][k] for k in ("name", "namespace", "uid")}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"kind": "Binding", "apiVersion": "v1", "metadata": meta, "target": target}
