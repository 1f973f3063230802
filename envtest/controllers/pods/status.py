"""Pod status as a kubelet reports it: phase, conditions, container statuses. Pure.

Upstream: pkg/kubelet/status (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from envtest.controllers.objects import (
    condition_in,
    conditions_of,
    deleting,
    is_ready,
    is_true,
    phase_of,
    with_condition,
)
from envtest.controllers.stages import Stage, State
from opsdk.structured_merge.value import JsonObject

_UP = (State.RUNNING, State.READY, State.CRASHED)
_BEFORE = (State.PENDING, State.WAITING, State.INITIALIZING)
_CREATING = ("ContainerCreating", "PodInitializing")
_PAUSES = (0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0)
"""Back-off in seconds before containers restart, by the number of earlier restarts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTransition:
    """The new state of a pod, with the values of its status."""

    to: State
    now: str
    ip: str = ""
    host: str = ""
    reason: str = "Error"
    message: str = ""
    code: int = 1

    @property
    def up(self) -> bool:
        """Whether the pod has started and not finished."""
        return self.to in _UP


# ------------------------------------------------------------------ reading
def state_of(pod: JsonObject) -> State:
    """Return the state that the pod's status shows."""
    if deleting(pod):
        return State.TERMINATING
    match phase_of(pod):
        case "Running":
            if any("running" not in (c.get("state") or {}) for c in _statuses(pod)):
                return State.CRASHED
            return State.READY if is_true(conditions_of(pod), "ContainersReady") else State.RUNNING
        case "Succeeded":
            return State.SUCCEEDED
        case "Failed":
            return State.FAILED
        case _:
            waiting = [((c.get("state") or {}).get("waiting") or {}).get("reason") for c in _statuses(pod)]
            if any(w and w not in _CREATING for w in waiting):
                return State.WAITING
            started = (
                _statuses_by_name(pod, "initContainerStatuses").get(c["name"]) or {} for c in _init_containers(pod)
            )
            return State.INITIALIZING if any("running" in (c.get("state") or {}) for c in started) else State.PENDING


def _statuses(pod: JsonObject) -> list[JsonObject]:
    return list((pod.get("status") or {}).get("containerStatuses") or ())


def _statuses_by_name(pod: JsonObject, key: str) -> dict[str, JsonObject]:
    return {c["name"]: c for c in (pod.get("status") or {}).get(key) or ()}


def is_sidecar(container: JsonObject) -> bool:
    """Return whether an init container is a sidecar (``restartPolicy: Always``)."""
    return bool(container.get("restartPolicy") == "Always")


def _init_containers(pod: JsonObject) -> Iterable[JsonObject]:
    return (c for c in pod["spec"].get("initContainers") or () if not is_sidecar(c))


def readiness_gates_ready(pod: JsonObject) -> bool:
    """Return whether the conditions of all readiness gates are True."""
    conditions = conditions_of(pod)
    return all(is_true(conditions, g["conditionType"]) for g in pod["spec"].get("readinessGates") or ())


def restart_backoff(pod: JsonObject) -> float:
    """Return the seconds of back-off before the containers restart."""
    count = max((int(c.get("restartCount") or 0) for c in _statuses(pod)), default=0)
    return _PAUSES[min(count, len(_PAUSES) - 1)]


def resulting_state(pod: JsonObject, stage: Stage) -> State:
    """Return the state that a stage leads to: containers that are not restarted terminate and do not crash."""
    policy = pod["spec"].get("restartPolicy", "Always")
    if stage.to is State.CRASHED and (policy == "Never" or (policy == "OnFailure" and not stage.code)):
        return State.FAILED if stage.code else State.SUCCEEDED
    assert stage.to is not None
    return stage.to


def needs_refresh(pod: JsonObject) -> bool:
    """Return whether a ready pod's status is outdated by gates, images, resources or ephemeral containers."""
    if is_ready(pod) != readiness_gates_ready(pod):
        return True
    statuses = _statuses_by_name(pod, "containerStatuses")
    for container in pod["spec"].get("containers") or ():
        status = statuses.get(container["name"])
        if status is not None and (
            status.get("image") != container.get("image", "")
            or ("resources" in status and status["resources"] != (container.get("resources") or {}))
        ):
            return True
    return {c["name"] for c in pod["spec"].get("ephemeralContainers") or ()} != set(
        _statuses_by_name(pod, "ephemeralContainerStatuses")
    )


# ------------------------------------------------------------------ writing
def status_in(pod: JsonObject, move: PodTransition) -> JsonObject:
    """Return the pod's status after a transition."""
    status = dict(pod.get("status") or {})
    status["phase"] = "Running" if move.up else "Pending" if move.to in _BEFORE else move.to.value
    if pod["metadata"].get("generation"):
        status["observedGeneration"] = pod["metadata"]["generation"]
    if move.host:
        status.update(hostIP=move.host, hostIPs=[{"ip": move.host}])
    status.setdefault("startTime", move.now)
    if move.ip and move.to is not State.PENDING and move.to is not State.WAITING:
        status.setdefault("podIP", move.ip)
        status.setdefault("podIPs", [{"ip": status["podIP"]}])
    spec = pod["spec"]
    unready = [c["name"] for c in spec.get("containers") or ()] if move.to is not State.READY else []
    conditions = conditions_of(pod)
    ended = {State.SUCCEEDED: "PodCompleted", State.FAILED: "PodFailed"}.get(move.to, "")
    text = f"containers with unready status: [{' '.join(unready)}]"
    not_ready = {"reason": ended} if ended else {"reason": "ContainersNotReady", "message": text}
    begun = move.to not in _BEFORE or not list(_init_containers(pod))
    names = " ".join(c["name"] for c in _init_containers(pod))
    incomplete = {"reason": "ContainersNotInitialized", "message": f"containers with incomplete status: [{names}]"}
    ready = move.to is State.READY
    gates = (
        {}
        if readiness_gates_ready(pod)
        else {"reason": "ReadinessGatesNotReady", "message": _readiness_gates_message(pod)}
    )
    for kind, holds, reason in (
        ("PodReadyToStartContainers", move.up or move.to is State.INITIALIZING, {}),
        ("Initialized", begun, ({"reason": ended} if ended == "PodCompleted" else {}) if begun else incomplete),
        ("Ready", ready and not gates, gates if ready else not_ready),
        ("ContainersReady", ready, {} if ready else not_ready),
    ):
        entry = {"type": kind, "status": str(holds), "lastProbeTime": None, "lastTransitionTime": move.now, **reason}
        conditions = with_condition(conditions, entry)
    status["conditions"] = conditions
    status["containerStatuses"] = [_container(c, pod, move) for c in spec.get("containers") or ()]
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [_init(c, pod, move) for c in spec["initContainers"]]
    if spec.get("ephemeralContainers") and move.up:
        status["ephemeralContainerStatuses"] = [_debugging(c, pod, move) for c in spec["ephemeralContainers"]]
    return status


def _readiness_gates_message(pod: JsonObject) -> str:
    """Return the message for readiness gates that are not true."""
    texts = []
    for gate in pod["spec"].get("readinessGates") or ():
        kind = gate["conditionType"]
        condition = condition_in(conditions_of(pod), kind)
        if condition is None:
            texts.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif condition.get("status") != "True":
            texts.append(f'the status of pod readiness gate "{kind}" is not "True", but {condition.get("status")}')
    return ", ".join(texts)


def _container(container: JsonObject, pod: JsonObject, move: PodTransition) -> JsonObject:
    """Return the status of a container after a transition of its pod."""
    before = _statuses_by_name(pod, "containerStatuses").get(container["name"]) or {}
    status = _base(container, pod, before)
    was = before.get("state") or {}
    if move.to in _BEFORE:
        state = (
            {"reason": move.reason}
            if move.to is State.WAITING
            else {"reason": ("PodInitializing" if pod["spec"].get("initContainers") else "ContainerCreating")}
        )
        text = {"message": move.message} if move.message and move.to is State.WAITING else {}
        return {**status, "started": False, "state": {"waiting": {**state, **text}}}
    if move.to is State.CRASHED:
        return {**status, "started": False, **_crash(container, pod, move, was)}
    if move.up:
        return {**status, "ready": move.to is State.READY, "started": True, **_run(before, move, container)}
    if "terminated" in was:
        return {**status, "started": False, "state": was}
    if "running" not in was and "waiting" in was and move.to is State.FAILED:
        return {**status, "started": False, "state": was}
    return {**status, "started": False, "state": {"terminated": _terminated(status, was, move)}}


def _base(container: JsonObject, pod: JsonObject, before: JsonObject) -> JsonObject:
    """Return what the statuses of a container have in common."""
    image = container.get("image", "")
    digest = pod["metadata"]["uid"].replace("-", "")
    status = {
        "name": container["name"],
        "image": image,
        "imageID": f"simulated://{image}",
        "containerID": f"simulated://{digest}/{container['name']}",
        "ready": False,
        "restartCount": before.get("restartCount", 0),
        "lastState": before.get("lastState") or {},
    }
    resources = container.get("resources") or {}
    if resources:
        status["resources"] = resources
        if resources.get("requests"):
            status["allocatedResources"] = resources["requests"]
    return status


def _run(before: JsonObject, move: PodTransition, container: JsonObject) -> JsonObject:
    """Return the status of a running container: restarted if it terminated or its image changed."""
    was = before.get("state") or {}
    fresh = before.get("image") in (None, container.get("image", ""))
    if "running" in was and fresh:
        return {"state": was}
    status: JsonObject = {"state": {"running": {"startedAt": move.now}}}
    if "running" in was or "terminated" in was or "terminated" in (before.get("lastState") or {}):
        status["restartCount"] = int(before.get("restartCount") or 0) + 1
    if "terminated" in was:
        status["lastState"] = was
    return status


def _crash(container: JsonObject, pod: JsonObject, move: PodTransition, previous: JsonObject) -> JsonObject:
    ended = {"terminated": _terminated({"containerID": ""}, previous, move)}
    pause = restart_backoff(pod)
    if not pause:
        return {"state": ended}
    meta = pod["metadata"]
    where = f"container={container['name']} pod={meta['name']}_{meta['namespace']}({meta['uid']})"
    delay = f"{int(pause)}s" if pause < 60 else f"{int(pause) // 60}m{int(pause) % 60}s"
    text = f"back-off {delay} restarting failed {where}"
    return {"state": {"waiting": {"reason": "CrashLoopBackOff", "message": text}}, "lastState": ended}


def _terminated(status: JsonObject, previous: JsonObject, move: PodTransition) -> JsonObject:
    started = (previous.get("running") or {}).get("startedAt", move.now)
    terminated = {
        "exitCode": move.code,
        "reason": move.reason if move.code else "Completed",
        "startedAt": started,
        "finishedAt": move.now,
    }
    if move.message:
        terminated["message"] = move.message
    return {**terminated, "containerID": status["containerID"]} if status.get("containerID") else terminated


def _init(container: JsonObject, pod: JsonObject, move: PodTransition) -> JsonObject:
    """Return the status of an init container or sidecar after a transition of its pod."""
    before = _statuses_by_name(pod, "initContainerStatuses").get(container["name"]) or {}
    status = _base(container, pod, before)
    was = before.get("state") or {}
    if is_sidecar(container):
        if move.up or move.to is State.INITIALIZING or (move.to in _BEFORE and "running" in was):
            return {**status, "ready": True, "started": True, **_run(before, move, container)}
        if "running" in was:
            ended = PodTransition(to=State.SUCCEEDED, now=move.now, code=0)
            return {**status, "started": False, "state": {"terminated": _terminated(status, was, ended)}}
    if move.to in _BEFORE and "terminated" not in was and not (move.to is State.WAITING and "running" in was):
        first = next(iter(_init_containers(pod)), None)
        if move.to is State.INITIALIZING and first is container:
            return {**status, "started": True, **_run(before, move, container)}
        return {**status, "started": False, "state": {"waiting": {"reason": "PodInitializing"}}}
    if "terminated" in was:
        done = was["terminated"].get("exitCode") == 0 and not is_sidecar(container)
        return {**status, "ready": done, "started": False, "state": was}
    if move.to is State.FAILED and "running" in was:
        return {**status, "started": False, "state": {"terminated": _terminated(status, was, move)}}
    ended = PodTransition(to=State.SUCCEEDED, now=move.now, code=0)
    state = {"terminated": _terminated(status, was, ended)}
    return {**status, "ready": not is_sidecar(container), "started": False, "state": state}


def _debugging(container: JsonObject, pod: JsonObject, move: PodTransition) -> JsonObject:
    before = _statuses_by_name(pod, "ephemeralContainerStatuses").get(container["name"]) or {}
    return {**_base(container, pod, before), **_run(before, move, container)}


# ------------------------------------------------------------------ final state
def final_state(pod: JsonObject, move: PodTransition | None, *, killed: bool) -> tuple[State, int]:
    """Return how a deleted pod ends: by its stage, else by its restart policy; a killed pod fails."""
    if killed:
        return State.FAILED, 137
    if move is not None:
        return move.to, move.code
    always = pod["spec"].get("restartPolicy", "Always") == "Always"
    return (State.SUCCEEDED, 0) if always else (State.FAILED, 143)


def has_started(pod: JsonObject) -> bool:
    """Return whether a container of the pod ever ran."""
    return any("running" in (c.get("state") or {}) or c.get("restartCount") for c in _statuses(pod))
