"""Laws of `envtest.controllers.disruption`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest.controllers.disruption import DisruptionBudgetView, count, needs_scale, with_sync_failure
from envtest.controllers.objects import stamp
from envtest.controllers.stages import Stage, State
from envtest.environment import Environment
from opsdk.errors import TooManyRequestsError
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import APPS, CORE, Kubectl, condition, deployment, settle, template

POLICY = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
NOW = datetime(2024, 1, 1, tzinfo=UTC)


def budget(name: str, **spec: Any) -> JsonObject:
    """A PodDisruptionBudget."""
    inner = {"selector": {"matchLabels": {"app": name}}, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": inner}


def _pods(ready: int, others: int) -> list[JsonObject]:
    created = []
    for number in range(ready + others):
        conditions = [{"type": "Ready", "status": "True" if number < ready else "False"}]
        meta = {"name": f"p{number}", "labels": {"app": "b"}, "uid": f"{number}"}
        created.append({"metadata": meta, "spec": {}, "status": {"phase": "Running", "conditions": conditions}})
    return created


_SHARES = st.integers(0, 100).map(lambda n: f"{n}%") | st.integers(0, 12)


@given(st.integers(0, 10), st.integers(0, 10), st.integers(0, 12), _SHARES, st.booleans())
def test_never_allows_too_much(ready: int, others: int, scale: int, bound: int | str, most: bool) -> None:
    """The allowed disruptions are the healthy pods above the desired number, and never negative."""
    spec = {"maxUnavailable": bound} if most else {"minAvailable": bound}
    obj = {**budget("b", **spec), "metadata": {"name": "b", "generation": 3}}
    status, _ = count(
        DisruptionBudgetView(obj, _pods(ready, others), {"owner": scale} if needs_scale(obj) else {}, NOW)
    )
    assert status["observedGeneration"] == 3
    assert status["currentHealthy"] == ready
    assert 0 <= status["disruptionsAllowed"] <= ready
    if status["disruptionsAllowed"]:
        assert status["disruptionsAllowed"] + status["desiredHealthy"] == ready
    assert (status["disruptionsAllowed"] > 0) == (status["conditions"][0]["status"] == "True")


def test_evicted_pods_count_as_gone_for_a_while() -> None:
    """A pod that was evicted does not count as healthy, until it is clear that it stays."""
    obj = {**budget("b", minAvailable=1), "status": {"disruptedPods": {"p0": stamp(NOW)}}}
    status, again = count(DisruptionBudgetView(obj, _pods(2, 0), {}, NOW + timedelta(seconds=20)))
    assert (status["currentHealthy"], again) == (1, 100)
    status, again = count(DisruptionBudgetView(obj, _pods(2, 0), {}, NOW + timedelta(seconds=121)))
    assert (status["currentHealthy"], again) == (2, None)
    assert "disruptedPods" not in status


def test_a_sync_failure_allows_no_disruptions() -> None:
    """A budget whose expected pods are unknown allows no disruption and reports SyncFailed once."""
    obj = {**budget("b", maxUnavailable=1), "status": {"disruptionsAllowed": 2, "currentHealthy": 3}}
    status = with_sync_failure(obj, "found no controllers", NOW)
    assert status["disruptionsAllowed"] == 0
    assert status["conditions"][0]["reason"] == "SyncFailed"
    assert with_sync_failure({**obj, "status": status}, "found no controllers", NOW + timedelta(hours=1)) == status


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"minAvailable": 2}, (1, 2, 3)),
        ({"maxUnavailable": 1}, (1, 2, 3)),
        ({"minAvailable": "50%"}, (1, 2, 3)),
        ({"maxUnavailable": "100%"}, (3, 0, 3)),
    ],
)
async def test_the_status_counts_expected_and_desired_pods(spec: JsonObject, wanted: tuple[int, int, int]) -> None:
    """The status has the expected pods, the desired healthy pods and the allowed disruptions."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web", replicas=3))
        await api.create(POLICY, budget("web", **spec))
        await settle()
        result = await api.get(f"{POLICY}/web")
        status = result["status"]
        assert (status["disruptionsAllowed"], status["desiredHealthy"], status["expectedPods"]) == wanted
        assert condition(result, "DisruptionAllowed")["reason"] == "SufficientPods"


async def test_eviction_respects_the_budget() -> None:
    """After one eviction the next is rejected until another pod is healthy."""
    stages = (Stage(at=State.PENDING, to=State.READY, delay=30), Stage(at=State.TERMINATING, to=None))
    async with Environment(controllers="cluster", stages=stages) as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web", replicas=2))
        await api.create(POLICY, budget("web", maxUnavailable=1))
        await settle(60)
        first, second = await api.names(f"{CORE}/pods")
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": first}}
        await api.create(f"{CORE}/pods/{first}/eviction", eviction)
        await settle(5)
        assert (await api.get(f"{POLICY}/web"))["status"]["disruptionsAllowed"] == 0
        with pytest.raises(TooManyRequestsError):
            await api.create(f"{CORE}/pods/{second}/eviction", {**eviction, "metadata": {"name": second}})
        await settle(60)
        await api.create(f"{CORE}/pods/{second}/eviction", {**eviction, "metadata": {"name": second}})


async def test_a_plain_minimum_counts_pods_without_controller() -> None:
    """A budget with a plain minAvailable counts pods without controller."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        inner = template("web")
        await api.create(
            f"{CORE}/pods", {"apiVersion": "v1", "kind": "Pod", **inner, "metadata": {"name": "p", **inner["metadata"]}}
        )
        await api.create(POLICY, budget("web", minAvailable=1))
        await settle()
        status = (await api.get(f"{POLICY}/web"))["status"]
        assert (status["expectedPods"], status["currentHealthy"], status["disruptionsAllowed"]) == (1, 1, 0)


async def test_owners_without_scale_are_not_counted() -> None:
    """Pods whose owner has no scale are not counted, and condition and event report that."""
    stages = (Stage(at=State.PENDING, to=State.READY),)
    async with Environment(controllers="cluster", stages=stages) as env:
        api = Kubectl(env)
        spec = {"template": template("web", restartPolicy="Never")}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
        await api.create("/apis/batch/v1/namespaces/default/jobs", job)
        await api.create(POLICY, budget("web", maxUnavailable=1))
        await settle()
        observed = condition(await api.get(f"{POLICY}/web"), "DisruptionAllowed")
        assert (observed["reason"], observed["message"]) == (
            "SyncFailed",
            "jobs.batch does not implement the scale subresource",
        )
        [event] = [e for e in await api.items(f"{CORE}/events") if e["involvedObject"]["kind"] == "PodDisruptionBudget"]
        assert event["reason"] == "CalculateExpectedPodCountFailed"
        assert event["source"] == {"component": "controllermanager"}


async def test_custom_owners() -> None:
    """The size of a custom owner is read from its scale subresource."""
    columns = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "farms.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "farms", "kind": "Farm"},
            "versions": [{**version, "subresources": {"scale": columns}}],
        },
    }
    async with Environment(controllers="cluster", crds=[definition]) as env:
        api = Kubectl(env)
        farm = {"apiVersion": "example.com/v1", "kind": "Farm", "metadata": {"name": "f"}, "spec": {"replicas": 4}}
        owner = await api.create("/apis/example.com/v1/namespaces/default/farms", farm)
        refs = [{"apiVersion": "example.com/v1", "kind": "Farm", "name": "f", "uid": owner["metadata"]["uid"]}]
        inner = template("web")
        meta = {**inner["metadata"], "ownerReferences": [{**refs[0], "controller": True}]}
        for name in "ab":
            pod = {"apiVersion": "v1", "kind": "Pod", **inner, "metadata": {**meta, "name": name}}
            await api.create(f"{CORE}/pods", pod)
        await api.create(POLICY, budget("web", maxUnavailable=3))
        await settle()
        status = (await api.get(f"{POLICY}/web"))["status"]
        assert (status["expectedPods"], status["desiredHealthy"], status["disruptionsAllowed"]) == (4, 1, 1)


async def test_a_pod_that_stays() -> None:
    """A pod that was marked to go, and did not, is not marked after two minutes."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        inner = template("web")
        meta = {"name": "p", **inner["metadata"]}
        await api.create(f"{CORE}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": inner["spec"]})
        await settle()
        pod = await api.get(f"{CORE}/pods/p")
        mark = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": pod["status"]["startTime"]}
        conditions = [*pod["status"]["conditions"], mark]
        await api.merge(f"{CORE}/pods/p/status", {"status": {"conditions": conditions}})
        await settle(100)
        assert condition(await api.get(f"{CORE}/pods/p"), "DisruptionTarget")["status"] == "True"
        await settle(30)
        assert condition(await api.get(f"{CORE}/pods/p"), "DisruptionTarget")["status"] == "False"
