"""ReplicaSets: as many pods as are wanted, and a status that counts them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from envtest.controllers.objects import (
    age_order,
    deleting,
    is_active,
    is_ready,
    phase_of,
    pod_from_template,
    replicas_of,
    seconds_until_available,
    with_status,
    without_zeros,
)
from envtest.controllers.pod_owner import Plan, PodOwnerController, claim
from envtest.controllers.writes import PODS, REPLICA_SETS, Create, Delete, Update, Write
from opsdk.apiserver.storage.ports import Tree


# ------------------------------------------------------------------ core
def plan(replica_set: Tree, pods: Sequence[Tree], loose: Sequence[Tree], now: datetime) -> Plan:
    """One step: adopt and release, create or delete, count."""
    mine, writes = claim(replica_set, pods, loose)
    active = [p for p in mine if is_active(p)]
    if not deleting(replica_set):
        writes.extend(_fill(replica_set, active))
    status, again = count(replica_set, active, now)
    if status != (replica_set.get("status") or {}):
        writes.append(Update(REPLICA_SETS, with_status(replica_set, status), "status"))
    return Plan(writes, again)


def _fill(replica_set: Tree, active: Sequence[Tree]) -> list[Write]:
    missing = replicas_of(replica_set) - len(active)
    if missing >= 0:
        template = replica_set["spec"].get("template") or {}
        return [Create(PODS, pod_from_template(template, replica_set)) for _ in range(missing)]
    return [Delete(PODS, pod) for pod in first_to_go(active)[:-missing]]


def first_to_go(pods: Sequence[Tree]) -> list[Tree]:
    """Those that are missed least first: unscheduled, pending, not ready, cheap to delete, youngest."""

    def rank(pod: Tree) -> tuple[bool, bool, bool, int]:
        cost = (pod["metadata"].get("annotations") or {}).get("controller.kubernetes.io/pod-deletion-cost", "0")
        scheduled, running = bool(pod["spec"].get("nodeName")), phase_of(pod) == "Running"
        return (scheduled, running, is_ready(pod), int(cost) if cost.lstrip("+-").isdigit() else 0)

    youngest_first = sorted(pods, key=age_order, reverse=True)
    return sorted(youngest_first, key=rank)


def count(replica_set: Tree, active: Sequence[Tree], now: datetime) -> tuple[Tree, float | None]:
    """The status, and the seconds until another pod has been ready for long enough."""
    spec = replica_set["spec"]
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    waits = [seconds_until_available(p, int(spec.get("minReadySeconds") or 0), now) for p in active]
    counts = {
        "fullyLabeledReplicas": sum(labels.items() <= (p["metadata"].get("labels") or {}).items() for p in active),
        "readyReplicas": sum(w is not None for w in waits),
        "availableReplicas": sum(w is not None and w <= 0 for w in waits),
        "observedGeneration": replica_set["metadata"].get("generation", 0),
        "conditions": (replica_set.get("status") or {}).get("conditions") or [],
    }
    pending = [w for w in waits if w is not None and w > 0]
    return {"replicas": len(active), **without_zeros(counts)}, min(pending, default=None)


# ------------------------------------------------------------------ shell
class ReplicaSetController(PodOwnerController):
    """``replicaset``."""

    name = "replicaset"
    resource = REPLICA_SETS

    def plan(self, owner: Tree, pods: Sequence[Tree], loose: Sequence[Tree]) -> Plan:
        """See `PodOwnerController`."""
        return plan(owner, pods, loose, self.kit.now())
