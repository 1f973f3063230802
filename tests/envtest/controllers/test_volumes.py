"""Laws of `envtest.controllers.volumes`."""

from __future__ import annotations

from envtest.environment import Environment
from tests.envtest.controllers.cluster import CORE, Kubectl, Tree, settle, template

CLAIMS = f"{CORE}/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"


def claim(name: str, **spec: object) -> Tree:
    """A claim."""
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": wanted}


async def test_binds_and_cleans_up() -> None:
    """A claim is bound to a volume made for it, which goes with it."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(CLAIMS, claim("data"))
        await settle()
        found = await api.get(f"{CLAIMS}/data")
        assert found["status"] == {
            "phase": "Bound",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "2Gi"},
        }
        volume = await api.get(f"{VOLUMES}/{found['spec']['volumeName']}")
        assert volume["status"]["phase"] == "Bound"
        assert volume["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]
        await api.delete(f"{CLAIMS}/data")
        await settle()
        assert await api.names(CLAIMS) == []
        assert await api.names(VOLUMES) == []


async def test_protects_what_is_in_use() -> None:
    """A deleted claim stays for as long as a pod uses it."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(CLAIMS, claim("data"))
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        spec = template("p", volumes=volumes)["spec"]
        await api.create(f"{CORE}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
        await settle()
        await api.delete(f"{CLAIMS}/data")
        await settle()
        assert (await api.get(f"{CLAIMS}/data"))["metadata"]["deletionTimestamp"]
        await api.delete(f"{CORE}/pods/p")
        await settle()
        assert await api.names(CLAIMS) == []


async def test_a_volume_of_ones_own() -> None:
    """A claim that names a volume gets that one; with the policy Retain it is released, not deleted."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        spec = {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
            "persistentVolumeReclaimPolicy": "Retain",
        }
        await api.create(
            VOLUMES, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "mine"}, "spec": spec}
        )
        await settle()
        assert (await api.get(f"{VOLUMES}/mine"))["status"]["phase"] == "Available"
        await api.create(CLAIMS, claim("data", volumeName="mine"))
        await settle()
        assert (await api.get(f"{CLAIMS}/data"))["status"]["capacity"] == {"storage": "5Gi"}
        assert (await api.get(f"{VOLUMES}/mine"))["status"]["phase"] == "Bound"
        await api.delete(f"{CLAIMS}/data")
        await settle()
        assert (await api.get(f"{VOLUMES}/mine"))["status"]["phase"] == "Released"
