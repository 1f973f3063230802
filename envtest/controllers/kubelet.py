"""Simulated kubelet: moves scheduled pods through their phases and deletes terminated pods.

The lifecycle of pods is data: see `envtest.controllers.stages`.

Upstream: pkg/kubelet (v1.36)
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict

from envtest.controllers.controller import ControllerContext, SimulatedController
from envtest.controllers.event_recorder import Recorder
from envtest.controllers.objects import (
    condition_in,
    conditions_of,
    is_true,
    phase_of,
    stamp,
    with_status,
)
from envtest.controllers.persistent_volume_binder import claims_of, unbound_message
from envtest.controllers.pods.status import (
    PodTransition,
    final_state,
    has_started,
    needs_refresh,
    restart_backoff,
    resulting_state,
    state_of,
    status_in,
)
from envtest.controllers.scheduler import (
    NOT_READY,
    Placement,
    binding,
    pod_requests,
    schedule,
    unschedulable,
    waits_for_scheduler,
)
from envtest.controllers.stages import Stage, State, stage_for
from envtest.controllers.writes import (
    CLAIMS,
    NODES,
    PODS,
    STORAGE_CLASSES,
    CreateWrite,
    DeleteWrite,
    PendingEvent,
    UpdateWrite,
)
from opsdk.aio.clock import monotonic
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.errors import AlreadyExistsError
from opsdk.structured_merge.value import JsonObject

NODE = "node-1"
"""The node that every simulated cluster has."""
_CAPACITY = {"cpu": "64", "memory": "256Gi", "pods": "100000", "ephemeral-storage": "1Ti"}
_ADDRESS = "192.168.0.1"


# ------------------------------------------------------------------ core
def labels_of_node(name: str) -> dict[str, str]:
    """Return the standard labels of a node."""
    return {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}


def node_object() -> JsonObject:
    """Return the Node as the kubelet registers it."""
    meta = {"name": NODE, "labels": labels_of_node(NODE)}
    return {"kind": "Node", "apiVersion": "v1", "metadata": meta, "spec": {}}


def with_registration(node: JsonObject) -> JsonObject | None:
    """Return the node after its kubelet started; None if nothing changes."""
    meta, spec = node["metadata"], node.get("spec") or {}
    labels = {**labels_of_node(meta["name"]), **(meta.get("labels") or {})}
    ready = is_true(conditions_of(node), "Ready")
    taints = [t for t in spec.get("taints") or () if not (ready and t.get("key") == NOT_READY)]
    if labels == meta.get("labels") and len(taints) == len(spec.get("taints") or ()):
        return None
    return {**node, "metadata": {**meta, "labels": labels}, "spec": {**spec, "taints": taints}}


def is_alive(node: JsonObject | None) -> bool:
    """Return whether the kubelet of a node runs."""
    ready = None if node is None else condition_in(conditions_of(node), "Ready")
    return ready is None or ready.get("status") != "Unknown"


def is_healthy(node: JsonObject | None) -> bool:
    """Return whether the kubelet starts pods and finds them ready."""
    ready = None if node is None else condition_in(conditions_of(node), "Ready")
    return ready is None or ready.get("status") == "True"


def internal_ip(node: JsonObject | None) -> str:
    """Return the internal IP of a node."""
    addresses = ((node or {}).get("status") or {}).get("addresses") or ()
    return next((str(a["address"]) for a in addresses if a.get("type") == "InternalIP"), _ADDRESS)


def node_status(node: JsonObject, address: str, now: str, version: str) -> JsonObject:
    """Return the status of a healthy node; conditions that it has stay."""
    healthy = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ]
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    current_conditions = conditions_of(node)
    conditions = [{"type": t, "status": s, "reason": r, "message": m, **times} for t, s, r, m in healthy]
    name = node["metadata"]["name"]
    status: JsonObject = {
        "capacity": dict(_CAPACITY),
        "allocatable": dict(_CAPACITY),
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "nodeInfo": {**_NODE_INFO, "kubeletVersion": version},
        "declaredFeatures": list(_FEATURES),
    }
    current = node.get("status") or {}
    preserved = {k: v for k, v in current.items() if v and (k != "nodeInfo" or any(v.values()))}
    more = [c for c in conditions if condition_in(current_conditions, str(c["type"])) is None]
    return {**status, **preserved, "conditions": [*current_conditions, *more]}


_FEATURES = ("InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers")
_NODE_INFO = {
    "machineID": "",
    "systemUUID": "",
    "bootID": "",
    "kernelVersion": "simulated",
    "osImage": "simulated",
    "containerRuntimeVersion": "simulated://1",
    "kubeletVersion": "",
    "kubeProxyVersion": "",
    "operatingSystem": "linux",
    "architecture": "amd64",
}


# ------------------------------------------------------------------ shell
class KubeletController(SimulatedController):
    """``kubelet``: simulates the scheduler and the kubelets of all nodes."""

    name = "kubelet"
    component = "kubelet"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.stages = tuple(context.stages)
        self.scheduler = Recorder(context.api, "default-scheduler", enabled=context.records_events)
        self.events = Recorder(context.kubelet, "kubelet", host=NODE, enabled=context.records_events)
        self._addresses = 0
        self._hosts = 0
        self._used: Counter[int] = Counter()
        # The state of each pod and when it was first seen: delays count from that time.
        self._since: dict[str, tuple[str, State, float]] = {}

    def restored(self) -> None:
        self._since.clear()
        self._used.clear()

    def add_event_handlers(self) -> None:
        """Watch pods and nodes."""
        self.informers.add_event_handler(PODS, self._pod)
        self.informers.add_event_handler(NODES, self._node)
        self.informers.add_event_handler(CLAIMS, lambda _: self._reschedule())

    def _pod(self, change: StorageChange) -> None:
        if change.current is None:
            self._since.pop(change.key, None)
        else:
            self.queue.add(change.key)
        freed = change.current is None or phase_of(change.current) in ("Succeeded", "Failed")
        before = change.previous
        if freed and before is not None and before["spec"].get("nodeName") and pod_requests(before):
            self._reschedule()

    def _node(self, change: StorageChange) -> None:
        self.queue.add(change.key)
        if change.current is None:
            return
        self._reschedule()
        if change.previous is not None and conditions_of(change.previous) != conditions_of(change.current):
            self.add_pods_of_node(change.current["metadata"]["name"])

    def _reschedule(self) -> None:
        for key in self.informers.pod_keys_of_node(""):
            pod = self.informers.get(key)
            if pod is not None and waits_for_scheduler(pod):
                self.queue.add(key)

    async def create_initial_objects(self) -> None:
        """Create the first node."""
        try:
            await self.context.kubelet.write(CreateWrite(NODES, node_object()))
        except AlreadyExistsError:
            return
        await self._register(NODES.key("", NODE))

    async def _register(self, key: str) -> None:
        """Write the first status of a node, which then accepts pods."""
        node = self.informers.get(key)
        if node is None:
            return
        if condition_in(conditions_of(node), "Ready") is None:
            self._hosts = self._hosts % 250 + 1
            status = node_status(node, f"192.168.0.{self._hosts}", stamp(self.context.now()), self.context.git_version)
            node = await self.context.kubelet.write(UpdateWrite(NODES, with_status(node, status), "status"))
            desired = with_registration(node)
            if desired is not None:
                await self.context.api.write(UpdateWrite(NODES, desired))

    def _next_ip(self) -> str:
        self._addresses = self._addresses % 65_000 + 1
        return f"10.244.{self._addresses // 250}.{self._addresses % 250 + 2}"

    # -------------------------------------------------------------- one pod
    async def reconcile(self, key: str) -> float | None:
        if key.startswith(NODES.prefix):
            await self._register(key)
            return None
        pod = self.informers.get(key)
        if pod is None:
            return None
        if waits_for_scheduler(pod):
            await self._place(pod)
            return None
        node = self.informers.get(NODES.key("", pod["spec"].get("nodeName") or ""))
        if not pod["spec"].get("nodeName") or not is_alive(node):
            return None
        state = state_of(pod)
        if state is State.TERMINATING:
            return await self._end(key, pod)
        return await self._live(key, pod, state) if is_healthy(node) else None

    async def _live(self, key: str, pod: JsonObject, state: State) -> float | None:
        """Move a pod to its next state if it is due. Return the seconds until then."""
        number = stage_for(pod, state, self.stages, self._used)
        stage = None if number is None else self.stages[number].for_pod(pod)
        if stage is None and state is State.CRASHED:
            # Restarted containers use the rule of their first start.
            first_number = stage_for(pod, State.PENDING, self.stages, self._used)
            first = None if first_number is None else self.stages[first_number].to
            to = first if first in (State.RUNNING, State.READY) else State.RUNNING
            stage = Stage(at=State.CRASHED, to=to, delay=restart_backoff(pod))
        wait = self._remaining(key, pod, state, stage.delay if stage else 0.0)
        if stage is not None and stage.to is not None and wait <= 0:
            if number is not None:
                self._used[number] += 1
            await self._move(pod, stage)
        elif state is State.PENDING and not (pod.get("status") or {}).get("startTime"):
            await self._write_status(
                pod, PodTransition(to=State.PENDING, now=stamp(self.context.now()), host=self._host(pod))
            )
        elif state is State.READY and needs_refresh(pod):
            await self._write_status(pod, self._transition_to(pod, State.READY))
        return wait if stage is not None and 0 < wait < math.inf else None

    def _remaining(self, key: str, pod: JsonObject, state: State, delay: float) -> float:
        now, uid = monotonic(), pod["metadata"]["uid"]
        entry = self._since.get(key)
        if entry is None or entry[:2] != (uid, state):
            self._since[key] = entry = (uid, state, now)
        return entry[2] + delay - now

    async def _place(self, pod: JsonObject) -> None:
        """Bind a pod to a node, or write why it is unschedulable."""
        nodes = list(self.informers.all(NODES).values())
        meta = pod["metadata"]
        placement = schedule(pod, nodes, self._by_node() if pod_requests(pod) else None)
        # The reason why claims keep the pod unscheduled.
        names, namespace = claims_of(pod), pod["metadata"]["namespace"]
        claims = {n: c for n in names if (c := self.informers.get(CLAIMS.key(namespace, n))) is not None}
        kinds = {k["metadata"]["name"]: k for k in self.informers.all(STORAGE_CLASSES).values()} if names else {}
        reason = unbound_message(pod, claims, kinds)
        if reason:
            placement = Placement(
                message=f"0/{len(nodes)} nodes are available: {reason}. preemption: 0/{len(nodes)} nodes are"
                f" available: {len(nodes)} Preemption is not helpful for scheduling."
            )
        if placement.node:
            await self.context.api.write(CreateWrite(PODS, binding(pod, placement.node), "binding"))
            text = f"Successfully assigned {meta['namespace']}/{meta['name']} to {placement.node}"
            await self.scheduler.record(PendingEvent(pod, "Scheduled", text))
            return
        status = unschedulable(pod, placement.message, stamp(self.context.now()))
        if status is not None:
            await self.context.api.write(UpdateWrite(PODS, with_status(pod, status), "status"))
            await self.scheduler.record(PendingEvent(pod, "FailedScheduling", placement.message, warning=True))

    def _by_node(self) -> dict[str, list[JsonObject]]:
        pods: dict[str, list[JsonObject]] = defaultdict(list)
        for pod in self.informers.all(PODS).values():
            if pod["spec"].get("nodeName"):
                pods[pod["spec"]["nodeName"]].append(pod)
        return pods

    def _host(self, pod: JsonObject) -> str:
        return internal_ip(self.informers.get(NODES.key("", pod["spec"].get("nodeName") or "")))

    def _transition_to(
        self, pod: JsonObject, state: State, stage: Stage | None = None, *, code: int | None = None
    ) -> PodTransition:
        """Return the transition of a pod to a state, with its address and its node's."""
        host = self._host(pod)
        address = (pod.get("status") or {}).get("podIP")
        ip = str(address) if address else host if pod["spec"].get("hostNetwork") else self._next_ip()
        target = stage or Stage(at=state, to=state)
        return PodTransition(
            to=state,
            now=stamp(self.context.now()),
            ip=ip,
            host=host,
            reason=target.reason,
            message=target.message,
            code=target.code if code is None else code,
        )

    async def _write_status(self, pod: JsonObject, move: PodTransition) -> JsonObject | None:
        status = status_in(pod, move)
        if status == pod.get("status"):
            return pod
        return await self.context.kubelet.write(UpdateWrite(PODS, with_status(pod, status), "status"))

    async def _move(self, pod: JsonObject, stage: Stage) -> None:
        """Write the pod's next status, and record the Events of the kubelet."""
        before, to = state_of(pod), resulting_state(pod, stage)
        await self._write_status(pod, self._transition_to(pod, to, stage))
        if to in (State.RUNNING, State.READY) and before in (State.PENDING, State.INITIALIZING, State.CRASHED):
            for _ in pod["spec"].get("containers") or ():
                await self.events.record(PendingEvent(pod, "Started", "Container started"))
        if to is State.CRASHED:
            meta = pod["metadata"]
            for container in pod["spec"].get("containers") or ():
                where = f"{container['name']} in pod {meta['name']}_{meta['namespace']}({meta['uid']})"
                text = f"Back-off restarting failed container {where}"
                await self.events.record(PendingEvent(pod, "BackOff", text, warning=True))
        elif to is State.WAITING:
            text = stage.message or f"Error: {stage.reason}"
            await self.events.record(PendingEvent(pod, "Failed", text, warning=True))

    # -------------------------------------------------------------- termination
    async def _end(self, key: str, pod: JsonObject) -> float | None:
        """Stop the containers, kill them after the grace period, then delete the pod."""
        number = stage_for(pod, State.TERMINATING, self.stages, self._used)
        stage = None if number is None else self.stages[number]
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        running = phase_of(pod) not in ("Succeeded", "Failed") and has_started(pod)
        delay = stage.delay if stage is not None and running else 0.0
        remaining = self._remaining(key, pod, State.TERMINATING, min(delay, grace))
        if remaining > 0:
            return remaining
        if running:
            if number is not None:
                self._used[number] += 1
            move = None if stage is None or stage.to is None else self._transition_to(pod, stage.to, stage)
            to, code = final_state(pod, move, killed=delay > grace > 0)
            for container in pod["spec"].get("containers") or ():
                await self.events.record(PendingEvent(pod, "Killing", f"Stopping container {container['name']}"))
            ended = await self._write_status(pod, self._transition_to(pod, to, stage, code=code))
            pod = ended if ended is not None else pod
        if pod["metadata"].get("deletionGracePeriodSeconds") or not pod["metadata"].get("finalizers"):
            await self.context.kubelet.write(DeleteWrite(PODS, pod, grace_period_seconds=0))
        return None
