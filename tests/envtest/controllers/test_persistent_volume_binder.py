"""Laws of `envtest.controllers.persistent_volume_binder`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envtest.controllers.persistent_volume_binder import find_matching_volume
from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import CORE, Kubectl, condition, settle, template

CLAIMS = f"{CORE}/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"


def claim(name: str, **spec: object) -> JsonObject:
    """A claim."""
    expected = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": expected}


async def test_binds_and_cleans_up() -> None:
    """A claim is bound to a volume made for it, which goes with it."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(CLAIMS, claim("data"))
        await settle()
        bound_claim = await api.get(f"{CLAIMS}/data")
        assert bound_claim["status"] == {
            "phase": "Bound",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "2Gi"},
        }
        volume = await api.get(f"{VOLUMES}/{bound_claim['spec']['volumeName']}")
        assert volume["status"]["phase"] == "Bound"
        assert volume["spec"]["claimRef"]["uid"] == bound_claim["metadata"]["uid"]
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


def _volume(name: str, size: str, **spec: object) -> JsonObject:
    expected = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": expected}


def _kind(name: str, **more: object) -> JsonObject:
    meta = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    return {**meta, "provisioner": "disks.example.com", **more}


def _user(name: str, claim_name: str) -> JsonObject:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": template("p", volumes=volumes)["spec"],
    }


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans(), st.booleans()), max_size=6), st.integers(1, 9))
def test_smallest_that_fits(volumes: list[tuple[int, bool, bool]], asked: int) -> None:
    """A claim gets the smallest free volume of its class and modes that is large enough; never one of another claim."""
    result: list[JsonObject] = []
    for number, (size, taken, shared) in enumerate(volumes):
        reference = {"claimRef": {"namespace": "default", "name": "other"}} if taken else {}
        modes = {"accessModes": ["ReadWriteMany"]} if shared else {}
        result.append(_volume(f"v{number}", f"{size}Gi", **reference, **modes))
    expected = claim("c", resources={"requests": {"storage": f"{asked}Gi"}})
    expected["metadata"] |= {"namespace": "default", "uid": "u"}
    fitting = [size for size, taken, shared in volumes if size >= asked and not taken and not shared]
    chosen = find_matching_volume(expected, result)
    assert (chosen is None) == (not fitting)
    assert chosen is None or chosen["spec"]["capacity"]["storage"] == f"{min(fitting)}Gi"


async def test_prefers_what_is_there() -> None:
    """A free volume is bound before another one is made."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(VOLUMES, _volume("large", "9Gi"))
        await api.create(VOLUMES, _volume("small", "3Gi"))
        await api.create(CLAIMS, claim("data"))
        await settle()
        assert (await api.get(f"{CLAIMS}/data"))["spec"]["volumeName"] == "small"
        assert (await api.get(f"{VOLUMES}/large"))["status"]["phase"] == "Available"


async def test_a_claim_waits_for_its_storage_class() -> None:
    """A claim with an unknown class stays Pending with an event; once the class exists, a volume is made."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(CLAIMS, claim("data", storageClassName="fast"))
        await settle()
        assert (await api.get(f"{CLAIMS}/data"))["status"]["phase"] == "Pending"
        [event] = await api.items(f"{CORE}/events")
        assert event["message"] == 'storageclass.storage.k8s.io "fast" not found'
        await api.create("/apis/storage.k8s.io/v1/storageclasses", _kind("fast", reclaimPolicy="Retain"))
        await settle()
        bound_claim = await api.get(f"{CLAIMS}/data")
        volume = await api.get(f"{VOLUMES}/{bound_claim['spec']['volumeName']}")
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        assert volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == "disks.example.com"


async def test_wait_for_first_consumer_waits_for_a_pod() -> None:
    """With WaitForFirstConsumer, the volume is provisioned when a pod uses the claim."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        kind = _kind("late", volumeBindingMode="WaitForFirstConsumer")
        await api.create("/apis/storage.k8s.io/v1/storageclasses", kind)
        await api.create(CLAIMS, claim("data", storageClassName="late"))
        await settle()
        assert (await api.get(f"{CLAIMS}/data"))["status"]["phase"] == "Pending"
        await api.create(f"{CORE}/pods", _user("p", "data"))
        await settle()
        assert (await api.get(f"{CLAIMS}/data"))["status"]["phase"] == "Bound"
        assert (await api.get(f"{CORE}/pods/p"))["status"]["phase"] == "Running"


async def test_pods_wait_for_claims() -> None:
    """A pod whose claim is not there is not placed, and says why; it runs when the claim comes."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{CORE}/pods", _user("p", "data"))
        await settle()
        observed = condition(await api.get(f"{CORE}/pods/p"), "PodScheduled")
        assert 'persistentvolumeclaim "data" not found' in observed["message"]
        await api.create(CLAIMS, claim("data"))
        await settle()
        assert (await api.get(f"{CORE}/pods/p"))["status"]["phase"] == "Running"


async def test_a_claim_expands_if_its_class_allows_it() -> None:
    """A bound claim that requests more storage is expanded if its StorageClass allows it."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create("/apis/storage.k8s.io/v1/storageclasses", _kind("soft", allowVolumeExpansion=True))
        await api.create(CLAIMS, claim("data", storageClassName="soft"))
        await settle()
        await api.merge(f"{CLAIMS}/data", {"spec": {"resources": {"requests": {"storage": "5Gi"}}}})
        await settle()
        bound_claim = await api.get(f"{CLAIMS}/data")
        assert bound_claim["status"]["capacity"] == {"storage": "5Gi"}
        assert (await api.get(f"{VOLUMES}/{bound_claim['spec']['volumeName']}"))["spec"]["capacity"] == {
            "storage": "5Gi"
        }


async def test_loses_its_volume() -> None:
    """A bound claim whose volume is gone is lost."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(CLAIMS, claim("data"))
        await settle()
        name = (await api.get(f"{CLAIMS}/data"))["spec"]["volumeName"]
        await api.delete(f"{VOLUMES}/{name}")
        await api.merge(f"{VOLUMES}/{name}", {"metadata": {"finalizers": None}})
        await settle()
        assert (await api.get(f"{CLAIMS}/data"))["status"]["phase"] == "Lost"
