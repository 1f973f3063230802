"""Laws of `envtest.controllers.deployment`."""

from __future__ import annotations

from envtest.controllers.stages import Stage, State
from envtest.environment import Environment
from opsdk.aio.tasks import TaskOwner
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import APPS, CORE, Kubectl, condition, deployment, settle

SLOW = (
    Stage(at=State.PENDING, to=State.READY, delay=10),
    Stage(at=State.TERMINATING, to=None, delay=3),
)


async def test_becomes_available() -> None:
    """A deployment gets one replica set, its pods, and the status that `kubectl rollout status` waits for."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web", replicas=3))
        await settle()
        current = await api.get(f"{APPS}/deployments/web")
        status = current["status"]
        assert status["observedGeneration"] == current["metadata"]["generation"]
        assert [status[k] for k in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")] == [3] * 4
        assert "unavailableReplicas" not in status
        assert condition(current, "Available")["reason"] == "MinimumReplicasAvailable"
        assert condition(current, "Progressing")["reason"] == "NewReplicaSetAvailable"
        assert current["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
        [replica_set] = await api.items(f"{APPS}/replicasets")
        digest = replica_set["metadata"]["labels"]["pod-template-hash"]
        assert replica_set["metadata"]["name"] == f"web-{digest}"
        pods = await api.items(f"{CORE}/pods")
        assert len(pods) == 3
        for pod in pods:
            assert pod["metadata"]["name"].startswith(f"web-{digest}-")
            assert pod["metadata"]["ownerReferences"][0]["uid"] == replica_set["metadata"]["uid"]
            assert pod["spec"]["nodeName"] == "node-1"
            assert pod["status"]["phase"] == "Running"


async def test_says_while_it_is_not_available() -> None:
    """Until enough pods are ready, Available is False and Progressing says that the replica set is being updated."""
    async with Environment(controllers="cluster", stages=SLOW) as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web", replicas=2))
        await settle(5)
        current = await api.get(f"{APPS}/deployments/web")
        assert condition(current, "Available")["reason"] == "MinimumReplicasUnavailable"
        assert condition(current, "Progressing")["reason"] == "ReplicaSetUpdated"
        assert current["status"]["unavailableReplicas"] == 2
        await settle(10)
        current = await api.get(f"{APPS}/deployments/web")
        assert condition(current, "Available")["status"] == "True"
        assert condition(current, "Progressing")["reason"] == "NewReplicaSetAvailable"


async def test_a_stalled_rollout_exceeds_its_progress_deadline() -> None:
    """A rollout without progress reports ProgressDeadlineExceeded, and recovers when it progresses."""
    stages = (Stage(at=State.PENDING, to=State.READY, delay=100),)
    async with Environment(controllers="cluster", stages=stages) as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web", progressDeadlineSeconds=30))
        await settle(50)
        current = await api.get(f"{APPS}/deployments/web")
        assert condition(current, "Progressing")["reason"] == "ProgressDeadlineExceeded"
        assert condition(current, "Progressing")["status"] == "False"
        await settle(100)
        current = await api.get(f"{APPS}/deployments/web")
        assert condition(current, "Progressing")["reason"] == "NewReplicaSetAvailable"


class Watcher:
    """Counts pods at every change."""

    def __init__(self, env: Environment) -> None:
        self._watch = env.plane.storage.watch_now("core/pods/")
        self.pods: dict[str, JsonObject] = {}
        self.least, self.most = 1_000, 0

    async def run(self) -> None:
        async for change in self._watch:
            if change.value is None or change.kind.value == "delete":
                self.pods.pop(change.key, None)
            else:
                self.pods[change.key] = change.value
            live = [p for p in self.pods.values() if not p["metadata"].get("deletionTimestamp")]
            ready = [p for p in live if condition(p, "Ready").get("status") == "True"]
            self.least, self.most = min(self.least, len(ready)), max(self.most, len(live))


async def test_rolls_within_bounds() -> None:
    """A rolling update never goes below what must be available nor above what may be there, and ends with new pods."""
    async with Environment(controllers="cluster", stages=SLOW) as env:
        api = Kubectl(env)
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}}
        await api.create(f"{APPS}/deployments", deployment("web", replicas=4, strategy=rolling))
        await settle(30)
        watcher = Watcher(env)
        for pod in await api.items(f"{CORE}/pods"):
            watcher.pods[f"core/pods/default/{pod['metadata']['name']}"] = pod
        async with TaskOwner("test") as tasks:
            tasks.start(watcher.run(), name="watcher")
            await api.send(
                "PUT", f"{APPS}/deployments/web", deployment("web", replicas=4, image="x:2", strategy=rolling)
            )
            await settle(200)
        assert watcher.least >= 3
        assert watcher.most == 5
        images = {p["spec"]["containers"][0]["image"] for p in await api.items(f"{CORE}/pods")}
        assert images == {"x:2"}
        sizes = [s["spec"]["replicas"] for s in await api.items(f"{APPS}/replicasets")]
        assert sorted(sizes) == [0, 4]
        current = await api.get(f"{APPS}/deployments/web")
        assert current["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
        assert condition(current, "Progressing")["reason"] == "NewReplicaSetAvailable"


async def test_recreate_waits_for_the_old_pods() -> None:
    """With Recreate, new pods start after the last old pod is gone."""
    async with Environment(controllers="cluster", stages=SLOW) as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web", replicas=2, strategy={"type": "Recreate"}))
        await settle(30)
        desired = deployment("web", replicas=2, image="x:2", strategy={"type": "Recreate"})
        await api.send("PUT", f"{APPS}/deployments/web", desired)
        await settle(2)
        images = [p["spec"]["containers"][0]["image"] for p in await api.items(f"{CORE}/pods")]
        assert images == ["nginx:1", "nginx:1"]
        await settle(30)
        images = [p["spec"]["containers"][0]["image"] for p in await api.items(f"{CORE}/pods")]
        assert images == ["x:2", "x:2"]


async def test_scaling_keeps_the_replica_set() -> None:
    """Scaling through the scale subresource keeps the template and the replica set."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web", replicas=2))
        await settle()
        for size in (5, 1, 0, 3):
            await api.merge(f"{APPS}/deployments/web/scale", {"spec": {"replicas": size}})
            await settle()
            assert len(await api.items(f"{CORE}/pods")) == size
            current = await api.get(f"{APPS}/deployments/web")
            assert current["status"].get("availableReplicas", 0) == size
        assert len(await api.items(f"{APPS}/replicasets")) == 1


async def test_scales_in_the_middle_of_a_rollout() -> None:
    """A new size during a rollout is shared, and the rollout ends at the new size."""
    async with Environment(controllers="cluster", stages=SLOW) as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web", replicas=4))
        await settle(30)
        await api.send("PUT", f"{APPS}/deployments/web", deployment("web", replicas=4, image="x:2"))
        await settle(5)
        await api.merge(f"{APPS}/deployments/web/scale", {"spec": {"replicas": 8}})
        await settle(300)
        pods = await api.items(f"{CORE}/pods")
        assert [p["spec"]["containers"][0]["image"] for p in pods] == ["x:2"] * 8


async def test_a_paused_deployment_scales_without_rolling() -> None:
    """A paused deployment scales but does not roll out; a resumed one does."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web", replicas=2))
        await settle()
        await api.send("PUT", f"{APPS}/deployments/web", deployment("web", replicas=3, image="x:2", paused=True))
        await settle()
        pods = await api.items(f"{CORE}/pods")
        assert [p["spec"]["containers"][0]["image"] for p in pods] == ["nginx:1"] * 3
        assert condition(await api.get(f"{APPS}/deployments/web"), "Progressing")["reason"] == "DeploymentPaused"
        await api.merge(f"{APPS}/deployments/web", {"spec": {"paused": False}})
        await settle()
        pods = await api.items(f"{CORE}/pods")
        assert [p["spec"]["containers"][0]["image"] for p in pods] == ["x:2"] * 3


async def test_history_and_rollback() -> None:
    """Old replica sets are kept up to the limit; going back takes the old one again, under a new revision."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web", revisionHistoryLimit=2))
        for number in range(2, 6):
            await settle()
            body = deployment("web", image=f"x:{number}", revisionHistoryLimit=2)
            await api.send("PUT", f"{APPS}/deployments/web", body)
        await settle()
        before = await api.names(f"{APPS}/replicasets")
        assert len(before) == 3
        await api.send("PUT", f"{APPS}/deployments/web", deployment("web", image="x:4", revisionHistoryLimit=2))
        await settle()
        assert await api.names(f"{APPS}/replicasets") == before
        current = await api.get(f"{APPS}/deployments/web")
        assert current["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "6"


async def test_a_taken_replica_set_name_raises_the_collision_count() -> None:
    """If another object owns the replica set's name, collisionCount rises and gives another name."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web"))
        await settle()
        [name] = await api.names(f"{APPS}/replicasets")
        await api.delete(f"{APPS}/deployments/web", propagationPolicy="Orphan")
        await settle()
        await api.merge(f"{APPS}/replicasets/{name}", {"metadata": {"labels": {"app": "other"}}})
        await api.create(f"{APPS}/deployments", deployment("web"))
        await settle(10)
        current = await api.get(f"{APPS}/deployments/web")
        assert current["status"]["collisionCount"] == 1
        assert current["status"]["availableReplicas"] == 1
        assert len(await api.names(f"{APPS}/replicasets")) == 2


async def test_a_rejected_replica_set_is_reported() -> None:
    """A rejected replica set gives a condition and an event, and the Deployment continues later."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        hard = {"hard": {"count/replicasets.apps": "0"}}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": hard}
        await api.create(f"{CORE}/resourcequotas", quota)
        await settle()
        await api.create(f"{APPS}/deployments", deployment("web"))
        await settle()
        progress = condition(await api.get(f"{APPS}/deployments/web"), "Progressing")
        assert (progress["status"], progress["reason"]) == ("False", "ReplicaSetCreateError")
        assert "exceeded quota: q" in progress["message"]
        assert "ReplicaSetCreateError" in {e["reason"] for e in await api.items(f"{CORE}/events")}
        await api.delete(f"{CORE}/resourcequotas/q")
        await settle(60)
        current = await api.get(f"{APPS}/deployments/web")
        assert condition(current, "Progressing")["reason"] == "NewReplicaSetAvailable"
