"""Laws of `envtest.controllers.node_lifecycle` and `envtest.controllers.pods.garbage_collector`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from envtest.controllers.node_lifecycle import (
    seconds_until_eviction,
    wanted_taints,
    with_disruption_target,
    with_taints,
)
from envtest.controllers.objects import stamp
from envtest.controllers.pods.garbage_collector import collect_terminated
from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import APPS, CORE, Kubectl, condition, deployment, settle, template

NODES = "/api/v1/nodes"
NOW = datetime(2024, 1, 1, tzinfo=UTC)
_STATUSES = st.sampled_from(["True", "False", "Unknown"])


def _node(ready: str, pressures: list[str], *, cordoned: bool, taints: list[JsonObject]) -> JsonObject:
    conditions = [{"type": "Ready", "status": ready}, *({"type": p, "status": "True"} for p in pressures)]
    return {
        "metadata": {"name": "n"},
        "spec": {"unschedulable": cordoned, "taints": taints},
        "status": {"conditions": conditions},
    }


_TAINTS = st.lists(
    st.sampled_from(
        [
            {"key": "mine", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"},
        ]
    ),
    unique_by=lambda t: t["key"],
)


@given(_STATUSES, st.lists(st.sampled_from(["MemoryPressure", "DiskPressure"]), unique=True), st.booleans(), _TAINTS)
def test_taints_follow_conditions(ready: str, pressures: list[str], cordoned: bool, taints: list[JsonObject]) -> None:
    """After one step a node has exactly the taints that follow, its own beside them, and needs no second step."""
    node = _node(ready, pressures, cordoned=cordoned, taints=taints)
    after = with_taints(node, NOW) or node
    result = {(t["key"], t["effect"]) for t in after["spec"]["taints"]}
    own_taint = {("mine", "NoSchedule")} if any(t["key"] == "mine" for t in taints) else set()
    assert result == wanted_taints(node) | own_taint
    assert with_taints(after, NOW) is None


def _pod(*tolerations: JsonObject) -> JsonObject:
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": {"tolerations": list(tolerations)}, "status": {}}


def test_tolerations_delay_eviction() -> None:
    """A NoExecute taint evicts at once, after tolerationSeconds, or never if the toleration is unlimited."""
    taint = {"key": "k", "effect": "NoExecute", "timeAdded": stamp(NOW - timedelta(seconds=10))}
    assert seconds_until_eviction(_pod(), [taint], NOW) == 0
    assert seconds_until_eviction(_pod({"key": "k", "operator": "Exists", "tolerationSeconds": 30}), [taint], NOW) == 20
    assert seconds_until_eviction(_pod({"key": "k", "operator": "Exists"}), [taint], NOW) is None
    assert seconds_until_eviction(_pod(), [{**taint, "effect": "NoSchedule"}], NOW) is None


def test_only_the_youngest_finished_pods_are_kept() -> None:
    """Above the threshold, the oldest finished pods are deleted."""
    pods = [{"metadata": {"name": f"p{n}", "creationTimestamp": f"2024-01-0{n}T00:00:00Z"}} for n in range(1, 6)]
    going = [w.obj["metadata"]["name"] for w in collect_terminated(pods, 3) if hasattr(w, "obj")]
    assert going == ["p1", "p2"]


def test_disruption_is_recorded_once() -> None:
    """A pod that says already why it is ended is not written again."""
    message = with_disruption_target(_pod(), "DeletionByTaintManager", "text", NOW)
    assert message is not None
    assert with_disruption_target(message.obj, "DeletionByTaintManager", "text", NOW) is None


async def _sicken(api: Kubectl, name: str, status: str) -> None:
    node = await api.get(f"{NODES}/{name}")
    conditions = [{**c, "status": status} if c["type"] == "Ready" else c for c in node["status"]["conditions"]]
    await api.merge(f"{NODES}/{name}/status", {"status": {"conditions": conditions}})


async def _places(api: Kubectl) -> set[str]:
    return {
        p["spec"].get("nodeName", "")
        for p in await api.items(f"{CORE}/pods")
        if "deletionTimestamp" not in p["metadata"]
    }


def _node_object(name: str, **labels: Any) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


async def test_node_goes_away_and_comes_back() -> None:
    """Pods of a node that is away are not ready, move after five minutes, and end when the node is back."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(NODES, _node_object("n2"))
        await settle()
        await api.create(f"{APPS}/deployments", deployment("web", replicas=12))
        await settle()
        assert await _places(api) == {"node-1", "n2"}
        await _sicken(api, "n2", "Unknown")
        await settle(5)
        away = [p for p in await api.items(f"{CORE}/pods") if p["spec"]["nodeName"] == "n2"]
        assert {condition(p, "Ready")["status"] for p in away} == {"False"}
        assert (await api.get(f"{APPS}/deployments/web"))["status"]["availableReplicas"] == 12 - len(away)
        await settle(310)
        assert await _places(api) == {"node-1"}
        assert (await api.get(f"{APPS}/deployments/web"))["status"]["availableReplicas"] == 12
        assert len(await api.items(f"{CORE}/pods")) == 12 + len(away), "nobody confirms that they have ended"
        await _sicken(api, "n2", "True")
        await settle(5)
        assert len(await api.items(f"{CORE}/pods")) == 12
        assert not (await api.get(f"{NODES}/n2"))["spec"].get("taints")


async def test_taint_evicts() -> None:
    """A NoExecute taint evicts pods that do not tolerate it, with a condition that gives the reason."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        inner = template("p")
        meta = {"name": "p", "finalizers": ["example.com/look"], **inner["metadata"]}
        await api.create(f"{CORE}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": inner["spec"]})
        await settle()
        taints = [{"key": "broken", "effect": "NoExecute"}]
        await api.merge(f"{NODES}/node-1", {"spec": {"taints": taints}})
        await settle()
        current = await api.get(f"{CORE}/pods/p")
        assert current["metadata"]["deletionTimestamp"]
        assert condition(current, "DisruptionTarget")["reason"] == "DeletionByTaintManager"
        assert "TaintManagerEviction" in {e["reason"] for e in await api.items(f"{CORE}/events")}


async def test_pods_of_a_deleted_node_are_removed() -> None:
    """Pods of a deleted node fail and are deleted, and their owner replaces them."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(NODES, _node_object("n2", disk="fast"))
        await settle()
        inner = template("p", nodeSelector={"disk": "fast"})
        meta = {"name": "p", **inner["metadata"]}
        await api.create(f"{CORE}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": inner["spec"]})
        await settle()
        await api.delete(f"{NODES}/n2")
        await settle(30)
        assert await api.names(f"{CORE}/pods") == ["p"]
        await settle(30)
        assert await api.names(f"{CORE}/pods") == []


async def test_an_unscheduled_deleted_pod_fails_at_once() -> None:
    """A deleted pod without node that a finalizer holds fails at once."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        inner = template("p", nodeSelector={"disk": "none"})
        meta = {"name": "p", "finalizers": ["example.com/hold"], **inner["metadata"]}
        await api.create(f"{CORE}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": inner["spec"]})
        await settle()
        await api.delete(f"{CORE}/pods/p")
        await settle()
        assert (await api.get(f"{CORE}/pods/p"))["status"]["phase"] == "Failed"
        await api.merge(f"{CORE}/pods/p", {"metadata": {"finalizers": None}})
        await settle()
        assert await api.names(f"{CORE}/pods") == []
