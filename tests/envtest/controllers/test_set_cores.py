"""Laws of the pure cores of replica, stateful and daemon sets, in a small world without a server."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envtest.controllers import controller_history, daemonset, replicaset, statefulset
from envtest.controllers.objects import deleting, is_active, is_ready, phase_of
from envtest.controllers.pods.control import claim
from envtest.controllers.pods.ranking import COST, deletion_order
from envtest.controllers.writes import (
    CLAIMS,
    DAEMON_SETS,
    PODS,
    REPLICA_SETS,
    REVISIONS,
    STATEFUL_SETS,
    CreateWrite,
    Resource,
    Writes,
)
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import template
from tests.envtest.controllers.world import World


class Run:
    """One set in a small world."""

    resource: Resource

    def __init__(self, **spec: Any) -> None:
        self.world = World()
        inner = {"selector": {"matchLabels": {"app": "s"}}, "template": template("s"), **spec}
        kind = {"kind": self.resource.kind, "apiVersion": "apps/v1"}
        self.world.add(self.resource, {**kind, "metadata": {"name": "s"}, "spec": inner})
        self.wrong: list[str] = []

    @property
    def owner(self) -> JsonObject:
        return self.world.one(self.resource, "s")

    @property
    def pods(self) -> list[JsonObject]:
        return self.world.all(PODS)

    def plan(self) -> Writes:
        raise NotImplementedError

    def step(self) -> bool:
        """One step; whether it wrote anything."""
        writes = self.plan()
        for write in writes:
            self.world.apply(write)
            self.look()
        return bool(writes)

    def look(self) -> None:
        """What holds after each write."""

    def calm(self) -> None:
        """Steps until one writes nothing: it must not go on forever."""
        for _ in range(60):
            if not self.step():
                return
        raise AssertionError("it never comes to rest")

    def settle(self) -> None:
        """Every pod becomes ready, every deleted one goes, again and again."""
        for _ in range(60):
            self.calm()
            moved = False
            for pod in self.pods:
                if deleting(pod):
                    self.world.end(pod, "Failed")
                    moved = True
                elif phase_of(pod) in ("Pending", "Unknown"):
                    self.world.ready(pod)
                    moved = True
            self.world.wait(10)
            if not moved and not self.step():
                return
        raise AssertionError("it never settles")

    def disturb(self, name: str, number: int) -> None:
        """Something happens to one of the pods, or to the set."""
        pods = self.pods
        pod = pods[number % len(pods)] if pods else None
        match name:
            case "step":
                self.step()
            case "ready" if pod and not deleting(pod) and phase_of(pod) == "Pending":
                self.world.ready(pod)
            case "fail" if pod:
                self.world.end(pod, "Failed")
            case "delete" if pod:
                self.world.delete(PODS, pod)
            case "end" if pod and deleting(pod):
                self.world.end(pod, "Failed")
            case "wait":
                self.world.wait(number)
            case "image":
                self.world.change(self.resource, self.owner, template=template("s", image=f"x:{number % 3}"))
            case "scale" if "replicas" in self.owner["spec"]:
                self.world.change(self.resource, self.owner, replicas=number % 5)


_OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["step", "step", "ready", "fail", "delete", "end", "wait", "image", "scale"]), st.integers(0, 9)
    ),
    max_size=40,
)


# ------------------------------------------------------------------ replica sets
class ReplicaRun(Run):
    """A replica set."""

    resource = REPLICA_SETS

    def plan(self) -> Writes:
        owned, loose = self.world.owned(PODS, self.owner), self.world.loose(PODS)
        return replicaset.plan(self.owner, owned, loose, self.world.now).writes


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 4), st.sampled_from([0, 5]), _OPERATIONS)
def test_replica_sets_have_their_pods(replicas: int, patience: int, operations: list[tuple[str, int]]) -> None:
    """After any operations, the wanted number of pods is ready, the status counts them, and writes stop."""
    run = ReplicaRun(replicas=replicas, minReadySeconds=patience)
    for name, number in operations:
        run.disturb(name, number)
    run.settle()
    active = [p for p in run.pods if is_active(p)]
    status, expected = run.owner["status"], run.owner["spec"]["replicas"]
    assert len(active) == expected == status["replicas"]
    assert status.get("readyReplicas", 0) == status.get("availableReplicas", 0) == expected
    assert status["observedGeneration"] == run.owner["metadata"]["generation"]


def test_adopts_no_more_than_it_wants() -> None:
    """Pods that fit are taken in, and those beyond the wish go."""
    run = ReplicaRun(replicas=2)
    for name in "abc":
        tree = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "labels": {"app": "s"}}, "spec": {}}
        run.world.add(PODS, tree)
    run.settle()
    assert len(run.pods) == 2
    assert len(run.world.owned(PODS, run.owner)) == 2


def test_failure_is_shown_until_it_is_over() -> None:
    """The status shows why pods cannot be created, until they are."""
    run = ReplicaRun(replicas=1)
    planned = replicaset.plan(run.owner, [], [], run.world.now, failed="quota exceeded")
    assert not [w for w in planned.writes if isinstance(w, CreateWrite)]
    run.world.run(planned.writes)
    [condition] = run.owner["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == ("FailedCreate", "quota exceeded")
    run.settle()
    assert "conditions" not in run.owner["status"]


def _pod(name: str, **more: Any) -> JsonObject:
    conditions = [
        {"type": "Ready", "status": "True", "lastTransitionTime": f"2024-01-01T00:0{more.get('since', 0)}:00Z"}
    ]
    statuses = [{"name": "c", "restartCount": more.get("restarts", 0)}]
    status = {"phase": "Running", "conditions": conditions, "containerStatuses": statuses}
    meta = {"name": name, "creationTimestamp": f"2024-01-01T00:0{more.get('age', 0)}:00Z"}
    if "cost" in more:
        meta["annotations"] = {COST: more["cost"]}  # type: ignore[assignment]
    return {
        "metadata": meta,
        "spec": {"nodeName": more.get("node", "n")},
        "status": {**status, **more.get("status", {})},
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"node": ""}, {}),
        ({"status": {"phase": "Pending"}}, {}),
        ({"status": {"conditions": []}}, {}),
        ({"cost": "-1"}, {}),
        ({}, {"cost": "5"}),
        ({"node": "full"}, {"node": "empty"}),
        ({"since": 2}, {"since": 1}),
        ({"restarts": 3}, {"restarts": 1}),
        ({"age": 2}, {"age": 1}),
    ],
)
def test_the_order_of_deletions(first: JsonObject, second: JsonObject) -> None:
    """Pods that are unscheduled, pending, not ready, cheap, crowded or often restarted are deleted first."""
    pods = [_pod("b", **second), _pod("a", **first)]
    for order in (pods, pods[::-1]):
        assert deletion_order(order, pods_by_node={"full": 4, "empty": 1})[0]["metadata"]["name"] == "a"


# ------------------------------------------------------------------ stateful sets
class StatefulRun(Run):
    """A stateful set."""

    resource = STATEFUL_SETS

    def plan(self) -> Writes:
        claimed, moves = claim(self.owner, self.world.owned(PODS, self.owner), [])
        revisions = self.world.owned(REVISIONS, self.owner)
        claims = {c["metadata"]["name"]: c for c in self.world.all(CLAIMS)}
        view = statefulset.StatefulSetView(
            self.owner, {statefulset.ordinal_of(p): p for p in claimed}, revisions, claims, self.world.now
        )
        return [*moves, *statefulset.plan(view).writes]


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 4), st.sampled_from(["OrderedReady", "Parallel"]), st.sampled_from([0, 3]), _OPERATIONS)
def test_stateful_sets_are_contiguous(
    replicas: int, policy: str, start: int, operations: list[tuple[str, int]]
) -> None:
    """After any operations, exactly the wanted ordinals have pods, ready and of the current revision."""
    run = StatefulRun(replicas=replicas, podManagementPolicy=policy, ordinals={"start": start}, serviceName="s")
    for name, number in operations:
        run.disturb(name, number)
    run.settle()
    expected = run.owner["spec"]["replicas"]
    assert sorted(statefulset.ordinal_of(p) for p in run.pods) == list(range(start, start + expected))
    assert all(is_ready(p) for p in run.pods)
    status = run.owner["status"]
    assert status["currentRevision"] == status["updateRevision"]
    assert {statefulset.revision_of(p) for p in run.pods} <= {status["updateRevision"]}
    assert status["replicas"] == status.get("updatedReplicas", 0) == expected
    numbers = [r["revision"] for r in run.world.all(REVISIONS)]
    assert len(numbers) == len(set(numbers)), "each revision has a number of its own"


def test_partition_keeps_the_old_ones() -> None:
    """Below the partition pods stay as they were, and come back so when they are deleted."""
    run = StatefulRun(replicas=3, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 1}})
    run.settle()
    before = run.owner["status"]["updateRevision"]
    run.world.change(STATEFUL_SETS, run.owner, template=template("s", image="new"))
    run.settle()
    run.world.delete(PODS, run.world.one(PODS, "s-0"))
    run.settle()
    images = [run.world.one(PODS, f"s-{n}")["spec"]["containers"][0]["image"] for n in range(3)]
    assert images == ["nginx:1", "new", "new"]
    status = run.owner["status"]
    assert (status["currentRevision"], status["currentReplicas"], status["updatedReplicas"]) == (before, 1, 2)


def test_on_delete_waits_for_the_user() -> None:
    """With OnDelete, a pod gets the new template after the user deletes it."""
    run = StatefulRun(replicas=2, updateStrategy={"type": "OnDelete"})
    run.settle()
    run.world.change(STATEFUL_SETS, run.owner, template=template("s", image="new"))
    run.settle()
    run.world.delete(PODS, run.world.one(PODS, "s-1"))
    run.settle()
    images = [run.world.one(PODS, f"s-{n}")["spec"]["containers"][0]["image"] for n in range(2)]
    assert images == ["nginx:1", "new"]


@settings(deadline=None)
@given(st.integers(1, 4))
def test_several_may_be_away(unavailable: int) -> None:
    """During an update as many pods are deleted at once as may be missing, and no more."""
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable}}
    run = StatefulRun(replicas=4, podManagementPolicy="Parallel", updateStrategy=rolling)
    run.settle()
    run.world.change(STATEFUL_SETS, run.owner, template=template("s", image="new"))
    run.calm()
    assert sum(deleting(p) for p in run.pods) == unavailable


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        ({}, ["s-0", "s-1"]),
        ({"whenScaled": "Delete"}, ["s-0"]),
        ({"whenScaled": "Delete", "whenDeleted": "Delete"}, ["s-0"]),
    ],
)
def test_the_retention_policy_deletes_claims_with_pods(policy: JsonObject, left: list[str]) -> None:
    """The retention policy makes the claims of unwanted pods dependents of those pods."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    templates = [{"metadata": {"name": "data"}, "spec": spec}]
    run = StatefulRun(replicas=2, volumeClaimTemplates=templates, persistentVolumeClaimRetentionPolicy=policy)
    run.settle()
    run.world.change(STATEFUL_SETS, run.owner, replicas=1)
    run.settle()
    pods = {p["metadata"]["uid"] for p in run.pods} | {run.owner["metadata"]["uid"]}

    def stays(found: JsonObject) -> bool:
        owners = found["metadata"].get("ownerReferences") or []
        return not owners or any(o["uid"] in pods for o in owners)

    remaining = [c["metadata"]["name"] for c in run.world.all(CLAIMS) if stays(c)]
    assert sorted(remaining) == [f"data-{name}" for name in left]
    owned = [c for c in run.world.all(CLAIMS) if c["metadata"].get("ownerReferences")]
    assert bool(owned) == bool(policy)


# ------------------------------------------------------------------ daemon sets
class DaemonRun(Run):
    """A daemon set on three nodes."""

    resource = DAEMON_SETS
    nodes = ("a", "b", "c")

    def plan(self) -> Writes:
        claimed, moves = claim(self.owner, self.world.owned(PODS, self.owner), [])
        by_node: dict[str, list[JsonObject]] = {}
        for pod in sorted(claimed, key=lambda p: (p["metadata"]["creationTimestamp"], p["metadata"]["name"])):
            by_node.setdefault(daemonset.node_of({**pod, "spec": {**pod["spec"], "nodeName": ""}}), []).append(pod)
        revisions = self.world.owned(REVISIONS, self.owner)
        view = daemonset.DaemonSetView(self.owner, by_node, self.nodes, revisions, self.world.now)
        return [*moves, *daemonset.plan(view).writes]


_ROLLING = st.sampled_from([{"maxUnavailable": 1}, {"maxUnavailable": "60%"}, {"maxSurge": 1, "maxUnavailable": 0}])


@settings(deadline=None, max_examples=60)
@given(_ROLLING, _OPERATIONS)
def test_daemon_sets_are_everywhere(rolling: JsonObject, operations: list[tuple[str, int]]) -> None:
    """After any operations, each node runs one ready pod of the current template, and the status shows it."""
    run = DaemonRun(updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    for name, number in operations:
        run.disturb(name, number)
    run.settle()
    assert len(run.pods) == 3
    digest = controller_history.revision_name(run.owner, run.world.owned(REVISIONS, run.owner)).rpartition("-")[2]
    assert {p["metadata"]["labels"][controller_history.HASH] for p in run.pods} == {digest}
    status = run.owner["status"]
    assert status["desiredNumberScheduled"] == status["updatedNumberScheduled"] == status["numberAvailable"] == 3


@pytest.mark.parametrize(("rolling", "away"), [({"maxUnavailable": 2}, 2), ({"maxSurge": 2, "maxUnavailable": 0}, 0)])
def test_updates_respect_max_unavailable_and_max_surge(rolling: JsonObject, away: int) -> None:
    """An update deletes at most maxUnavailable pods, and with maxSurge creates new pods first."""
    run = DaemonRun(updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    run.settle()
    run.world.change(DAEMON_SETS, run.owner, template=template("s", image="new"))
    run.calm()
    assert sum(deleting(p) for p in run.pods) == away
    assert len(run.pods) == 3 + rolling.get("maxSurge", 0)


def test_daemons_tolerate_what_befalls_nodes() -> None:
    """Daemon pods tolerate cordoned, unhealthy and unreachable nodes; other taints keep pods off."""
    run = DaemonRun()
    node: JsonObject = {"metadata": {"name": "a"}, "spec": {"unschedulable": True}}
    assert daemonset.node_should_run(run.owner, node) == (True, True)
    node["spec"] = {"taints": [{"key": "mine", "effect": "NoSchedule"}]}
    assert daemonset.node_should_run(run.owner, node) == (False, True)
    node["spec"] = {"taints": [{"key": "mine", "effect": "NoExecute"}]}
    assert daemonset.node_should_run(run.owner, node) == (False, False)


# ------------------------------------------------------------------ revisions
def test_revisions_come_back() -> None:
    """A template that returns gets its old revision name and the highest number; unused revisions are deleted."""
    run = StatefulRun(replicas=1, revisionHistoryLimit=1)
    run.settle()
    first = run.owner["status"]["updateRevision"]
    for image in ("x:1", "nginx:1"):
        run.world.change(STATEFUL_SETS, run.owner, template=template("s", image=image))
        run.settle()
    assert run.owner["status"]["updateRevision"] == first
    assert sorted(r["revision"] for r in run.world.all(REVISIONS)) == [2, 3]
    for image in ("x:2", "x:3"):
        run.world.change(STATEFUL_SETS, run.owner, template=template("s", image=image))
        run.settle()
    assert sorted(r["revision"] for r in run.world.all(REVISIONS)) == [4, 5]


class CountedRange(Sequence[int]):
    """A range that counts how many of its numbers were read."""

    def __init__(self, numbers: range) -> None:
        self._numbers = numbers
        self.read = 0

    def __getitem__(self, index: Any) -> Any:
        self.read += 1
        return self._numbers[index]

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, number: object) -> bool:
        return number in self._numbers


def test_a_parallel_set_creates_a_bounded_number_of_pods_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many replicas a client requests, one sync creates at most 500 pods, and reads about as many ordinals."""
    owner = {
        "kind": "StatefulSet",
        "apiVersion": "apps/v1",
        "metadata": {"name": "s", "namespace": "default", "uid": "u"},
        "spec": {"replicas": 20_000, "podManagementPolicy": "Parallel", "template": template("s"), "selector": {}},
    }
    ordinals = CountedRange(range(20_000))
    monkeypatch.setattr(statefulset.StatefulSetView, "ordinals", ordinals)
    view = statefulset.StatefulSetView(owner, {}, [], {}, datetime(2026, 1, 1, tzinfo=UTC))
    created = [w for w in statefulset.plan(view).writes if isinstance(w, CreateWrite) and w.resource is PODS]
    assert len(created) == 500
    assert ordinals.read <= 1_000
