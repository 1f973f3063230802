"""ReplicaSets: as many pods as are wanted, and a status that counts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from envtest.controllers.loops import Controller
from envtest.controllers.mirror import Event
from envtest.controllers.objects import (
    age_order,
    controlled_by,
    controller_of,
    deleting,
    is_active,
    is_ready,
    owner_reference,
    phase_of,
    pod_from_template,
    replicas_of,
    seconds_until_available,
    with_status,
    without_zeros,
)
from envtest.controllers.writes import PODS, REPLICA_SETS, Create, Delete, Patch, Update, Write
from envtest.kinds.workloads import selects
from opsdk.apiserver.storage.ports import Tree


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write, and in how many seconds to look again."""

    writes: Sequence[Write]
    again: float | None = None


# ------------------------------------------------------------------ core
def claim(owner: Tree, pods: Sequence[Tree], loose: Sequence[Tree]) -> tuple[list[Tree], list[Write]]:
    """The pods that count as the owner's, and the writes that take others in or let strangers go."""
    selector = owner["spec"].get("selector") or {}
    mine: list[Tree] = []
    writes: list[Write] = []
    for pod in pods:
        if not controlled_by(pod, owner):
            continue
        if selects(selector, pod["metadata"].get("labels") or {}):
            mine.append(pod)
        elif not deleting(pod):
            uid = owner["metadata"]["uid"]
            kept = [o for o in pod["metadata"]["ownerReferences"] if o.get("uid") != uid]
            writes.append(_owners(pod, kept))
    if deleting(owner):
        return mine, []
    for pod in loose:
        if is_active(pod) and selects(selector, pod["metadata"].get("labels") or {}):
            mine.append(pod)
            writes.append(_owners(pod, [owner_reference(owner)]))
    return mine, writes


def _owners(pod: Tree, owners: list[Tree]) -> Patch:
    meta = {"ownerReferences": owners or None, "resourceVersion": pod["metadata"]["resourceVersion"]}
    return Patch(PODS, pod, {"metadata": meta})


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
class ReplicaSetController(Controller):
    """``replicaset``."""

    name = "replicaset"

    def wire(self) -> None:
        """Replica sets, and the pods that belong to them or could."""
        self.hub.on(REPLICA_SETS, self.add)
        self.hub.on(PODS, self._pod)

    def _pod(self, event: Event) -> None:
        for obj in (event.old, event.new):
            owner = None if obj is None else controller_of(obj)
            if obj is not None and owner is not None and owner.get("kind") == REPLICA_SETS.kind:
                self.queue.add(REPLICA_SETS.key(obj["metadata"]["namespace"], owner["name"]))
        if event.new is not None and not event.new["metadata"].get("ownerReferences"):
            self._stray(event.new)

    def _stray(self, pod: Tree) -> None:
        labels = pod["metadata"].get("labels") or {}
        if not labels:
            return
        for owner in self.hub.in_namespace(REPLICA_SETS, pod["metadata"]["namespace"]):
            if selects(owner["spec"].get("selector") or {}, labels):
                self.queue.add(REPLICA_SETS.key(owner["metadata"]["namespace"], owner["metadata"]["name"]))

    async def reconcile(self, key: str) -> float | None:
        """See `Controller`."""
        replica_set = self.hub.get(key)
        if replica_set is None:
            return None
        meta = replica_set["metadata"]
        pods = self.hub.dependents(meta["uid"], PODS.prefix)
        made = plan(replica_set, pods, self.hub.loose(PODS, meta["namespace"]), self.kit.now())
        await self.write(made.writes)
        return made.again
