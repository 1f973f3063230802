"""Laws of `envtest.controllers.endpointslice`."""

from __future__ import annotations

import pytest

from envtest.controllers.stages import Stage, State
from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import APPS, CORE, Kubectl, deployment, settle

SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
SLOW = (Stage(at=State.PENDING, to=State.RUNNING, delay=1), Stage(at=State.RUNNING, to=State.READY, delay=10))


def service(name: str) -> JsonObject:
    """A Service for the pods of the deployment of the same name."""
    port = {"name": "http", "port": 80, "targetPort": "web"}
    spec = {"selector": {"app": name}, "ports": [port]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def backend(name: str, replicas: int) -> JsonObject:
    """A deployment that listens on a named port."""
    created = deployment(name, replicas=replicas)
    created["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"name": "web", "containerPort": 8080}]
    return created


async def slices(api: Kubectl) -> list[JsonObject]:
    """The slices of the services made here: the server has one of its own."""
    return [s for s in await api.items(SLICES) if s["metadata"]["name"] != "kubernetes"]


async def test_follows_pods() -> None:
    """A service knows the addresses of its pods, ready or not, as slices and as endpoints."""
    async with Environment(controllers="cluster", stages=SLOW) as env:
        api = Kubectl(env)
        await api.create(f"{CORE}/services", service("web"))
        await api.create(f"{APPS}/deployments", backend("web", 2))
        await settle(5)
        [current_slices] = await slices(api)
        assert [e["conditions"]["ready"] for e in current_slices["endpoints"]] == [False, False]
        [subset] = (await api.get(f"{CORE}/endpoints/web"))["subsets"]
        assert len(subset["notReadyAddresses"]) == 2
        await settle(20)
        [current_slices] = await slices(api)
        assert [e["conditions"]["ready"] for e in current_slices["endpoints"]] == [True, True]
        assert current_slices["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
        assert current_slices["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
        [subset] = (await api.get(f"{CORE}/endpoints/web"))["subsets"]
        ips = sorted(p["status"]["podIP"] for p in await api.items(f"{CORE}/pods"))
        assert sorted(a["ip"] for a in subset["addresses"]) == ips
        await api.merge(f"{APPS}/deployments/web/scale", {"spec": {"replicas": 0}})
        await settle()
        [current_slices] = await slices(api)
        assert not current_slices.get("endpoints")


async def test_one_slice_for_each_set_of_ports() -> None:
    """A named port with another number on each pod: slices and subsets list each pod with its own number."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{CORE}/services", service("web"))
        await settle()
        [placeholder] = await slices(api)
        assert (placeholder.get("endpoints") or [], placeholder.get("ports") or []) == ([], [])
        numbers = {"a": 8080, "b": 9090, "c": 8080, "d": 0}
        for name, number in numbers.items():
            ports = [{"name": "web", "containerPort": number}] if number else []
            spec = {"containers": [{"name": "c", "image": "i", "ports": ports}]}
            meta = {"name": name, "labels": {"app": "web"}}
            await api.create(f"{CORE}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        await settle()
        targets_by_ports = {
            tuple(p["port"] for p in s.get("ports") or ()): [e["targetRef"]["name"] for e in s["endpoints"]]
            for s in await slices(api)
        }
        assert targets_by_ports == {(8080,): ["a", "c"], (9090,): ["b"], (): ["d"]}
        subsets = (await api.get(f"{CORE}/endpoints/web"))["subsets"]
        assert {s["ports"][0]["port"]: [a["targetRef"]["name"] for a in s["addresses"]] for s in subsets} == {
            8080: ["a", "c"],
            9090: ["b"],
        }
        for name in numbers:
            await api.delete(f"{CORE}/pods/{name}")
        await settle()
        [remaining] = await slices(api)
        assert not remaining.get("endpoints")


async def test_goes_with_the_service() -> None:
    """Slices and endpoints go with their service."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{CORE}/services", service("web"))
        await settle()
        assert await api.names(f"{CORE}/endpoints") == ["kubernetes", "web"]
        await api.delete(f"{CORE}/services/web")
        await settle()
        assert await slices(api) == []
        assert await api.names(f"{CORE}/endpoints") == ["kubernetes"]


@pytest.mark.slow
async def test_many_pods_take_several_slices() -> None:
    """A slice holds a hundred endpoints."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{CORE}/services", service("web"))
        await api.create(f"{APPS}/deployments", backend("web", 130))
        await settle()
        assert sorted(len(s["endpoints"]) for s in await slices(api)) == [30, 100]
        await api.merge(f"{APPS}/deployments/web/scale", {"spec": {"replicas": 5}})
        await settle()
        assert [len(s["endpoints"]) for s in await slices(api)] == [5]


async def test_names_of_other_places() -> None:
    """A Service of type ExternalName has no endpoints; those of a headless Service carry its label."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        for name, spec in (("far", {"type": "ExternalName", "externalName": "x.org"}), ("head", {"clusterIP": "None"})):
            inner = {"selector": {"app": "web"}, "ports": [{"port": 80}], **spec}
            service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": inner}
            await api.create(f"{CORE}/services", service)
        await settle()
        [result] = [e for e in await api.items(f"{CORE}/endpoints") if e["metadata"]["name"] != "kubernetes"]
        assert result["metadata"]["name"] == "head"
        assert "service.kubernetes.io/headless" in result["metadata"]["labels"]
        slices = await api.items("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices")
        assert {s["metadata"]["labels"]["kubernetes.io/service-name"] for s in slices} == {"kubernetes", "head"}


async def test_manual_endpoints_are_mirrored() -> None:
    """Endpoints of a service without selector are mirrored to EndpointSlices that follow changes and deletion."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "far"},
            "spec": {"ports": [{"port": 80}]},
        }
        await api.create(f"{CORE}/services", service)
        subset: JsonObject = {"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}
        tree = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "far"}, "subsets": [subset]}
        await api.create(f"{CORE}/endpoints", tree)
        await settle()
        query = f"{SLICES}?labelSelector=kubernetes.io/service-name%3Dfar"
        [result] = await api.items(query)
        assert result["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] == (
            "endpointslicemirroring-controller.k8s.io"
        )
        assert result["endpoints"] == [{"addresses": ["192.0.2.1"], "conditions": {"ready": True}}]
        subset["notReadyAddresses"] = [{"ip": "192.0.2.2"}]
        await api.merge(f"{CORE}/endpoints/far", {"subsets": [subset]})
        await settle()
        [result] = await api.items(query)
        assert [e["conditions"]["ready"] for e in result["endpoints"]] == [True, False]
        await api.delete(f"{CORE}/endpoints/far")
        await settle()
        assert await api.items(query) == []
