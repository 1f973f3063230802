"""Laws of `envtest.controllers.kubelet`."""

from __future__ import annotations

import math
from typing import Any

from envtest.controllers.scheduler import schedule
from envtest.controllers.stages import DEFAULT_STAGES, Stage, State
from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import CORE, Kubectl, condition, settle, template


def pod(name: str, **spec: Any) -> JsonObject:
    """Return a pod without an owner."""
    inner = template(name, **spec)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **inner["metadata"]}, "spec": inner["spec"]}


def test_schedules_by_labels() -> None:
    """A pod is bound to a ready node with the labels of its nodeSelector; without one it stays pending."""
    here: JsonObject = {"metadata": {"name": "here", "labels": {"disk": "fast"}}}
    shut: JsonObject = {"metadata": {"name": "shut", "labels": {"disk": "fast"}}, "spec": {"unschedulable": True}}
    wish: JsonObject = {"metadata": {"uid": "0" * 32}, "spec": {"nodeSelector": {"disk": "fast"}}}
    assert schedule(wish, [shut, here]).node == "here"
    assert not schedule(wish, [shut]).node


async def test_runs_pods() -> None:
    """The node is ready; a pod is bound to it and runs; the kubelet owns its status."""
    async with Environment(controllers=["kubelet"]) as env:
        api = Kubectl(env)
        assert condition(await api.get("/api/v1/nodes/node-1"), "Ready")["status"] == "True"
        await api.create(f"{CORE}/pods", pod("p"))
        await settle()
        current = await api.get(f"{CORE}/pods/p")
        assert condition(current, "PodScheduled")["status"] == "True"
        assert condition(current, "Ready")["status"] == "True"
        [status] = current["status"]["containerStatuses"]
        assert status["state"]["running"]
        managers = {m["manager"]: m.get("subresource", "") for m in current["metadata"]["managedFields"]}
        assert managers["kubelet"] == "status"


async def test_the_first_matching_stage_moves_a_pod() -> None:
    """A stage moves matching pods to a state after its delay; the first match counts."""
    stages = (
        Stage(at=State.PENDING, to=State.RUNNING, delay=5, selector={"app": "bad"}),
        Stage(at=State.RUNNING, to=State.FAILED, delay=5, reason="Boom"),
        Stage(at=State.PENDING, to=State.READY),
    )
    async with Environment(controllers=["kubelet"], stages=stages) as env:
        api = Kubectl(env)
        await api.create(f"{CORE}/pods", pod("good"))
        await api.create(f"{CORE}/pods", pod("bad"))
        phases, result = [], {}
        for wait in (1, 5, 5):
            await settle(wait)
            result = await api.get(f"{CORE}/pods/bad")
            phases.append((result["status"]["phase"], condition(result, "Ready").get("status")))
        assert phases == [("Pending", "False"), ("Running", "False"), ("Failed", "False")]
        assert result["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "Boom"
        assert condition(await api.get(f"{CORE}/pods/good"), "Ready")["status"] == "True"


async def test_graceful_deletion() -> None:
    """A deleted pod stays, marked, until its node says that it has ended."""
    stages = (Stage(at=State.PENDING, to=State.READY), Stage(at=State.TERMINATING, to=None, delay=7))
    async with Environment(controllers=["kubelet"], stages=stages) as env:
        api = Kubectl(env)
        await api.create(f"{CORE}/pods", pod("p"))
        await settle()
        await api.delete(f"{CORE}/pods/p")
        await settle(5)
        assert (await api.get(f"{CORE}/pods/p"))["metadata"]["deletionTimestamp"]
        await settle(5)
        assert await api.names(f"{CORE}/pods") == []


async def test_finalizers_hold_pods() -> None:
    """A finished pod with a finalizer is visible until the finalizer is removed."""
    async with Environment(controllers=["kubelet"]) as env:
        api = Kubectl(env)
        held = pod("p")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await api.create(f"{CORE}/pods", held)
        await settle()
        await api.delete(f"{CORE}/pods/p")
        await settle()
        assert (await api.get(f"{CORE}/pods/p"))["status"]["phase"] == "Succeeded"
        await api.merge(f"{CORE}/pods/p", {"metadata": {"finalizers": None}})
        await settle()
        assert await api.names(f"{CORE}/pods") == []


async def test_an_unschedulable_pod_waits_for_a_node() -> None:
    """A pod that fits no node is Unschedulable until a node fits."""
    async with Environment(controllers=["kubelet"]) as env:
        api = Kubectl(env)
        await api.create(f"{CORE}/pods", pod("p", nodeSelector={"disk": "fast"}))
        await settle()
        current = await api.get(f"{CORE}/pods/p")
        assert condition(current, "PodScheduled")["reason"] == "Unschedulable"
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2", "labels": {"disk": "fast"}}}
        await api.create("/api/v1/nodes", node)
        await settle()
        current = await api.get(f"{CORE}/pods/p")
        assert current["spec"]["nodeName"] == "n2"
        assert current["status"]["phase"] == "Running"


async def test_a_readiness_gate_delays_ready() -> None:
    """A pod with a readiness gate is ready after its condition is set."""
    async with Environment(controllers=["kubelet"]) as env:
        api = Kubectl(env)
        await api.create(f"{CORE}/pods", pod("p", readinessGates=[{"conditionType": "example.com/ok"}]))
        await settle()
        current = await api.get(f"{CORE}/pods/p")
        assert condition(current, "Ready")["status"] == "False"
        gate = {"type": "example.com/ok", "status": "True"}
        conditions = [*current["status"]["conditions"], gate]
        await api.merge(f"{CORE}/pods/p/status", {"status": {"conditions": conditions}})
        await settle()
        assert condition(await api.get(f"{CORE}/pods/p"), "Ready")["status"] == "True"


async def test_crash_loop() -> None:
    """Crashing containers are restarted at once, then with a growing back-off, until the stage is used up."""
    stages = (
        Stage(at=State.READY, to=State.CRASHED, delay=1, exit_code=2, times=3),
        *DEFAULT_STAGES,
    )
    async with Environment(controllers=["kubelet"], stages=stages) as env:
        api = Kubectl(env)
        await api.create(f"{CORE}/pods", pod("p"))
        waits = []
        for wait in (1.5, 1, 6, 10, 30):
            await settle(wait)
            [status] = (await api.get(f"{CORE}/pods/p"))["status"]["containerStatuses"]
            waits.append((next(iter(status["state"])), status["restartCount"]))
        assert waits == [("running", 1), ("waiting", 1), ("waiting", 1), ("waiting", 2), ("running", 3)]
        assert status["lastState"]["terminated"]["exitCode"] == 2
        reasons = {e["reason"]: e["count"] for e in await api.items(f"{CORE}/events")}
        assert reasons == {"Scheduled": 1, "Started": 4, "BackOff": 3}


async def test_waits_for_an_image() -> None:
    """A pod whose image cannot be pulled says so and stays pending, until a rule lets it go on."""
    stages = (
        Stage(at=State.PENDING, to=State.WAITING, reason="ImagePullBackOff", message="no such image"),
        Stage(at=State.WAITING, to=State.READY, delay=60),
    )
    async with Environment(controllers=["kubelet"], stages=stages) as env:
        api = Kubectl(env)
        await api.create(f"{CORE}/pods", pod("p"))
        await settle(30)
        current = await api.get(f"{CORE}/pods/p")
        [status] = current["status"]["containerStatuses"]
        assert status["state"] == {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
        assert current["status"]["phase"] == "Pending"
        await settle(60)
        assert condition(await api.get(f"{CORE}/pods/p"), "Ready")["status"] == "True"


async def test_killed_when_the_grace_is_over() -> None:
    """A pod that does not end in time is killed; a task that is held shows how it ended."""
    stages = (Stage(at=State.PENDING, to=State.READY), Stage(at=State.TERMINATING, to=None, delay=math.inf))
    async with Environment(controllers=["kubelet"], stages=stages) as env:
        api = Kubectl(env)
        held = pod("p", terminationGracePeriodSeconds=20, restartPolicy="Never")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await api.create(f"{CORE}/pods", held)
        await settle()
        await api.delete(f"{CORE}/pods/p")
        await settle(19)
        assert (await api.get(f"{CORE}/pods/p"))["status"]["phase"] == "Running"
        await settle(2)
        current = await api.get(f"{CORE}/pods/p")
        assert current["status"]["phase"] == "Failed"
        assert current["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


async def test_an_added_node_becomes_ready() -> None:
    """A node that a test adds becomes Ready with an address of its own."""
    async with Environment(controllers=["kubelet"]) as env:
        api = Kubectl(env)
        await api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}})
        await settle()
        first, second = await api.get("/api/v1/nodes/node-1"), await api.get("/api/v1/nodes/n2")
        assert condition(second, "Ready")["status"] == "True"
        assert second["metadata"]["labels"]["kubernetes.io/hostname"] == "n2"
        assert first["status"]["addresses"][0] != second["status"]["addresses"][0]
        assert not second["spec"].get("taints")
