"""Laws of the pure core of deployments, together with that of their replica sets, in a small world."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from envtest.controllers import deployment as controller
from envtest.controllers import replicaset, rollout
from envtest.controllers.objects import (
    condition_in,
    conditions_of,
    controlled_by,
    deleting,
    is_active,
    is_ready,
    phase_of,
)
from envtest.controllers.writes import DEPLOYMENTS, PODS, REPLICA_SETS
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import deployment, template
from tests.envtest.controllers.world import World


class Run:
    """A deployment, its replica sets and their pods."""

    def __init__(self, replicas: int, **rolling: Any) -> None:
        self.world = World()
        strategy = {"type": "RollingUpdate", "rollingUpdate": rolling} if rolling else {"type": "Recreate"}
        more = {"strategy": strategy, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 2}
        self.world.add(DEPLOYMENTS, deployment("d", replicas=replicas, **more))
        self.wrong: list[str] = []
        self.scaled = False

    @property
    def deployment(self) -> JsonObject:
        return self.world.one(DEPLOYMENTS, "d")

    @property
    def sets(self) -> list[JsonObject]:
        return self.world.all(REPLICA_SETS)

    @property
    def pods(self) -> list[JsonObject]:
        return self.world.all(PODS)

    def roll(self) -> bool:
        """One step of the deployment."""
        claimed, moves = controller.claim_replica_sets(self.deployment, self.sets, [])
        new, old = rollout.split(self.deployment, claimed)
        running = sum(phase_of(p) not in ("Succeeded", "Failed") for s in old for p in self.pods if controlled_by(p, s))
        planned = controller.plan(controller.DeploymentView(self.deployment, new, old, running, self.world.now))
        writes = [*moves, *planned.writes]
        self.world.run(writes)
        return bool(writes)

    def fill(self, number: int = -1) -> bool:
        """One step of a replica set, or of all."""
        wrote = False
        for item in self.sets if number < 0 else self.sets[number : number + 1]:
            planned = replicaset.plan(item, self.world.owned(PODS, item), [], self.world.now)
            for write in planned.writes:
                self.world.apply(write)
                self.look()
                wrote = True
        return wrote

    def look(self) -> None:
        """The bounds of a rolling update hold after each write, as long as the replicas do not change."""
        live = [p for p in self.pods if not deleting(p) and is_active(p)]
        bound = self.deployment["spec"]["replicas"] + rollout.limits(self.deployment).surge
        if len(live) > bound and not self.scaled:
            self.wrong.append(f"{len(live)} pods where {bound} may be")

    def settle(self) -> None:
        """Everything works until nothing is left to do."""
        for _ in range(200):
            wrote = self.roll()
            wrote = self.fill() or wrote
            for pod in self.pods:
                if deleting(pod):
                    self.world.end(pod, "Failed")
                    wrote = True
                elif phase_of(pod) == "Pending":
                    self.world.ready(pod)
                    wrote = True
            if not wrote:
                return
        raise AssertionError("it never settles")

    def change(self, **spec: Any) -> None:
        """A user changes the deployment."""
        self.world.change(DEPLOYMENTS, self.deployment, **spec)


_OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["roll", "roll", "fill", "fill", "ready", "ready", "end", "image", "scale", "pause", "resume"]),
        st.integers(0, 5),
    ),
    max_size=50,
)


@settings(deadline=None, max_examples=120)
@given(
    st.integers(1, 5),
    st.sampled_from(
        [{}, {"maxSurge": 1, "maxUnavailable": 0}, {"maxSurge": 0, "maxUnavailable": 1}, {"maxSurge": "50%"}]
    ),
    _OPERATIONS,
)
def test_ends_with_the_last_template(replicas: int, rolling: JsonObject, operations: list[tuple[str, int]]) -> None:
    """After any operations, all pods have the last template, the size is right, and revisions are numbered."""
    run = Run(replicas, **rolling)
    for name, number in operations:
        pods = run.pods
        pod = pods[number % len(pods)] if pods else None
        match name:
            case "roll":
                run.roll()
            case "fill":
                run.fill(number)
            case "ready" if pod and not deleting(pod) and phase_of(pod) == "Pending":
                run.world.ready(pod)
            case "end" if pod and deleting(pod):
                run.world.end(pod, "Failed")
            case "image":
                run.change(template=template("d", image=f"x:{number % 4}"))
            case "scale":
                run.scaled = True
                run.change(replicas=number)
            case "pause" | "resume":
                run.change(paused=name == "pause")
    run.change(paused=False)
    run.settle()
    expected, status = run.deployment["spec"]["replicas"], run.deployment["status"]
    image = run.deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    assert [p["spec"]["containers"][0]["image"] for p in run.pods] == [image] * expected
    assert all(is_ready(p) for p in run.pods)
    assert status.get("updatedReplicas", 0) == status.get("availableReplicas", 0) == expected
    assert status["observedGeneration"] == run.deployment["metadata"]["generation"]
    numbers = [rollout.annotation_number(s, rollout.REVISION) for s in run.sets]
    assert len(numbers) == len(set(numbers)) <= 3
    newest = max(run.sets, key=lambda s: rollout.annotation_number(s, rollout.REVISION))
    assert newest["spec"]["replicas"] == expected
    assert str(max(numbers)) == run.deployment["metadata"]["annotations"][rollout.REVISION]
    progress = condition_in(conditions_of(run.deployment), "Progressing") or {}
    assert progress["reason"] == "NewReplicaSetAvailable"
    assert run.wrong == []


def test_history_of_a_revision() -> None:
    """A replica set that is used again remembers which revision it was."""
    run = Run(1, maxSurge=1, maxUnavailable=0)
    run.settle()
    for image in ("x:1", "nginx:1"):
        run.change(template=template("d", image=image))
        run.settle()
    newest = max(run.sets, key=lambda s: rollout.annotation_number(s, rollout.REVISION))
    assert newest["metadata"]["annotations"][rollout.REVISION] == "3"
    assert newest["metadata"]["annotations"][rollout.HISTORY] == "1"
    messages = [n.message for n in run.world.notes if n.reason == "ScalingReplicaSet"]
    assert messages[0] == f"Scaled up replica set {newest['metadata']['name']} from 0 to 1"


def test_without_a_deadline_nothing_is_said_about_progress() -> None:
    """The largest number of seconds means none: there is no such condition."""
    run = Run(1, maxSurge=1)
    run.change(progressDeadlineSeconds=2**31 - 1)
    run.settle()
    assert [c["type"] for c in conditions_of(run.deployment)] == ["Available"]
