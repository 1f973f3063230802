"""ReplicaSets and ReplicationControllers: keep the desired number of pods and count them.

Upstream: pkg/controller/replicaset/replica_set.go (v1.36)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from envtest.controllers.job_pods import terminating
from envtest.controllers.objects import (
    condition_in,
    conditions_of,
    controller_of,
    deleting,
    is_active,
    pod_from_template,
    replicas_of,
    seconds_until_available,
    stamp,
    with_status,
    without_zeros,
)
from envtest.controllers.pods.control import PlanningController, PodPlan, claim, make_pod, remove_pod
from envtest.controllers.pods.ranking import deletion_order
from envtest.controllers.writes import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, PendingEvent, UpdateWrite, Write
from opsdk.structured_merge.value import JsonObject

_AT_ONCE = 500
"""Maximum pods that one sync creates or deletes: upstream's BurstReplicas."""


# ------------------------------------------------------------------ core
def plan(
    replica_set: JsonObject,
    pods: Sequence[JsonObject],
    orphans: Sequence[JsonObject],
    now: datetime,
    *,
    failed: str = "",
    pods_by_node: dict[str, int] | None = None,
) -> PodPlan:
    """Sync once: adopt and release pods, create or delete pods, update the status.

    `failed` is the error of the last pod creation; `pods_by_node` the number of related pods on each node.
    """
    claimed, moved = claim(replica_set, pods, orphans)
    writes: list[Write | PendingEvent] = [*moved]
    active = [p for p in claimed if is_active(p)]
    if not deleting(replica_set):
        writes.extend(_manage_replicas(replica_set, active, pods_by_node or {}, blocked=bool(failed)))
    status, again = count(replica_set, claimed, now, failed=failed)
    if status != (replica_set.get("status") or {}):
        resource = REPLICA_SETS if replica_set["kind"] == REPLICA_SETS.kind else REPLICATION_CONTROLLERS
        writes.append(UpdateWrite(resource, with_status(replica_set, status), "status"))
    return PodPlan(writes, again)


def _manage_replicas(
    replica_set: JsonObject, active: Sequence[JsonObject], pods_by_node: dict[str, int], *, blocked: bool
) -> list[Write]:
    missing = min(replicas_of(replica_set) - len(active), _AT_ONCE)
    if missing < 0:
        going = deletion_order(active, pods_by_node=pods_by_node)[: min(-missing, _AT_ONCE)]
        return [remove_pod(pod, replica_set) for pod in going]
    template = replica_set["spec"].get("template") or {}
    return [make_pod(pod_from_template(template, replica_set), replica_set) for _ in range(0 if blocked else missing)]


def count(
    replica_set: JsonObject, pods: Sequence[JsonObject], now: datetime, *, failed: str = ""
) -> tuple[JsonObject, float | None]:
    """Return the status, and the seconds until the next pod becomes available."""
    spec = replica_set["spec"]
    active = [p for p in pods if is_active(p)]
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    waits = [seconds_until_available(p, int(spec.get("minReadySeconds") or 0), now) for p in active]
    counts = {
        "fullyLabeledReplicas": sum(labels.items() <= (p["metadata"].get("labels") or {}).items() for p in active),
        "readyReplicas": sum(w is not None for w in waits),
        "availableReplicas": sum(w is not None and w <= 0 for w in waits),
        "observedGeneration": replica_set["metadata"].get("generation", 0),
        "conditions": _conditions(replica_set, len(active), now, failed),
    }
    status = {"replicas": len(active), **without_zeros(counts)}
    if replica_set["kind"] == REPLICA_SETS.kind:
        status["terminatingReplicas"] = sum(terminating(p) for p in pods)
    pending = [w for w in waits if w is not None and w > 0]
    return status, min(pending, default=None)


def _conditions(replica_set: JsonObject, active: int, now: datetime, failed: str) -> list[JsonObject]:
    """Set ``ReplicaFailure`` while pods cannot be created or deleted, and remove it afterwards."""
    conditions = conditions_of(replica_set)
    before = condition_in(conditions, "ReplicaFailure")
    missing = replicas_of(replica_set) - active
    if failed and before is None and missing:
        reason = "FailedCreate" if missing > 0 else "FailedDelete"
        new = {"type": "ReplicaFailure", "status": "True", "lastTransitionTime": stamp(now)}
        return [*conditions, {**new, "reason": reason, "message": failed}]
    return conditions if failed or before is None or missing else [c for c in conditions if c is not before]


# ------------------------------------------------------------------ shell
class ReplicaSetController(PlanningController):
    """``replicaset``: keys of ReplicaSets."""

    name = "replicaset"
    resource = REPLICA_SETS

    def plan(
        self, owner: JsonObject, pods: Sequence[JsonObject], orphans: Sequence[JsonObject], failed: str
    ) -> PodPlan:
        if len(pods) > replicas_of(owner):
            # The number of active pods on each node, for this set and others of the same owner.
            above = controller_of(owner)
            sets = [owner] if above is None else self.informers.dependents(above["uid"], self.resource.prefix)
            related = (p for s in sets for p in self.informers.dependents(s["metadata"]["uid"], PODS.prefix))
            pods_by_node = Counter(str(p["spec"].get("nodeName") or "") for p in related if is_active(p))
        else:
            pods_by_node = None
        return plan(owner, pods, orphans, self.context.now(), failed=failed, pods_by_node=pods_by_node)


class ReplicationControllerController(ReplicaSetController):
    """``replicationcontroller``: keys of ReplicationControllers."""

    name = "replicationcontroller"
    component = "replication-controller"
    resource = REPLICATION_CONTROLLERS
