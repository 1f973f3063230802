"""StatefulSets: pods with names that stay, made in order, replaced from the last to the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from envtest.controllers import revisions
from envtest.controllers.mirror import Event
from envtest.controllers.objects import (
    deleting,
    owner_reference,
    phase_of,
    pod_from_template,
    replicas_of,
    seconds_until_available,
    with_status,
    without_zeros,
)
from envtest.controllers.pod_owner import Plan, PlanningController, claim
from envtest.controllers.writes import CLAIMS, PODS, REVISIONS, STATEFUL_SETS, Create, Delete, Update, Write
from opsdk.apiserver.storage.ports import Tree
from opsdk.apiserver.tree_copy import copy_tree

_NAME, _INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"


@dataclass(frozen=True, slots=True)
class View:
    """What a decision is made of: the set, its pods by ordinal, its revisions, and the claims that are there."""

    owner: Tree
    pods: Mapping[int, Tree]
    revisions: Sequence[Tree]
    claims: frozenset[str]
    now: datetime

    @property
    def update(self) -> str:
        """The revision of the present template."""
        return revisions.name_for(self.owner)

    @property
    def current(self) -> str:
        """The revision that pods have until the rollout reaches them."""
        found = str((self.owner.get("status") or {}).get("currentRevision", ""))
        return found if any(r["metadata"]["name"] == found for r in self.revisions) else self.update

    @property
    def ordinals(self) -> range:
        """Those that are wanted."""
        start = (self.owner["spec"].get("ordinals") or {}).get("start", 0)
        return range(start, start + replicas_of(self.owner))

    @property
    def ordered(self) -> bool:
        """One after another, rather than all at once."""
        return bool(self.owner["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady")

    @property
    def partition(self) -> int | None:
        """The first ordinal that is updated; None where pods are only replaced when somebody deletes them."""
        strategy = self.owner["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return None
        return int((strategy.get("rollingUpdate") or {}).get("partition") or 0)

    def wait_for(self, pod: Tree) -> float | None:
        """Zero or less for an available pod, None for one that is not ready."""
        return seconds_until_available(pod, int(self.owner["spec"].get("minReadySeconds") or 0), self.now)


def ordinal_of(pod: Tree) -> int:
    """The number at the end of its name; -1 where there is none."""
    _, _, number = pod["metadata"]["name"].rpartition("-")
    return int(number) if number.isdigit() else -1


def revision_of(pod: Tree) -> str:
    """The revision that it was made from."""
    return str((pod["metadata"].get("labels") or {}).get(revisions.HASH, ""))


def healthy(view: View, pod: Tree) -> bool:
    """Available, and not on its way out."""
    wait = view.wait_for(pod)
    return not deleting(pod) and wait is not None and wait <= 0


# ------------------------------------------------------------------ core
def plan(view: View) -> Plan:
    """One step of a stateful set."""
    if deleting(view.owner):
        return Plan([])
    writes = revisions.keep(view.owner, view.revisions)
    writes.extend(_fill(view) or _shrink(view) or _roll(view))
    status = count(view)
    if status != (view.owner.get("status") or {}):
        writes.append(Update(STATEFUL_SETS, with_status(view.owner, status), "status"))
    used = {view.update, view.current, *(revision_of(p) for p in view.pods.values())}
    writes.extend(revisions.surplus(view.owner, view.revisions, used))
    waits = [w for p in view.pods.values() if (w := view.wait_for(p)) is not None and w > 0]
    return Plan(writes, min(waits, default=None))


def _blocked(view: View) -> bool:
    """Whether an ordered set has a wanted pod that is missing or not well."""
    return view.ordered and any(n not in view.pods or not healthy(view, view.pods[n]) for n in view.ordinals)


def _fill(view: View) -> list[Write]:
    """Make what is missing; an ordered set waits for each pod before the next."""
    writes: list[Write] = []
    for ordinal in view.ordinals:
        pod = view.pods.get(ordinal)
        if pod is None:
            writes.extend(_new(view, ordinal))
        elif phase_of(pod) in ("Succeeded", "Failed") and not deleting(pod):
            writes.append(Delete(PODS, pod))
        elif healthy(view, pod):
            continue
        if view.ordered:
            return writes
    return writes


def _shrink(view: View) -> list[Write]:
    """Delete what is not wanted, the highest first; an ordered set one at a time, while all others are well."""
    condemned = sorted((n for n in view.pods if n not in view.ordinals), reverse=True)
    if view.ordered:
        if any(deleting(view.pods[n]) for n in condemned) or _blocked(view):
            return []
        condemned = condemned[:1]
    return [Delete(PODS, view.pods[n]) for n in condemned if not deleting(view.pods[n])]


def _roll(view: View) -> list[Write]:
    """Delete the last pod of another revision; it comes back as a new one."""
    partition = view.partition
    if partition is None:
        return []
    for ordinal in reversed(view.ordinals):
        pod = view.pods.get(ordinal)
        if pod is None or ordinal < partition:
            return []
        if revision_of(pod) != view.update and not deleting(pod):
            return [Delete(PODS, pod)]
        if not healthy(view, pod):
            return []
    return []


def _new(view: View, ordinal: int) -> list[Write]:
    """A pod, and the claims that it needs."""
    owner, spec = view.owner, view.owner["spec"]
    revision = view.update if view.partition is None or ordinal >= view.partition else view.current
    kept = next((r for r in view.revisions if r["metadata"]["name"] == revision), None)
    template = spec["template"] if kept is None or revision == view.update else revisions.template_of(kept)
    name = f"{owner['metadata']['name']}-{ordinal}"
    pod = pod_from_template(template, owner, name=name)
    own = {_NAME: name, _INDEX: str(ordinal), revisions.HASH: revision}
    pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **own}
    pod["spec"].setdefault("hostname", name)
    if spec.get("serviceName"):
        pod["spec"].setdefault("subdomain", spec["serviceName"])
    writes: list[Write] = []
    volumes = [v for v in pod["spec"].get("volumes") or () if v["name"] not in _claim_names(spec)]
    for claim_template in spec.get("volumeClaimTemplates") or ():
        claim_name = f"{claim_template['metadata']['name']}-{name}"
        source = {"name": claim_template["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim_name}}
        volumes.append(source)
        if claim_name not in view.claims:
            writes.append(Create(CLAIMS, _claim(owner, claim_template, claim_name)))
    if volumes:
        pod["spec"]["volumes"] = volumes
    return [*writes, Create(PODS, pod)]


def _claim_names(spec: Tree) -> set[str]:
    return {c["metadata"]["name"] for c in spec.get("volumeClaimTemplates") or ()}


def _claim(owner: Tree, template: Tree, name: str) -> Tree:
    labels = (owner["spec"].get("selector") or {}).get("matchLabels") or {}
    meta: Tree = {**copy_tree(template["metadata"]), "name": name, "namespace": owner["metadata"]["namespace"]}
    meta["labels"] = {**(meta.get("labels") or {}), **labels}
    policy = owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    if policy.get("whenDeleted") == "Delete":
        meta["ownerReferences"] = [owner_reference(owner)]
    spec: Tree = copy_tree(template["spec"])
    return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": meta, "spec": spec}


def count(view: View) -> Tree:
    """The status."""
    before = view.owner.get("status") or {}
    pods = [p for p in view.pods.values() if phase_of(p) not in ("Succeeded", "Failed")]
    live = [p for p in pods if not deleting(p)]
    waits = [view.wait_for(p) for p in live]
    current, update = before.get("currentRevision") or view.update, view.update
    updated = sum(revision_of(p) == update for p in live)
    ready = sum(w is not None for w in waits)
    if updated == ready == len(pods) == replicas_of(view.owner):
        current = update
    return {
        "observedGeneration": view.owner["metadata"].get("generation", 0),
        "replicas": len(pods),
        **without_zeros(
            {
                "readyReplicas": ready,
                "currentReplicas": sum(revision_of(p) == current for p in live),
                "updatedReplicas": updated,
            }
        ),
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": 0,
        "availableReplicas": sum(w is not None and w <= 0 for w in waits),
    }


# ------------------------------------------------------------------ shell
class StatefulSetController(PlanningController):
    """``statefulset``."""

    name = "statefulset"
    resource = STATEFUL_SETS

    def wire(self) -> None:
        """Revisions too: a deleted one comes back."""
        super().wire()
        self.hub.on(REVISIONS, self._revision)

    def _revision(self, event: Event) -> None:
        for ref in event.obj["metadata"].get("ownerReferences") or ():
            if ref.get("kind") == self.resource.kind and event.new is None:
                self.queue.add(self.resource.key(event.obj["metadata"]["namespace"], ref["name"]))

    def plan(self, owner: Tree, pods: Sequence[Tree], loose: Sequence[Tree], failed: str) -> Plan:  # noqa: ARG002
        """See `PlanningController`."""
        mine, moves = claim(owner, pods, [p for p in loose if self._named(owner, p)])
        meta = owner["metadata"]
        kept = self.hub.dependents(meta["uid"], REVISIONS.prefix)
        wants = bool(owner["spec"].get("volumeClaimTemplates"))
        claims = self.hub.in_namespace(CLAIMS, meta["namespace"]) if wants else ()
        there = frozenset(c["metadata"]["name"] for c in claims)
        made = plan(View(owner, {ordinal_of(p): p for p in mine}, kept, there, self.kit.now()))
        return Plan([*moves, *made.writes], made.again)

    @staticmethod
    def _named(owner: Tree, pod: Tree) -> bool:
        base, _, _ = pod["metadata"]["name"].rpartition("-")
        return bool(base == owner["metadata"]["name"]) and ordinal_of(pod) >= 0
