"""DaemonSets: run one pod on each matching node.

Upstream: pkg/controller/daemon (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from envtest.controllers import controller_history
from envtest.controllers.controller import ControllerContext
from envtest.controllers.objects import (
    age_order,
    deleting,
    is_ready,
    phase_of,
    pod_from_template,
    seconds_until_available,
    with_status,
)
from envtest.controllers.pods.control import PlanningController, PodPlan, claim, make_pod, remove_pod
from envtest.controllers.rollout import scaled_value
from envtest.controllers.scheduler import (
    NOT_READY,
    UNREACHABLE,
    UNSCHEDULABLE,
    has_untolerated_taint,
    matches_node_selector,
    taints_of,
)
from envtest.controllers.writes import (
    DAEMON_SETS,
    NODES,
    PODS,
    REVISIONS,
    CreateWrite,
    PendingEvent,
    UpdateWrite,
    Write,
)
from opsdk.aio.clock import monotonic
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.structured_merge.value import JsonObject

_GENERATION, _OF_TEMPLATE = "pod-template-generation", "deprecated.daemonset.template.generation"
_TOLERATED = (
    (NOT_READY, "NoExecute"),
    (UNREACHABLE, "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    (UNSCHEDULABLE, "NoSchedule"),
)
_OF_NETWORKS = ("node.kubernetes.io/network-unavailable", "NoSchedule")
_PAUSE, _LONGEST_PAUSE = 1.0, 900.0
"""Back-off in seconds before a failed pod of a node is replaced: the first value, doubled up to the second."""


@dataclass(frozen=True, slots=True)
class DaemonFailures:
    """The failed pods of one template on one node: their number, and the time of the last deletion."""

    template_hash: str
    times: int = 0
    last: float = 0.0

    def remaining(self, now: float) -> float:
        """Return the seconds until a failed pod is replaced."""
        if not self.times:
            return 0.0
        return self.last + min(_PAUSE * 2.0 ** min(self.times - 1, 12), _LONGEST_PAUSE) - now


@dataclass(frozen=True, slots=True)
class DaemonSetView:
    """The state of one sync.

    Attributes:
        owner: the DaemonSet.
        pods: its pods by node.
        nodes: the nodes that should run a pod.
        revisions: its ControllerRevisions.
        now: the time of the sync.
        should_continue: the nodes whose running pods may stay.
        paused: by node, the seconds until a failed pod is replaced.
    """

    owner: JsonObject
    pods: Mapping[str, Sequence[JsonObject]]
    nodes: Sequence[str]
    revisions: Sequence[JsonObject]
    now: datetime
    should_continue: frozenset[str] = frozenset()
    paused: Mapping[str, float] = field(default_factory=dict)

    @property
    def template_hash(self) -> str:
        """The hash of the current template, as in the pods' revision label."""
        return controller_history.revision_name(self.owner, self.revisions).rpartition("-")[2]

    @property
    def surge(self) -> int:
        """The number of nodes that may run two pods during an update."""
        return scaled_value(_rolling(self.owner).get("maxSurge", 0), len(self.nodes), up=True)

    @property
    def unavailable(self) -> int:
        """The number of nodes that may have no available pod during an update."""
        unavailable = scaled_value(_rolling(self.owner).get("maxUnavailable", 1), len(self.nodes), up=True)
        return unavailable if unavailable or self.surge else 1

    def current(self, pod: JsonObject) -> bool:
        """Return whether a pod has the current template."""
        return (pod["metadata"].get("labels") or {}).get(controller_history.HASH) == self.template_hash

    def wait_for(self, pod: JsonObject) -> float | None:
        """Return the seconds until the pod is available (zero or less if it is); None if it is not ready."""
        return seconds_until_available(pod, int(self.owner["spec"].get("minReadySeconds") or 0), self.now)

    def available(self, pod: JsonObject) -> bool:
        """Return whether a pod has been ready for ``minReadySeconds``."""
        wait = self.wait_for(pod)
        return wait is not None and wait <= 0

    def pod_on(self, node: str) -> JsonObject | None:
        """Return the first pod of a node."""
        return next(iter(self.pods.get(node, ())), None)


def _rolling(owner: JsonObject) -> JsonObject:
    rolling_update: JsonObject = (owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    return rolling_update


def node_of(pod: JsonObject) -> str:
    """Return the node that a pod runs on, or has to be scheduled to."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    fields = (f for t in affinity.get("nodeSelectorTerms") or () for f in t.get("matchFields") or ())
    return next((f["values"][0] for f in fields if f.get("key") == "metadata.name"), "")


def _tolerations(spec: JsonObject) -> list[JsonObject]:
    """Return the tolerations of the pod spec, and those that the controller adds to every pod."""
    tolerations: list[JsonObject] = list(spec.get("tolerations") or ())
    keys = [*_TOLERATED, *([_OF_NETWORKS] if spec.get("hostNetwork") else [])]
    own = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in keys]
    return [*(t for t in tolerations if t not in own), *own]


def node_should_run(owner: JsonObject, node: JsonObject) -> tuple[bool, bool]:
    """Return whether a node should run a pod, and whether a running pod may continue."""
    spec = owner["spec"]["template"].get("spec") or {}
    if spec.get("nodeName") not in (None, "", node["metadata"]["name"]) or not matches_node_selector(spec, node):
        return False, False
    standing = {"tolerations": _tolerations(spec)}
    if not has_untolerated_taint(standing, taints_of(node)):
        return True, True
    return False, not has_untolerated_taint(standing, taints_of(node), ("NoExecute",))


# ------------------------------------------------------------------ core
def plan(view: DaemonSetView) -> PodPlan:
    """Return the writes of one sync of a DaemonSet."""
    if deleting(view.owner):
        return PodPlan([])
    waits = [w for node_pods in view.pods.values() for p in node_pods if (w := view.wait_for(p)) is not None and w > 0]
    waits.extend(w for w in view.paused.values() if w > 0)
    revisions = controller_history.record_revision(view.owner, view.revisions)
    # Pods have the hash of a revision, so it is created first.
    writes: list[Write | PendingEvent] = [
        *revisions,
        *(
            _manage(view)
            or (
                _roll(view)
                if bool(
                    (view.owner["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate"
                )
                else []
            )
        ),
    ]
    status = count(view)
    if status != (view.owner.get("status") or {}):
        writes.append(UpdateWrite(DAEMON_SETS, with_status(view.owner, status), "status"))
    hashes = {
        (p["metadata"].get("labels") or {}).get(controller_history.HASH, "") for f in view.pods.values() for p in f
    }
    used = {f"{view.owner['metadata']['name']}-{h}" for h in (*hashes, view.template_hash)}
    writes.extend(controller_history.truncate_history(view.owner, view.revisions, used))
    return PodPlan(writes, min(waits, default=None))


def _manage(view: DaemonSetView) -> list[Write | PendingEvent]:
    """Create missing pods; delete those on excluded nodes, duplicates and finished ones."""
    empty = (n for n in view.nodes if not view.pods.get(n))
    writes: list[Write | PendingEvent] = [make_pod(_new(view, n), view.owner) for n in empty]
    for node, node_pods in view.pods.items():
        live = [p for p in node_pods if not deleting(p)]
        if node in view.nodes or node in view.should_continue:
            removals: list[Write | PendingEvent] = []
            running: list[JsonObject] = []
            for pod in live:
                phase, meta = phase_of(pod), pod["metadata"]
                where = f"daemon pod {meta['namespace']}/{meta['name']} on node {node}"
                if phase == "Failed" and view.paused.get(node, 0.0) <= 0:
                    text = f"Found failed {where}, will try to kill it"
                    removals.extend(
                        [PendingEvent(view.owner, "FailedDaemonPod", text, warning=True), remove_pod(pod, view.owner)]
                    )
                elif phase == "Succeeded":
                    text = f"Found succeeded {where}, will try to delete it"
                    removals.extend([PendingEvent(view.owner, "SucceededDaemonPod", text), remove_pod(pod, view.owner)])
                elif phase != "Failed":
                    running.append(pod)
            surplus = running[1:] if not view.surge else _beyond_surge(view, running)
            writes.extend([*removals, *(remove_pod(p, view.owner) for p in surplus)])
        else:
            writes.extend(remove_pod(p, view.owner) for p in live)
    return writes


def _beyond_surge(view: DaemonSetView, running: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the surplus pods: one new and one old pod may run until the new one is available."""
    new = [p for p in running if view.current(p)]
    old = [p for p in running if not view.current(p)]
    going = [*new[1:], *old[1:]]
    if new and old and (not is_ready(old[0]) or view.available(new[0])):
        going.append(old[0])
    return going


def _new(view: DaemonSetView, node: str) -> JsonObject:
    """Return a new pod of a DaemonSet for one node."""
    pod = pod_from_template(view.owner["spec"]["template"], view.owner)
    hash_label = (view.owner["metadata"].get("annotations") or {}).get(_OF_TEMPLATE)
    own = {controller_history.HASH: view.template_hash, **({_GENERATION: hash_label} if hash_label else {})}
    pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **own}
    pod["spec"]["tolerations"] = _tolerations(pod["spec"])
    # The default scheduler binds the pod: the node name is required in every node selector term.
    spec = pod["spec"]
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    required: JsonObject = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    before: Sequence[JsonObject] = required.get("nodeSelectorTerms") or ({},)
    terms = [{**t, "matchFields": fields} for t in before]
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    return pod


def _pair(view: DaemonSetView, pods: Sequence[JsonObject]) -> tuple[JsonObject | None, JsonObject | None] | None:
    """Return the new and the old pod of a node; None while a pod terminates or a duplicate exists."""
    new = [p for p in pods if view.current(p)]
    old = [p for p in pods if not view.current(p)]
    if any(deleting(p) for p in pods) or len(new) > 1 or len(old) > 1:
        return None
    return next(iter(new), None), next(iter(old), None)


def _roll(view: DaemonSetView) -> list[Write]:
    """Return the writes of a rolling update: delete old pods, or with surge create new ones next to them."""
    pairs = [(node, _pair(view, node_pods)) for node, node_pods in view.pods.items() if node_pods]
    return _surge(view, pairs) if view.surge else _replace(view, pairs)


Pairs = Sequence[tuple[str, tuple[JsonObject | None, JsonObject | None] | None]]


def _replace(view: DaemonSetView, pairs: Pairs) -> list[Write]:
    """Delete all unavailable old pods, and available ones within maxUnavailable."""
    missing, broken, working = 0, list[JsonObject](), list[JsonObject]()
    for _, pair in pairs:
        new, old = pair or (None, None)
        if old is None or new is not None:
            missing += new is None or old is not None or not view.available(new)
        else:
            (working if view.available(old) else broken).append(old)
    return [remove_pod(p, view.owner) for p in (*broken, *working[: max(view.unavailable - missing, 0)])]


def _surge(view: DaemonSetView, pairs: Pairs) -> list[Write]:
    """Create new pods next to available old ones within maxSurge; delete unavailable old pods first."""
    taken, broken, working, going = 0, list[str](), list[str](), list[JsonObject]()
    for node, pair in pairs:
        new, old = pair or (None, None)
        if pair is None:
            taken += 1
        elif old is not None and new is None:
            (working if view.available(old) else broken).append(node)
        elif old is not None and new is not None:
            if view.available(new):
                going.append(old)
            else:
                taken += 1
    fresh = [n for n in (*broken, *working[: max(view.surge - taken, 0)]) if n in view.nodes]
    return [*(remove_pod(p, view.owner) for p in going), *(make_pod(_new(view, n), view.owner) for n in fresh)]


def count(view: DaemonSetView) -> JsonObject:
    """Return the status."""
    pods = [p for node in view.nodes if (p := view.pod_on(node)) is not None]
    available = sum(view.available(p) for p in pods)
    status = {
        "observedGeneration": view.owner["metadata"].get("generation", 0),
        "updatedNumberScheduled": sum(view.current(p) for p in pods),
        "numberAvailable": available,
        "numberUnavailable": len(view.nodes) - available,
    }
    return {
        "currentNumberScheduled": len(pods),
        "numberMisscheduled": sum(bool(node_pods) for node, node_pods in view.pods.items() if node not in view.nodes),
        "desiredNumberScheduled": len(view.nodes),
        "numberReady": sum(view.wait_for(p) is not None for p in pods),
        **{k: v for k, v in status.items() if v},
    }


def _scheduling_state(node: JsonObject | None) -> tuple[JsonObject, Sequence[JsonObject]] | None:
    """Return what decides whether daemons run on a node: its labels and taints."""
    return None if node is None else (node["metadata"].get("labels") or {}, taints_of(node))


# ------------------------------------------------------------------ shell
class DaemonSetController(PlanningController):
    """``daemonset``: keys of DaemonSets."""

    name = "daemonset"
    resource = DAEMON_SETS

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._failures: dict[str, dict[str, DaemonFailures]] = {}
        """The failed pods of each DaemonSet, by its uid and by node."""

    def restored(self) -> None:
        self._failures.clear()

    def add_event_handlers(self) -> None:
        """Watch DaemonSets, pods and nodes."""
        super().add_event_handlers()
        self.informers.add_event_handler(DAEMON_SETS, self._daemon_set)
        self.informers.add_event_handler(NODES, self._node)

    def _daemon_set(self, change: StorageChange) -> None:
        if change.current is None:
            self._failures.pop(change.latest["metadata"]["uid"], None)

    def _node(self, change: StorageChange) -> None:
        if _scheduling_state(change.previous) != _scheduling_state(change.current):
            for key in self.informers.all(DAEMON_SETS):
                self.queue.add(key)

    def plan(
        self, owner: JsonObject, pods: Sequence[JsonObject], orphans: Sequence[JsonObject], failed: str
    ) -> PodPlan:
        claimed, moves = claim(owner, pods, orphans)
        by_node: dict[str, list[JsonObject]] = {}
        for pod in sorted(claimed, key=age_order):
            by_node.setdefault(node_of(pod), []).append(pod)
        suited = {n["metadata"]["name"]: node_should_run(owner, n) for n in self.informers.all(NODES).values()}
        revisions = self.informers.dependents(owner["metadata"]["uid"], REVISIONS.prefix)
        nodes = [n for n, (should_run, _) in suited.items() if should_run]
        view = DaemonSetView(
            owner, by_node, nodes, revisions, self.context.now(), frozenset(n for n, (_, may) in suited.items() if may)
        )
        result = plan(replace(view, paused=self._pauses(view)))
        without = [w for w in result.writes if not failed or not isinstance(w, CreateWrite) or w.resource != PODS]
        return PodPlan([*moves, *without], result.requeue_after)

    def _pauses(self, view: DaemonSetView) -> dict[str, float]:
        """Return the seconds for which failed pods stay, by node. A failure without a pause is counted."""
        uid, now = view.owner["metadata"]["uid"], monotonic()
        nodes = {*view.nodes, *view.pods}
        failures = {node: failed for node, failed in self._failures.pop(uid, {}).items() if node in nodes}
        pauses: dict[str, float] = {}
        for node, pods in view.pods.items():
            if not any(phase_of(p) == "Failed" and not deleting(p) for p in pods):
                continue
            failed = failures.get(node)
            if failed is None or failed.template_hash != view.template_hash:
                failed = DaemonFailures(view.template_hash)
            pauses[node] = failed.remaining(now)
            if pauses[node] <= 0:
                failures[node] = DaemonFailures(view.template_hash, failed.times + 1, now)
        if failures:
            self._failures[uid] = failures
        return pauses
