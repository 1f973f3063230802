"""Laws of `envtest.controllers.pods.status` and `envtest.controllers.stages`."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from envtest.controllers.objects import condition_in, conditions_of, is_true
from envtest.controllers.pods.status import (
    PodTransition,
    final_state,
    needs_refresh,
    readiness_gates_ready,
    restart_backoff,
    resulting_state,
    state_of,
    status_in,
)
from envtest.controllers.stages import DEFAULT_STAGES, Stage, State, stage_for
from opsdk.structured_merge.value import JsonObject

NOW = "2024-01-01T00:00:00Z"
_BEFORE = (State.PENDING, State.INITIALIZING, State.WAITING)
_STATES = [s for s in State if s is not State.TERMINATING]


def pod(*, init: bool = False, sidecar: bool = False, gate: bool = False, **spec: Any) -> JsonObject:
    """A pod on a node."""
    starts = [{"name": "i", "image": "x"}] if init else []
    starts += [{"name": "s", "image": "x", "restartPolicy": "Always"}] if sidecar else []
    inner: JsonObject = {"containers": [{"name": "c", "image": "x:1"}], "nodeName": "node-1", **spec}
    inner |= {"initContainers": starts} if starts else {}
    inner |= {"readinessGates": [{"conditionType": "example.com/ok"}]} if gate else {}
    meta = {"name": "p", "namespace": "default", "uid": "u-1", "generation": 2}
    return {"metadata": meta, "spec": inner, "status": {"phase": "Pending"}}


def moved(obj: JsonObject, to: State, **rest: Any) -> JsonObject:
    """The pod in another state."""
    return {**obj, "status": status_in(obj, PodTransition(to=to, now=NOW, ip="10.0.0.1", host="192.168.0.1", **rest))}


@given(
    st.builds(pod, init=st.booleans(), sidecar=st.booleans(), gate=st.booleans()),
    st.lists(st.sampled_from(_STATES), min_size=1, max_size=6),
)
def test_state_is_what_was_written(obj: JsonObject, path: list[State]) -> None:
    """After any path of transitions, the status gives the last state, and restart counts never fall."""
    restarts = 0
    for to in path:
        before = state_of(obj)
        if before in (State.SUCCEEDED, State.FAILED) or (to is State.INITIALIZING and not _initial(obj, before)):
            continue
        if to in _BEFORE and (before not in _BEFORE or _BEFORE.index(to) < _BEFORE.index(before)):
            continue
        obj = moved(obj, to, reason="ImagePullBackOff", code=0 if to is State.SUCCEEDED else 1)
        assert state_of(obj) is to
        status = obj["status"]
        assert status["observedGeneration"] == 2
        count = status["containerStatuses"][0]["restartCount"]
        assert count in (restarts, restarts + 1)
        restarts = count
        assert is_true(conditions_of(obj), "Ready") == (to is State.READY and readiness_gates_ready(obj))
        if to is State.READY:
            assert all(c["ready"] for c in status.get("initContainerStatuses", []))
        if to is not State.CRASHED:
            assert status == moved(obj, to, reason="ImagePullBackOff", code=0 if to is State.SUCCEEDED else 1)["status"]


def _initial(obj: JsonObject, before: State) -> bool:
    ordinary = [c for c in obj["spec"].get("initContainers", []) if not c.get("restartPolicy")]
    return bool(ordinary) and before in _BEFORE[:2]


def test_a_crashed_container_restarts_with_back_off() -> None:
    """A restarted container has a higher restart count and its last state; the back-off is at most five minutes."""
    obj = moved(pod(), State.READY)
    pauses = []
    for count in range(8):
        obj = moved(obj, State.CRASHED, code=3, reason="Error")
        pauses.append(restart_backoff(obj))
        [status] = obj["status"]["containerStatuses"]
        container_state = status["state"]
        assert ("waiting" in container_state) == (count > 0)
        obj = moved(obj, State.READY)
        [status] = obj["status"]["containerStatuses"]
        assert status["restartCount"] == count + 1
        assert status["lastState"]["terminated"]["exitCode"] == 3
    assert pauses == [0, 10, 20, 40, 80, 160, 300, 300]
    assert container_state["waiting"]["message"] == "back-off 5m0s restarting failed container=c pod=p_default(u-1)"


def test_the_restart_policy_decides_about_restarts() -> None:
    """A crash ends the pod if its restart policy forbids a restart."""
    crash = Stage(at=State.READY, to=State.CRASHED)
    done = Stage(at=State.READY, to=State.CRASHED, exit_code=0)
    assert resulting_state(pod(), crash) is State.CRASHED
    assert resulting_state(pod(restartPolicy="Never"), crash) is State.FAILED
    assert resulting_state(pod(restartPolicy="OnFailure"), crash) is State.CRASHED
    assert resulting_state(pod(restartPolicy="OnFailure"), done) is State.SUCCEEDED


def test_init_containers() -> None:
    """The first init container runs next to its sidecars; then all are done and the sidecars are ready."""
    obj = moved(pod(init=True, sidecar=True), State.PENDING)
    assert condition_in(conditions_of(obj), "Initialized") == {
        "type": "Initialized",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": NOW,
        "reason": "ContainersNotInitialized",
        "message": "containers with incomplete status: [i]",
    }
    obj = moved(obj, State.INITIALIZING)
    first, sidecar = obj["status"]["initContainerStatuses"]
    assert "running" in first["state"]
    assert "running" in sidecar["state"]
    obj = moved(obj, State.READY)
    first, sidecar = obj["status"]["initContainerStatuses"]
    assert first["state"]["terminated"]["exitCode"] == 0
    assert sidecar["ready"]
    obj = moved(obj, State.SUCCEEDED, code=0)
    assert "terminated" in obj["status"]["initContainerStatuses"][1]["state"]


def test_failing_init_container() -> None:
    """A pod that fails while it initializes never started its containers."""
    obj = moved(moved(pod(init=True), State.INITIALIZING), State.FAILED, code=7)
    assert obj["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
    assert "waiting" in obj["status"]["containerStatuses"][0]["state"]


def test_an_unmet_readiness_gate_keeps_a_pod_unready() -> None:
    """A missing readiness gate condition keeps the pod unready; once true, the status needs a refresh."""
    obj = moved(pod(gate=True), State.READY)
    shut = condition_in(conditions_of(obj), "Ready") or {}
    assert shut["reason"] == "ReadinessGatesNotReady"
    assert shut["message"] == 'corresponding condition of pod readiness gate "example.com/ok" does not exist.'
    assert not needs_refresh(obj)
    obj["status"]["conditions"].append({"type": "example.com/ok", "status": "True"})
    assert needs_refresh(obj)
    assert is_true(conditions_of(moved(obj, State.READY)), "Ready")


def test_new_image_restarts_a_container() -> None:
    """A container whose image changed is restarted; one whose resources changed is not."""
    obj = moved(pod(), State.READY)
    obj["spec"]["containers"] = [{"name": "c", "image": "x:2"}]
    assert needs_refresh(obj)
    [status] = moved(obj, State.READY)["status"]["containerStatuses"]
    assert (status["image"], status["restartCount"]) == ("x:2", 1)


def test_an_ephemeral_container_runs() -> None:
    """An added ephemeral container runs."""
    obj = moved(pod(), State.READY)
    obj["spec"]["ephemeralContainers"] = [{"name": "d", "image": "sh"}]
    assert needs_refresh(obj)
    obj = moved(obj, State.READY)
    assert "running" in obj["status"]["ephemeralContainerStatuses"][0]["state"]
    assert not needs_refresh(obj)


def test_the_restart_policy_decides_how_a_deleted_pod_ends() -> None:
    """A deleted pod succeeds if it restarts always and fails otherwise, unless a stage says else; a kill fails it."""
    assert final_state(pod(), None, killed=False) == (State.SUCCEEDED, 0)
    assert final_state(pod(restartPolicy="Never"), None, killed=False) == (State.FAILED, 143)
    transition = PodTransition(to=State.SUCCEEDED, now=NOW, code=0)
    assert final_state(pod(restartPolicy="Never"), transition, killed=False) == (State.SUCCEEDED, 0)
    assert final_state(pod(), transition, killed=True) == (State.FAILED, 137)


def test_rules_are_used_up() -> None:
    """The first matching rule that is not used up applies."""
    rules = (Stage(at=State.PENDING, to=State.FAILED, times=2, selector={"app": "x"}), *DEFAULT_STAGES)
    obj = pod()
    assert stage_for(obj, State.PENDING, rules) == 2
    obj["metadata"]["labels"] = {"app": "x"}
    assert stage_for(obj, State.PENDING, rules, {0: 1}) == 0
    assert stage_for(obj, State.PENDING, rules, {0: 2}) == 2
    elsewhere = Stage(at=State.PENDING, to=None, namespace="other")
    assert not elsewhere.matches(obj, State.PENDING)
