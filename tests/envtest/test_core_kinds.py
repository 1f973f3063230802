"""Core kinds as clients see them: bindings, service types, resizes."""

from __future__ import annotations

from typing import Any

import pytest
from server_caller import MERGE, Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
CONTAINERS = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]


async def _pod(call: Caller, name: str, **spec: Any) -> JsonObject:
    response = await call("POST", PODS, {"metadata": {"name": name}, "spec": {"containers": CONTAINERS, **spec}})
    assert response.status == 201, response.json["message"]
    stored: JsonObject = response.json
    return stored


async def test_a_binding_checks_the_uid() -> None:
    """A binding with another uid is a conflict."""
    async with Environment() as env:
        call = Caller(env)
        uid = (await _pod(call, "p"))["metadata"]["uid"]
        target = {"kind": "Node", "name": "n"}
        other = await call("POST", f"{PODS}/p/binding", {"metadata": {"name": "p", "uid": "x"}, "target": target})
        assert other.status == 409
        assert "UID in precondition: x" in other.json["message"]
        nameless = await call("POST", "/api/v1/namespaces/default/bindings", {"target": target})
        assert (nameless.status, nameless.json["message"]) == (400, "Name parameter required.")
        bound = await call("POST", f"{PODS}/p/binding", {"metadata": {"name": "p", "uid": uid}, "target": target})
        assert bound.status == 201


async def test_resize_changes_resources_only() -> None:
    """A resize changes resources and ignores every other field."""
    async with Environment() as env:
        call = Caller(env)
        await _pod(call, "p")
        expected = [{"name": "c", "image": "other", "resources": {"requests": {"cpu": "2"}}}]
        patch = {"spec": {"containers": expected, "nodeName": "n"}}
        answer = await call("PATCH", f"{PODS}/p/resize", patch, content_type=MERGE)
        [container] = answer.json["spec"]["containers"]
        assert (container["image"], container["resources"]) == ("i", {"requests": {"cpu": "2"}})
        assert "nodeName" not in answer.json["spec"]
        more = [{"name": "c", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "2"}}}]
        wrong = await call("PATCH", f"{PODS}/p/resize", {"spec": {"containers": more}}, content_type=MERGE)
        assert "Pod QOS Class may not change as a result of resizing" in wrong.json["message"]


async def test_a_type_change_clears_fields_of_the_old_type() -> None:
    """A change of the service type clears fields that the new type lacks, unless the request changes them."""
    async with Environment() as env:
        call = Caller(env)
        spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]}
        stored = (await call("POST", SERVICES, {"metadata": {"name": "s"}, "spec": spec})).json["spec"]
        assert stored["healthCheckNodePort"] != stored["ports"][0]["nodePort"]

        async def patched(**change: Any) -> JsonObject:
            answer = await call("PATCH", f"{SERVICES}/s", {"spec": change}, content_type=MERGE)
            assert answer.status == 200, answer.json["message"]
            stored: JsonObject = answer.json["spec"]
            return stored

        assert "healthCheckNodePort" not in await patched(externalTrafficPolicy="Cluster")
        assert (await patched(allocateLoadBalancerNodePorts=False))["ports"][0]["nodePort"]
        plain = await patched(type="ClusterIP")
        assert not {"allocateLoadBalancerNodePorts", "externalTrafficPolicy"} & plain.keys()
        assert "nodePort" not in plain["ports"][0]
        assert "clusterIP" not in await patched(type="ExternalName", externalName="x.example.com")
        assert (await patched(type="ClusterIP"))["clusterIP"]


async def test_the_health_check_node_port_is_immutable() -> None:
    """The health check node port is immutable while the service needs it."""
    async with Environment() as env:
        call = Caller(env)
        spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]}
        await call("POST", SERVICES, {"metadata": {"name": "s"}, "spec": spec})
        patch = {"spec": {"healthCheckNodePort": 31000}}
        answer = await call("PATCH", f"{SERVICES}/s", patch, content_type=MERGE)
        assert answer.status == 422
        assert "cannot change healthCheckNodePort" in answer.json["message"]


@pytest.mark.parametrize(("kind", "status"), [("nodes", 400), ("namespaces", 400), ("persistentvolumes", 200)])
async def test_selecting_by_the_namespace(kind: str, status: int) -> None:
    """Kinds without namespaces and with their own field labels reject a selector for the namespace."""
    async with Environment() as env:
        answer = await Caller(env)("GET", f"/api/v1/{kind}?fieldSelector=metadata.namespace=x")
        assert answer.status == status
        if status == 400:
            assert answer.json["message"] == "field label not supported: metadata.namespace"
