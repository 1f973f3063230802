"""Node lifecycle: taint nodes by condition and evict pods that do not tolerate the taints.

Upstream: pkg/controller/nodelifecycle, pkg/controller/tainteviction (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from envtest.controllers.controller import ObjectController, SimulatedController
from envtest.controllers.objects import (
    condition_in,
    conditions_of,
    deleting,
    is_ready,
    parse_time,
    phase_of,
    stamp,
    with_condition,
    with_status,
)
from envtest.controllers.scheduler import NOT_READY, UNREACHABLE, UNSCHEDULABLE, tolerates
from envtest.controllers.writes import NODES, PODS, DeleteWrite, PendingEvent, UpdateWrite, Write, Writes
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.structured_merge.value import JsonObject

_PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_OURS = {UNSCHEDULABLE, NOT_READY, UNREACHABLE, *_PRESSURES.values()}


# ------------------------------------------------------------------ core: taints
def wanted_taints(node: JsonObject) -> set[tuple[str, str]]:
    """Return keys and effects of the taints that follow from the node's conditions."""
    conditions = conditions_of(node)
    taints: set[tuple[str, str]] = set()
    for kind, key in _PRESSURES.items():
        if (condition_in(conditions, kind) or {}).get("status") == "True":
            taints.add((key, "NoSchedule"))
    ready = (condition_in(conditions, "Ready") or {}).get("status")
    sick = {"False": NOT_READY, "Unknown": UNREACHABLE}.get(str(ready))
    if sick is not None:
        taints |= {(sick, "NoSchedule"), (sick, "NoExecute")}
    if (node.get("spec") or {}).get("unschedulable"):
        taints.add((UNSCHEDULABLE, "NoSchedule"))
    return taints


def with_taints(node: JsonObject, now: datetime) -> JsonObject | None:
    """Return the node with the taints that follow; None if they are right."""
    if condition_in(conditions_of(node), "Ready") is None:
        return None  # a new node keeps its taints until the kubelet reports its status
    desired = wanted_taints(node)
    spec = node.get("spec") or {}
    before = list(spec.get("taints") or ())
    preserved = [t for t in before if t.get("key") not in _OURS or (t["key"], t.get("effect")) in desired]
    present = {(t.get("key"), t.get("effect")) for t in preserved}
    new = [{"key": k, "effect": e, "timeAdded": stamp(now)} for k, e in sorted(desired - present)]
    if not new and len(preserved) == len(before):
        return None
    return {**node, "spec": {**spec, "taints": [*preserved, *new]}}


def with_not_ready(pod: JsonObject, now: datetime) -> list[Write | PendingEvent]:
    """Return the status of a pod on an unreachable node; None if it is unchanged."""
    if not is_ready(pod) or deleting(pod):
        return []
    condition = condition_in(conditions_of(pod), "Ready") or {}
    new = {**condition, "status": "False", "lastTransitionTime": stamp(now)}
    status = {**pod["status"], "conditions": with_condition(conditions_of(pod), new)}
    return [
        UpdateWrite(PODS, with_status(pod, status), "status"),
        PendingEvent(pod, "NodeNotReady", "Node is not ready", warning=True),
    ]


# ------------------------------------------------------------------ core: evictions
def seconds_until_eviction(pod: JsonObject, taints: Sequence[JsonObject], now: datetime) -> float | None:
    """Return the seconds until the pod is evicted for its node's taints; None if it never is."""
    tolerations = (pod.get("spec") or {}).get("tolerations") or ()
    ends: list[float] = []
    for taint in taints:
        if taint.get("effect") != "NoExecute":
            continue
        tolerating = [t for t in tolerations if tolerates(t, taint)]
        if not tolerating:
            return 0.0
        limits = [t["tolerationSeconds"] for t in tolerating if t.get("tolerationSeconds") is not None]
        if limits:
            since = parse_time(taint["timeAdded"]) if taint.get("timeAdded") else now
            ends.append(max(min(limits), 0) - (now - since).total_seconds())
    return max(min(ends), 0.0) if ends else None


def with_disruption_target(
    pod: JsonObject, reason: str, message: str, now: datetime, **status: str
) -> UpdateWrite | None:
    """Return the pod's status with the condition DisruptionTarget; None if it is unchanged."""
    new = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": stamp(now),
        "reason": reason,
        "message": message,
    }
    before = pod.get("status") or {}
    condition = condition_in(conditions_of(pod), "DisruptionTarget")
    same = condition is not None and condition.get("status") == "True" and condition.get("reason") == reason
    if same and all(before.get(k) == v for k, v in status.items()):
        return None
    conditions = conditions_of(pod) if same else with_condition(conditions_of(pod), new)
    return UpdateWrite(PODS, with_status(pod, {**before, **status, "conditions": conditions}), "status")


def evict(pod: JsonObject, now: datetime) -> Writes:
    """Return the writes that evict a pod."""
    text = "Taint manager: deleting due to NoExecute taint"
    update = with_disruption_target(pod, "DeletionByTaintManager", text, now)
    meta = pod["metadata"]
    event = PendingEvent(pod, "TaintManagerEviction", f"Marking for deletion Pod {meta['namespace']}/{meta['name']}")
    return [event, *([update] if update else []), DeleteWrite(PODS, pod)]


# ------------------------------------------------------------------ shells
class NodeLifecycleController(ObjectController):
    """``node-lifecycle``: taints nodes by their conditions; heartbeats are not monitored."""

    name = "node-lifecycle"
    component = "node-controller"
    resource = NODES

    async def sync(self, obj: JsonObject) -> float | None:
        now = self.context.now()
        changed = with_taints(obj, now)
        if changed is not None:
            await self.write([UpdateWrite(NODES, changed)])
        if {k for k, _ in wanted_taints(obj)} & {NOT_READY, UNREACHABLE}:
            name = obj["metadata"]["name"]
            for pod in self.informers.pods_of_node(name):
                await self.write(with_not_ready(pod, now))
        return None


class TaintEvictionController(SimulatedController):
    """``taint-eviction``: keys of pods."""

    name = "taint-eviction"

    def add_event_handlers(self) -> None:
        """Watch pods that get a node, and pods on nodes whose taints change."""
        self.informers.add_event_handler(PODS, self._pod)
        self.informers.add_event_handler(NODES, self._node)

    def _pod(self, change: StorageChange) -> None:
        if change.current is None or not change.current["spec"].get("nodeName"):
            return
        before = change.previous or {"spec": {}}
        if any(before["spec"].get(k) != change.current["spec"].get(k) for k in ("nodeName", "tolerations")):
            self.queue.add(change.key)

    def _node(self, change: StorageChange) -> None:
        old, new = (((o or {}).get("spec") or {}).get("taints") or [] for o in (change.previous, change.current))
        if change.current is None or old == new:
            return
        self.add_pods_of_node(change.current["metadata"]["name"])

    async def reconcile(self, key: str) -> float | None:
        pod = self.informers.get(key)
        node = None if pod is None else self.informers.get(NODES.key("", pod["spec"].get("nodeName") or ""))
        if pod is None or node is None or deleting(pod) or phase_of(pod) in ("Succeeded", "Failed"):
            return None
        now = self.context.now()
        remaining = seconds_until_eviction(pod, (node.get("spec") or {}).get("taints") or (), now)
        if remaining is None or remaining > 0:
            return remaining
        await self.write(evict(pod, now))
        return None
