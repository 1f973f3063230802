"""Laws of `envtest.controllers.daemonset`."""

from __future__ import annotations

from typing import Any

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import APPS, CORE, Kubectl, settle, template

NODES = "/api/v1/nodes"


def daemon_set(name: str, *, image: str = "nginx:1", **pod: Any) -> JsonObject:
    """A DaemonSet."""
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template(name, image=image, **pod)}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec}


def node(name: str, **labels: str) -> JsonObject:
    """A Node."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


async def test_one_on_each_node() -> None:
    """Every node has one pod, new nodes too; the pods of nodes that are gone go."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/daemonsets", daemon_set("agent"))
        await api.create(NODES, node("n2"))
        await settle()
        places = sorted(p["spec"]["nodeName"] for p in await api.items(f"{CORE}/pods"))
        assert places == ["n2", "node-1"]
        status = (await api.get(f"{APPS}/daemonsets/agent"))["status"]
        expected = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
        assert [status[k] for k in expected] == [2] * 4
        await api.delete(f"{NODES}/n2")
        await settle()
        assert [p["spec"]["nodeName"] for p in await api.items(f"{CORE}/pods")] == ["node-1"]


async def test_pods_run_on_nodes_that_match_the_selector() -> None:
    """Matching nodes get a pod even if cordoned; a node that loses the label loses its pod."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(NODES, node("n2", disk="fast"))
        await api.merge(f"{NODES}/n2", {"spec": {"unschedulable": True}})
        await api.create(f"{APPS}/daemonsets", daemon_set("agent", nodeSelector={"disk": "fast"}))
        await settle()
        assert [p["spec"]["nodeName"] for p in await api.items(f"{CORE}/pods")] == ["n2"]
        await api.merge(f"{NODES}/n2", {"metadata": {"labels": {"disk": None}}})
        await settle()
        assert await api.names(f"{CORE}/pods") == []


async def test_a_new_template_reaches_every_node() -> None:
    """A new template replaces the pods on all nodes."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(NODES, node("n2"))
        await api.create(f"{APPS}/daemonsets", daemon_set("agent"))
        await settle()
        await api.send("PUT", f"{APPS}/daemonsets/agent", daemon_set("agent", image="x:2"))
        await settle()
        assert [p["spec"]["containers"][0]["image"] for p in await api.items(f"{CORE}/pods")] == ["x:2"] * 2
        status = (await api.get(f"{APPS}/daemonsets/agent"))["status"]
        assert status["updatedNumberScheduled"] == status["numberAvailable"] == 2
