"""Priorities come from classes."""

from __future__ import annotations

from typing import Any

from server_caller import MERGE, Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PODS = "/api/v1/namespaces/default/pods"


def pod(name: str, **spec: Any) -> JsonObject:
    """A pod."""
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x"}], **spec}}


async def test_the_default_class_is_everybodys() -> None:
    """Pods that name no class get the default one; there is only one; it may be written again."""
    async with Environment() as env:
        call = Caller(env)
        response = await call("POST", CLASSES, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
        assert response.status == 201
        other = await call("POST", CLASSES, {"metadata": {"name": "other"}, "value": 8, "globalDefault": True})
        assert other.status == 403
        assert other.json["message"] == (
            'priorityclasses.scheduling.k8s.io "other" is forbidden: PriorityClass usual is already marked as default.'
            " Only one default can exist"
        )
        same = await call("PATCH", f"{CLASSES}/usual", {"description": "d"}, content_type=MERGE)
        assert same.status == 200
        spec = (await call("POST", PODS, pod("a"))).json["spec"]
        assert (spec["priorityClassName"], spec["priority"]) == ("usual", 7)
        assert (await call("DELETE", f"{CLASSES}/usual")).status == 200
        assert (await call("POST", PODS, pod("b"))).json["spec"]["priority"] == 0


async def test_what_a_pod_says_agrees_with_its_class() -> None:
    """A preemption policy that contradicts the class is rejected; an update without priority and policy keeps both."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CLASSES, {"metadata": {"name": "calm"}, "value": 1, "preemptionPolicy": "Never"})
        wrong = pod("a", priorityClassName="calm", preemptionPolicy="PreemptLowerPriority")
        answer = await call("POST", PODS, wrong)
        assert answer.json["message"] == (
            'pods "a" is forbidden: the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in'
            " pod spec; priority admission controller computed Never from the given PriorityClass name"
        )
        stored = (await call("POST", PODS, pod("a", priorityClassName="calm"))).json
        stored["metadata"]["labels"] = {"a": "b"}
        del stored["spec"]["priority"], stored["spec"]["preemptionPolicy"]
        changed = await call("PUT", f"{PODS}/a", stored)
        assert changed.status == 200
        assert (changed.json["spec"]["priority"], changed.json["spec"]["preemptionPolicy"]) == (1, "Never")


async def test_messages_show_the_generate_name() -> None:
    """The message about an object without a name shows its generateName."""
    async with Environment() as env:
        body = pod("", priorityClassName="nope")
        body["metadata"] = {"generateName": "gen-"}
        answer = await Caller(env)("POST", PODS, body)
        assert answer.json["message"] == 'pods "gen-" is forbidden: no PriorityClass with name nope was found'


async def test_system_priority_classes_exist_and_are_fixed() -> None:
    """The system's priority classes exist, keep their values, and cannot be deleted."""
    async with Environment() as env:
        call = Caller(env)
        names = [c["metadata"]["name"] for c in (await call("GET", CLASSES)).json["items"]]
        assert names == ["system-cluster-critical", "system-node-critical"]
        answer = await call("PATCH", f"{CLASSES}/system-node-critical", {"value": 5}, content_type=MERGE)
        assert answer.status == 422
        assert (await call("DELETE", f"{CLASSES}/system-cluster-critical")).status == 403
