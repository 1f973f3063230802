"""Laws of `envtest.controllers.replicaset`."""

from __future__ import annotations

from datetime import UTC, datetime

from envtest.controllers.replicaset import deletion_order, plan
from envtest.controllers.stages import Stage, State
from envtest.controllers.writes import CreateWrite, DeleteWrite
from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import APPS, CORE, Kubectl, deployment, settle, template

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def replica_set(name: str, replicas: int) -> JsonObject:
    """A ReplicaSet as the server would have it."""
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name)}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec}


def pod(name: str, app: str, *, phase: str = "Running", node: str = "n") -> JsonObject:
    """A pod of a replica set."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": f"uid-{app}", "controller": True}
    meta = {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}, "ownerReferences": [owner]}
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": str(phase == "Running")}]}
    return {"metadata": meta, "spec": {"nodeName": node}, "status": status}


def test_makes_what_is_missing() -> None:
    """Finished pods do not count; the rest is filled up to the wish."""
    planned = plan(replica_set("a", 3), [pod("p", "a"), pod("q", "a", phase="Failed")], [], NOW)
    assert sum(isinstance(w, CreateWrite) for w in planned.writes) == 2
    assert not any(isinstance(w, DeleteWrite) for w in planned.writes)


def test_the_least_useful_pods_are_deleted_first() -> None:
    """Pods without node are deleted first, and then those that are not running."""
    pods = [pod("a", "a"), pod("b", "a", phase="Pending"), pod("c", "a", phase="Pending", node="")]
    assert [p["metadata"]["name"] for p in deletion_order(pods)] == ["c", "b", "a"]
    planned = plan(replica_set("a", 1), pods, [], NOW)
    assert [w.obj["metadata"]["name"] for w in planned.writes if isinstance(w, DeleteWrite)] == ["c", "b"]


async def test_a_killed_pod_comes_back() -> None:
    """A deleted or failed pod is replaced."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web", replicas=2))
        await settle()
        first, second = await api.names(f"{CORE}/pods")
        await api.delete(f"{CORE}/pods/{first}")
        await settle()
        names = await api.names(f"{CORE}/pods")
        assert len(names) == 2
        assert first not in names
        await api.merge(f"{CORE}/pods/{second}/status", {"status": {"phase": "Failed"}})
        await settle()
        running = [p for p in await api.items(f"{CORE}/pods") if p["status"]["phase"] == "Running"]
        assert len(running) == 2


async def test_adopts_and_releases() -> None:
    """A pod that loses the label is released and replaced; a matching orphan is adopted."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web"))
        await settle()
        [name] = await api.names(f"{CORE}/pods")
        labels = (await api.get(f"{CORE}/pods/{name}"))["metadata"]["labels"]
        await api.merge(f"{CORE}/pods/{name}", {"metadata": {"labels": {"app": "debug"}}})
        await settle()
        assert "ownerReferences" not in (await api.get(f"{CORE}/pods/{name}"))["metadata"]
        assert len(await api.names(f"{CORE}/pods")) == 2
        await api.merge(f"{CORE}/pods/{name}", {"metadata": {"labels": labels}})
        await settle()
        [remaining] = await api.items(f"{CORE}/pods")
        assert remaining["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"


async def test_min_ready_seconds() -> None:
    """A pod is available after it has been ready for ``minReadySeconds``."""
    async with Environment(controllers="cluster", stages=(Stage(at=State.PENDING, to=State.READY),)) as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web", minReadySeconds=20))
        await settle(10)
        status = (await api.get(f"{APPS}/deployments/web"))["status"]
        assert (status["readyReplicas"], status.get("availableReplicas", 0)) == (1, 0)
        await settle(15)
        assert (await api.get(f"{APPS}/deployments/web"))["status"]["availableReplicas"] == 1
