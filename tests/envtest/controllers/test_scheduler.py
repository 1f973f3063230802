"""Laws of `envtest.controllers.scheduler`."""

from __future__ import annotations

from typing import Any

import pytest

from envtest.controllers.scheduler import (
    insufficient_resources,
    pod_requests,
    schedule,
    tolerates,
    unschedulable,
    waits_for_scheduler,
)
from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import CORE, Kubectl, condition, settle, template

TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


def node(
    name: str, *, labels: JsonObject | None = None, allocatable: JsonObject | None = None, **spec: Any
) -> JsonObject:
    """A node."""
    status = {"allocatable": allocatable} if allocatable else {}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": status}


def pod(**spec: Any) -> JsonObject:
    """A pod that waits."""
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "0" * 32},
        "spec": spec,
        "status": {"phase": "Pending"},
    }


@pytest.mark.parametrize(
    ("toleration", "wanted"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "team", "value": "a"}, True),
        ({"key": "team", "operator": "Equal", "value": "b"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_a_toleration_matches_key_value_and_effect(toleration: JsonObject, wanted: bool) -> None:
    """A toleration without key or effect matches all of them; Exists ignores the value."""
    assert tolerates(toleration, TAINT) == wanted


def _affinity(**term: Any) -> JsonObject:
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


@pytest.mark.parametrize(
    ("spec", "goes"),
    [
        ({}, True),
        ({"nodeSelector": {"disk": "fast"}}, True),
        ({"nodeSelector": {"disk": "slow"}}, False),
        ({"affinity": _affinity(matchExpressions=[{"key": "size", "operator": "Gt", "values": ["3"]}])}, True),
        ({"affinity": _affinity(matchExpressions=[{"key": "size", "operator": "Lt", "values": ["3"]}])}, False),
        ({"affinity": _affinity(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["n"]}])}, True),
        ({"affinity": _affinity()}, False),
    ],
)
def test_selectors_and_required_affinity_filter_nodes(spec: JsonObject, goes: bool) -> None:
    """Node selectors and required node affinity filter nodes; an empty term matches none."""
    place = schedule(pod(**spec), [node("n", labels={"disk": "fast", "size": "5"})])
    assert bool(place.node) == goes


def test_running_pods_reduce_allocatable_resources() -> None:
    """Running pods reduce a node's resources and finished ones do not; a node without allocatable has enough."""
    new_pod = pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "600m", "example.com/gpu": "1"}}}])
    small = node("n", allocatable={"cpu": "1"})
    assert insufficient_resources(pod_requests(new_pod), small, []) == ["example.com/gpu"]
    other = {**new_pod, "status": {"phase": "Running"}}
    assert insufficient_resources(pod_requests(new_pod), small, [other]) == ["cpu", "example.com/gpu"]
    assert insufficient_resources(pod_requests(new_pod), small, [{**other, "status": {"phase": "Succeeded"}}]) == [
        "example.com/gpu"
    ]
    assert insufficient_resources(pod_requests(new_pod), node("n"), []) == []


def test_says_why() -> None:
    """The message counts nodes by reason, in the scheduler's words."""
    nodes = [node("a", taints=[TAINT]), node("b", unschedulable=True), node("c", taints=[TAINT])]
    assert schedule(pod(), nodes).message == (
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s). no new claims to"
        " deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )
    assert schedule(pod(), []).message == "no nodes available to schedule pods"


def test_says_it_once() -> None:
    """A pod that says already why it waits is not written again."""
    waiting = pod()
    status = unschedulable(waiting, "why", "2024-01-01T00:00:00Z")
    assert status is not None
    assert unschedulable({**waiting, "status": status}, "why", "2025-01-01T00:00:00Z") is None
    assert waits_for_scheduler(waiting)
    assert not waits_for_scheduler(pod(schedulingGates=[{"name": "x"}]))
    assert not waits_for_scheduler(pod(schedulerName="mine"))


async def test_waits_for_room() -> None:
    """A pod that asks for too much waits, says so, and is placed when another one ends."""
    async with Environment(controllers=["kubelet"]) as env:
        api = Kubectl(env)
        for name in "ab":
            inner = template(name)
            inner["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "40"}}
            meta = {"name": name, **inner["metadata"]}
            await api.create(
                f"{CORE}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": inner["spec"]}
            )
            await settle()
        waiting = condition(await api.get(f"{CORE}/pods/b"), "PodScheduled")
        assert waiting["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
        events = [e for e in await api.items(f"{CORE}/events") if e["involvedObject"]["name"] == "b"]
        assert [e["reason"] for e in events] == ["FailedScheduling"]
        await api.delete(f"{CORE}/pods/a")
        await settle()
        assert condition(await api.get(f"{CORE}/pods/b"), "Ready")["status"] == "True"
