"""Nodes as far as tests meet them: pods are scheduled, run, end, and go when they are told to.

What becomes of a pod is data: `Stage` rules say which pods move from which state to which other one, and when.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envtest.controllers.loops import Controller, Kit
from envtest.controllers.mirror import Event
from envtest.controllers.objects import (
    conditions_of,
    controller_of,
    deleting,
    is_ready,
    is_true,
    phase_of,
    stamp,
    with_condition,
    with_status,
)
from envtest.controllers.stages import Stage, State
from envtest.controllers.writes import NODES, PODS, Create, Delete, Update, Write
from envtest.kinds.workload_rules import selects
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import AlreadyExistsError

NODE = "node-1"
"""The node that every simulated cluster has."""
_CAPACITY = {"cpu": "64", "memory": "256Gi", "pods": "100000", "ephemeral-storage": "1Ti"}
_ADDRESS = "192.168.0.1"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


# ------------------------------------------------------------------ core
def state_of(pod: Tree) -> State:
    """Where a pod is."""
    if deleting(pod):
        return State.TERMINATING
    match phase_of(pod):
        case "Running":
            return State.READY if is_true(conditions_of(pod), "ContainersReady") else State.RUNNING
        case "Succeeded":
            return State.SUCCEEDED
        case "Failed":
            return State.FAILED
        case _:
            return State.PENDING


def stage_for(pod: Tree, state: State, stages: Sequence[Stage]) -> Stage | None:
    """The rule that counts."""
    return next((s for s in stages if s.matches(pod, state)), None)


def schedule(pod: Tree, nodes: Sequence[Tree]) -> str | None:
    """The node for a pod, None where none fits."""
    fitting = [n["metadata"]["name"] for n in nodes if fits(pod, n)]
    if not fitting:
        return None
    # Spread without state: by the pod's uid.
    return str(sorted(fitting)[int(pod["metadata"]["uid"][:8], 16) % len(fitting)])


def fits(pod: Tree, node: Tree) -> bool:
    """Whether a pod may run on a node: labels, required affinity, and whether the node takes pods.

    Pods of daemon sets run on nodes that take no others.
    """
    spec, labels = pod["spec"], node["metadata"].get("labels") or {}
    daemon = (controller_of(pod) or {}).get("kind") == "DaemonSet"
    if deleting(node) or ((node.get("spec") or {}).get("unschedulable") and not daemon):
        return False
    if not (spec.get("nodeSelector") or {}).items() <= labels.items():
        return False
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    terms = affinity.get("nodeSelectorTerms") or ()
    own = {"metadata.name": node["metadata"]["name"]}
    return not terms or any(
        selects({"matchExpressions": t.get("matchExpressions") or []}, labels)
        and selects({"matchExpressions": t.get("matchFields") or []}, own)
        for t in terms
    )


def waits_for_scheduler(pod: Tree) -> bool:
    """Whether the scheduler should place it."""
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not deleting(pod)
        and not spec.get("schedulingGates")
        and spec.get("schedulerName", "default-scheduler") == "default-scheduler"
    )


def unschedulable(pod: Tree, nodes: int, now: str) -> Tree | None:
    """Its status where no node fits; None where it says so already."""
    text = f"0/{nodes} nodes are available: {nodes} node(s) didn't match Pod's node affinity/selector."
    new = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": text,
        "lastTransitionTime": now,
    }
    before = conditions_of(pod)
    after = with_condition(before, new)
    return None if after == before else {**(pod.get("status") or {}), "conditions": after}


def binding(pod: Tree, node: str) -> Tree:
    """What the scheduler posts."""
    meta = {k: pod["metadata"][k] for k in ("name", "namespace", "uid")}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"kind": "Binding", "apiVersion": "v1", "metadata": meta, "target": target}


def gates_passed(pod: Tree) -> bool:
    """Whether the conditions of its readiness gates are all True."""
    conditions = conditions_of(pod)
    return all(is_true(conditions, g["conditionType"]) for g in pod["spec"].get("readinessGates") or ())


def status_in(pod: Tree, state: State, *, now: str, ip: str, reason: str = "") -> Tree:
    """The status of a pod that has reached a state."""
    status = dict(pod.get("status") or {})
    up = state in (State.RUNNING, State.READY)
    ready = state is State.READY
    phase = "Running" if up else state.value
    status.update(phase=phase, hostIP=_ADDRESS, hostIPs=[{"ip": _ADDRESS}])
    status.setdefault("startTime", now)
    status.setdefault("podIP", ip)
    status.setdefault("podIPs", [{"ip": status["podIP"]}])
    conditions = conditions_of(pod)
    finished = {} if up else {"reason": "PodCompleted" if state is State.SUCCEEDED else "PodFailed"}
    for kind, holds in (
        ("PodReadyToStartContainers", up),
        ("Initialized", True),
        ("Ready", ready and gates_passed(pod)),
        ("ContainersReady", ready),
    ):
        why = {} if holds else finished or {"reason": "ContainersNotReady"}
        entry = {"type": kind, "status": str(holds), "lastProbeTime": None, "lastTransitionTime": now, **why}
        conditions = with_condition(conditions, entry)
    status["conditions"] = conditions
    containers = pod["spec"].get("containers") or ()
    status["containerStatuses"] = [_container(c, state, pod=pod, now=now, reason=reason) for c in containers]
    return status


def _container(container: Tree, state: State, *, pod: Tree, now: str, reason: str) -> Tree:
    known = {c["name"]: c for c in (pod.get("status") or {}).get("containerStatuses") or ()}
    before = known.get(container["name"]) or {}
    started = ((before.get("state") or {}).get("running") or {}).get("startedAt", now)
    up = state in (State.RUNNING, State.READY)
    current: Tree = {"running": {"startedAt": started}}
    if not up:
        failed = state is State.FAILED
        current = {
            "terminated": {
                "exitCode": int(failed),
                "reason": reason if failed else "Completed",
                "startedAt": started,
                "finishedAt": now,
            }
        }
    digest = pod["metadata"]["uid"].replace("-", "")
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": f"simulated://{container.get('image', '')}",
        "containerID": f"simulated://{digest}/{container['name']}",
        "ready": state is State.READY,
        "started": up,
        "restartCount": before.get("restartCount", 0),
        "state": current,
        "lastState": before.get("lastState") or {},
    }


def node_object() -> Tree:
    """The node as it registers itself."""
    labels = {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": NODE, "labels": labels}, "spec": {}}


def node_status(now: str) -> Tree:
    """The status of a healthy node."""
    healthy = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ]
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    conditions = [{"type": t, "status": s, "reason": r, "message": m, **times} for t, s, r, m in healthy]
    return {
        "capacity": dict(_CAPACITY),
        "allocatable": dict(_CAPACITY),
        "conditions": conditions,
        "addresses": [{"type": "InternalIP", "address": _ADDRESS}, {"type": "Hostname", "address": NODE}],
        "nodeInfo": _NODE_INFO,
    }


_NODE_INFO = {
    "machineID": "",
    "systemUUID": "",
    "bootID": "",
    "kernelVersion": "simulated",
    "osImage": "simulated",
    "containerRuntimeVersion": "simulated://1",
    "kubeletVersion": "v1.36.2",
    "kubeProxyVersion": "",
    "operatingSystem": "linux",
    "architecture": "amd64",
}


# ------------------------------------------------------------------ shell
class KubeletController(Controller):
    """``kubelet``: a scheduler and the agents of all nodes in one."""

    name = "kubelet"

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self.stages = tuple(kit.stages)
        self._addresses = 0
        # When a pod's present state was first seen: delays count from there.
        self._since: dict[str, tuple[str, State, float]] = {}

    def restored(self) -> None:
        """See `Controller`."""
        self._since.clear()

    def wire(self) -> None:
        """Pods; nodes, for those that wait for one."""
        self.hub.on(PODS, self._pod)
        self.hub.on(NODES, self._node)

    def _pod(self, event: Event) -> None:
        if event.new is None:
            self._since.pop(event.key, None)
        else:
            self.queue.add(event.key)

    def _node(self, event: Event) -> None:
        if event.new is None:
            return
        for key, pod in self.hub.all(PODS).items():
            if waits_for_scheduler(pod):
                self.queue.add(key)

    async def begin(self) -> None:
        """The node."""
        now = stamp(self.kit.now())
        try:
            node = await self.kit.kubelet.write(Create(NODES, node_object()))
        except AlreadyExistsError:
            return
        node = await self.kit.kubelet.write(Update(NODES, with_status(node, node_status(now)), "status"))
        # Admission keeps pods away from new nodes; this one is ready.
        if node["spec"].get("taints"):
            await self.kit.api.write(Update(NODES, {**node, "spec": {**node["spec"], "taints": []}}))

    def _next_ip(self) -> str:
        self._addresses = self._addresses % 65_000 + 1
        return f"10.244.{self._addresses // 250}.{self._addresses % 250 + 2}"

    async def reconcile(self, key: str) -> float | None:
        """See `Controller`."""
        pod = self.hub.get(key)
        if pod is None:
            return None
        if waits_for_scheduler(pod):
            await self._place(pod)
            return None
        if not pod["spec"].get("nodeName"):
            return None
        state = state_of(pod)
        stage = stage_for(pod, state, self.stages)
        wait = self._remaining(key, pod, state, stage.delay if stage else 0.0)
        if wait > 0:
            return wait
        if state is State.TERMINATING:
            await self._end(pod)
        elif stage is not None and stage.to is not None:
            await self._move(pod, stage.to, stage.reason)
        elif state is State.READY and is_ready(pod) != gates_passed(pod):
            await self._move(pod, state, "")
        return None

    def _remaining(self, key: str, pod: Tree, state: State, delay: float) -> float:
        now, uid = self.kit.clock.now(), pod["metadata"]["uid"]
        known = self._since.get(key)
        if known is None or known[:2] != (uid, state):
            self._since[key] = known = (uid, state, now)
        return known[2] + delay - now

    async def _place(self, pod: Tree) -> None:
        nodes = list(self.hub.all(NODES).values())
        node = schedule(pod, nodes)
        if node is not None:
            await self.kit.api.write(Create(PODS, binding(pod, node), "binding"))
            return
        status = unschedulable(pod, len(nodes), stamp(self.kit.now()))
        if status is not None:
            await self.kit.api.write(Update(PODS, with_status(pod, status), "status"))

    async def _move(self, pod: Tree, to: State, reason: str) -> None:
        status = status_in(pod, to, now=stamp(self.kit.now()), ip=self._ip_of(pod), reason=reason)
        if status != pod.get("status"):
            await self.kit.kubelet.write(Update(PODS, with_status(pod, status), "status"))

    def _ip_of(self, pod: Tree) -> str:
        known: Any = (pod.get("status") or {}).get("podIP")
        return str(known) if known else self._next_ip()

    async def _end(self, pod: Tree) -> None:
        """The containers have stopped; whoever holds the pod by a finalizer sees it finished."""
        wanted: list[Write] = []
        if phase_of(pod) not in ("Succeeded", "Failed") and pod["metadata"].get("finalizers"):
            await self._move(pod, State.SUCCEEDED, "")
            return
        if pod["metadata"].get("deletionGracePeriodSeconds") or not pod["metadata"].get("finalizers"):
            wanted.append(Delete(PODS, pod, grace=0))
        for write in wanted:
            await self.kit.kubelet.write(write)
