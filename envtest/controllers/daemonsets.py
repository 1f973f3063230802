"""DaemonSets: one pod on each node that fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from envtest.controllers import revisions
from envtest.controllers.mirror import Event
from envtest.controllers.objects import (
    age_order,
    deleting,
    phase_of,
    pod_from_template,
    seconds_until_available,
    with_status,
)
from envtest.controllers.pod_owner import Plan, PlanningController, claim
from envtest.controllers.rollout import scaled
from envtest.controllers.writes import DAEMON_SETS, NODES, PODS, REVISIONS, Create, Delete, Update, Write
from opsdk.apiserver.storage.ports import Tree

_GENERATION = "pod-template-generation"


@dataclass(frozen=True, slots=True)
class View:
    """What a decision is made of: the set, its pods by node, the nodes that fit, its revisions."""

    owner: Tree
    pods: Mapping[str, Sequence[Tree]]
    nodes: Sequence[str]
    revisions: Sequence[Tree]
    now: datetime

    @property
    def digest(self) -> str:
        """The revision of the present template, as its pods carry it."""
        return revisions.name_for(self.owner).rpartition("-")[2]

    def current(self, pod: Tree) -> bool:
        """Whether a pod is of the present template."""
        return (pod["metadata"].get("labels") or {}).get(revisions.HASH) == self.digest

    def wait_for(self, pod: Tree) -> float | None:
        """Zero or less for an available pod, None for one that is not ready."""
        return seconds_until_available(pod, int(self.owner["spec"].get("minReadySeconds") or 0), self.now)

    def available(self, pod: Tree) -> bool:
        """Ready for long enough."""
        wait = self.wait_for(pod)
        return wait is not None and wait <= 0 and not deleting(pod)

    def on(self, node: str) -> Tree | None:
        """The pod of a node that counts."""
        return next(iter(self.pods.get(node, ())), None)


def node_of(pod: Tree) -> str:
    """The node that a pod is on, or is meant for."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    fields = (f for t in affinity.get("nodeSelectorTerms") or () for f in t.get("matchFields") or ())
    return next((f["values"][0] for f in fields if f.get("key") == "metadata.name"), "")


def fits(owner: Tree, node: Tree) -> bool:
    """Whether a node gets a pod."""
    wanted = (owner["spec"]["template"].get("spec") or {}).get("nodeSelector") or {}
    return bool(wanted.items() <= (node["metadata"].get("labels") or {}).items()) and not deleting(node)


# ------------------------------------------------------------------ core
def plan(view: View) -> Plan:
    """One step of a daemon set."""
    if deleting(view.owner):
        return Plan([])
    writes = revisions.keep(view.owner, view.revisions)
    writes.extend([*_tidy(view), *_fill(view), *_roll(view)])
    status = count(view)
    if status != (view.owner.get("status") or {}):
        writes.append(Update(DAEMON_SETS, with_status(view.owner, status), "status"))
    pods = [p for found in view.pods.values() for p in found]
    hashes = {(p["metadata"].get("labels") or {}).get(revisions.HASH, "") for p in pods}
    used = {f"{view.owner['metadata']['name']}-{h}" for h in (*hashes, view.digest)}
    writes.extend(revisions.surplus(view.owner, view.revisions, used))
    waits = [w for p in pods if (w := view.wait_for(p)) is not None and w > 0]
    return Plan(writes, min(waits, default=None))


def _tidy(view: View) -> list[Write]:
    """No pods where none belong, no second ones, no finished ones."""
    going = [p for node, found in view.pods.items() if node not in view.nodes for p in found]
    for node in view.nodes:
        found = view.pods.get(node, ())
        going.extend(found[1:])
        going.extend(p for p in found[:1] if phase_of(p) in ("Succeeded", "Failed"))
    return [Delete(PODS, p) for p in going if not deleting(p)]


def _fill(view: View) -> list[Write]:
    return [Create(PODS, _new(view, node)) for node in view.nodes if not view.pods.get(node)]


def _new(view: View, node: str) -> Tree:
    pod = pod_from_template(view.owner["spec"]["template"], view.owner)
    own = {revisions.HASH: view.digest, _GENERATION: str(view.owner["metadata"].get("generation", 1))}
    pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **own}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pod


def _roll(view: View) -> list[Write]:
    """Old pods go, as many at once as may be missing; those that do not work anyway go at once."""
    strategy = view.owner["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return []
    allowed = max(scaled((strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1), len(view.nodes), up=True), 1)
    pods = [p for node in view.nodes if (p := view.on(node)) is not None]
    missing = len(view.nodes) - sum(view.available(p) for p in pods)
    old = [p for p in pods if not view.current(p) and not deleting(p)]
    broken = [p for p in old if not view.available(p)]
    working = [p for p in old if view.available(p)]
    return [Delete(PODS, p) for p in (*broken, *working[: max(allowed - missing, 0)])]


def count(view: View) -> Tree:
    """The status."""
    pods = [p for node in view.nodes if (p := view.on(node)) is not None]
    available = sum(view.available(p) for p in pods)
    made = {
        "observedGeneration": view.owner["metadata"].get("generation", 0),
        "updatedNumberScheduled": sum(view.current(p) and not deleting(p) for p in pods),
        "numberAvailable": available,
        "numberUnavailable": len(view.nodes) - available,
    }
    return {
        "currentNumberScheduled": len(pods),
        "numberMisscheduled": sum(bool(found) for node, found in view.pods.items() if node not in view.nodes),
        "desiredNumberScheduled": len(view.nodes),
        "numberReady": sum(view.wait_for(p) is not None for p in pods),
        **{k: v for k, v in made.items() if v},
    }


# ------------------------------------------------------------------ shell
class DaemonSetController(PlanningController):
    """``daemonset``."""

    name = "daemonset"
    resource = DAEMON_SETS

    def wire(self) -> None:
        """Nodes too."""
        super().wire()
        self.hub.on(NODES, self._node)

    def _node(self, event: Event) -> None:
        labels = [None if o is None else o["metadata"].get("labels") for o in (event.old, event.new)]
        if event.old is None or event.new is None or labels[0] != labels[1]:
            for key in self.hub.all(DAEMON_SETS):
                self.queue.add(key)

    def plan(self, owner: Tree, pods: Sequence[Tree], loose: Sequence[Tree], failed: str) -> Plan:  # noqa: ARG002
        """See `PlanningController`."""
        mine, moves = claim(owner, pods, loose)
        by_node: dict[str, list[Tree]] = {}
        for pod in sorted(mine, key=age_order):
            by_node.setdefault(node_of(pod), []).append(pod)
        nodes = [n["metadata"]["name"] for n in self.hub.all(NODES).values() if fits(owner, n)]
        kept = self.hub.dependents(owner["metadata"]["uid"], REVISIONS.prefix)
        made = plan(View(owner, by_node, nodes, kept, self.kit.now()))
        return Plan([*moves, *made.writes], made.again)
