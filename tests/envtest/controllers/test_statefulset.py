"""Laws of `envtest.controllers.statefulset`."""

from __future__ import annotations

from typing import Any

from envtest.controllers.stages import Stage, State
from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import APPS, CORE, Kubectl, settle, template

SLOW = (Stage(at=State.PENDING, to=State.READY, delay=10), Stage(at=State.TERMINATING, to=None, delay=5))


def stateful_set(name: str, *, replicas: int = 3, image: str = "nginx:1", **spec: Any) -> JsonObject:
    """A StatefulSet."""
    inner = {
        "replicas": replicas,
        "serviceName": name,
        "selector": {"matchLabels": {"app": name}},
        "template": template(name, image=image),
        **spec,
    }
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": inner}


async def test_one_after_another() -> None:
    """Each pod is made when the one before is ready; the names are numbers."""
    async with Environment(controllers="cluster", stages=SLOW) as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/statefulsets", stateful_set("db"))
        pod_names = []
        for _ in range(3):
            await settle(8)
            pod_names.append(await api.names(f"{CORE}/pods"))
        assert pod_names == [["db-0"], ["db-0", "db-1"], ["db-0", "db-1", "db-2"]]
        await settle(30)
        result = await api.get(f"{APPS}/statefulsets/db")
        assert result["status"]["readyReplicas"] == result["status"]["updatedReplicas"] == 3
        assert result["status"]["currentRevision"] == result["status"]["updateRevision"]
        pod = await api.get(f"{CORE}/pods/db-1")
        assert pod["spec"]["hostname"] == "db-1"
        assert pod["spec"]["subdomain"] == "db"
        assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-1"


async def test_parallel_management_creates_all_pods_at_once() -> None:
    """With Parallel pod management, all pods are created at once."""
    async with Environment(controllers="cluster", stages=SLOW) as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/statefulsets", stateful_set("db", podManagementPolicy="Parallel"))
        await settle(1)
        assert len(await api.names(f"{CORE}/pods")) == 3


async def test_shrinks_from_the_end() -> None:
    """The highest number goes first, one at a time, and a lost pod comes back under its name."""
    async with Environment(controllers="cluster", stages=SLOW) as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/statefulsets", stateful_set("db"))
        await settle(60)
        uid = (await api.get(f"{CORE}/pods/db-0"))["metadata"]["uid"]
        await api.delete(f"{CORE}/pods/db-0")
        await settle(60)
        assert (await api.get(f"{CORE}/pods/db-0"))["metadata"]["uid"] != uid
        await api.merge(f"{APPS}/statefulsets/db/scale", {"spec": {"replicas": 1}})
        await settle(1)
        leaving = [
            p["metadata"]["name"] for p in await api.items(f"{CORE}/pods") if "deletionTimestamp" in p["metadata"]
        ]
        assert leaving == ["db-2"]
        await settle(60)
        assert await api.names(f"{CORE}/pods") == ["db-0"]


async def test_rolls_back_to_front() -> None:
    """An update replaces pods from the last to the partition; lost ones below it come back as they were."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/statefulsets", stateful_set("db"))
        await settle()
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
        await api.send("PUT", f"{APPS}/statefulsets/db", stateful_set("db", image="x:2", updateStrategy=strategy))
        await settle()
        await api.delete(f"{CORE}/pods/db-0")
        await settle()
        images = [p["spec"]["containers"][0]["image"] for p in await api.items(f"{CORE}/pods")]
        assert images == ["nginx:1", "nginx:1", "x:2"]
        strategy["rollingUpdate"] = {"partition": 0}
        await api.send("PUT", f"{APPS}/statefulsets/db", stateful_set("db", image="x:2", updateStrategy=strategy))
        await settle()
        images = [p["spec"]["containers"][0]["image"] for p in await api.items(f"{CORE}/pods")]
        assert images == ["x:2"] * 3
        status = (await api.get(f"{APPS}/statefulsets/db"))["status"]
        assert status["currentRevision"] == status["updateRevision"]
        assert len(await api.names(f"{APPS}/controllerrevisions")) == 2


async def test_each_pod_has_claims_that_outlive_it() -> None:
    """Each pod has its own claims, and deleting the StatefulSet keeps them."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claim = {"metadata": {"name": "data"}, "spec": spec}
        await api.create(f"{APPS}/statefulsets", stateful_set("db", replicas=2, volumeClaimTemplates=[claim]))
        await settle()
        assert await api.names(f"{CORE}/persistentvolumeclaims") == ["data-db-0", "data-db-1"]
        pod = await api.get(f"{CORE}/pods/db-1")
        assert pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "data-db-1"
        await api.delete(f"{APPS}/statefulsets/db")
        await settle()
        assert await api.names(f"{CORE}/pods") == []
        assert len(await api.names(f"{CORE}/persistentvolumeclaims")) == 2
