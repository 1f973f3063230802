"""The set of admission plugins, and the small plugins."""

from __future__ import annotations

from typing import Any

import pytest
from server_caller import MERGE, Caller

from envtest.admission.plugins import PluginSelection
from envtest.environment import Environment
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.plugin import Plugin, resource_path
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.request_info import parse_request
from opsdk.apiserver.resources import InstalledResource
from opsdk.errors import ConfigError
from opsdk.http.asgi_types import Message
from opsdk.http.server.request import HttpRequest, Query
from opsdk.structured_merge.value import JsonObject

CORE = "/api/v1/namespaces/default"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"


async def _no_body() -> Message:
    return {"type": "http.disconnect"}


REQUEST = HttpRequest("GET", "/", Query(), {}, _no_body)


def pod(name: str, **spec: Any) -> JsonObject:
    """A pod."""
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x"}], **spec}}


def claim(name: str, **spec: Any) -> JsonObject:
    """A claim of one GiB."""
    expected = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": {**expected, **spec}}


def test_unknown_plugins_are_named() -> None:
    """An unknown plugin, or one that is both enabled and disabled, is an error with its name."""
    with pytest.raises(ConfigError, match='disable-admission-plugins plugin "Nope" is unknown'):
        PluginSelection.of("", "Nope")
    with pytest.raises(ConfigError, match=r"\[Priority\] in enable-admission-plugins and disable-admission-plugins"):
        PluginSelection.of("Priority", "LimitRanger,Priority")
    assert PluginSelection.of("ServiceAccount").runs("ServiceAccount")
    assert not PluginSelection.of().runs("ServiceAccount")


async def test_a_plugin_that_is_off_does_nothing() -> None:
    """Without Priority pods have none; without the lifecycle plugin namespaces need not exist."""
    async with Environment(disable_admission_plugins=["Priority", "NamespaceLifecycle"]) as env:
        call = Caller(env)
        response = await call("POST", f"{CORE}/pods", pod("p"))
        assert "priority" not in response.json["spec"]
        assert (await call("POST", "/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "c"}})).status == 201


async def test_the_newest_default_storage_class_is_taken() -> None:
    """Of default classes with equal age the first by name is used; a claim with a class keeps it."""
    async with Environment() as env:
        call = Caller(env)
        marked = {"storageclass.kubernetes.io/is-default-class": "true"}
        for name, annotations in (("b", marked), ("a", marked), ("c", {})):
            meta = {"name": name, "annotations": annotations}
            assert (await call("POST", STORAGE, {"metadata": meta, "provisioner": "x/y"})).status == 201
        path = f"{CORE}/persistentvolumeclaims"
        assert (await call("POST", path, claim("one"))).json["spec"]["storageClassName"] == "a"
        assert (await call("POST", path, claim("two", storageClassName=""))).json["spec"]["storageClassName"] == ""
        stored = (await call("GET", f"{path}/one")).json
        assert stored["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]


async def test_only_bound_claims_of_growing_classes_grow() -> None:
    """A bound claim may grow only if its class allows expansion."""
    async with Environment() as env:
        call = Caller(env)
        for name, grows in (("fixed", False), ("elastic", True)):
            body = {"metadata": {"name": name}, "provisioner": "x/y", "allowVolumeExpansion": grows}
            await call("POST", STORAGE, body)
        path = f"{CORE}/persistentvolumeclaims"
        bound = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
        more = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
        for name, status in (("fixed", 403), ("elastic", 200)):
            await call("POST", path, claim(name, storageClassName=name))
            await call("PATCH", f"{path}/{name}/status", bound, content_type=MERGE)
            assert (await call("PATCH", f"{path}/{name}", more, content_type=MERGE)).status == status


async def test_the_default_ingress_class() -> None:
    """New ingresses get the default class unless the annotation or the field names another one."""
    async with Environment() as env:
        call = Caller(env)
        meta = {"name": "main", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}
        ingress = "/apis/networking.k8s.io/v1"
        await call("POST", f"{ingress}/ingressclasses", {"metadata": meta, "spec": {"controller": "example.com/c"}})
        backend = {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
        for name, annotations, expected in (("a", {}, "main"), ("b", {"kubernetes.io/ingress.class": "old"}, None)):
            body = {"metadata": {"name": name, "annotations": annotations}, "spec": backend}
            response = await call("POST", f"{ingress}/namespaces/default/ingresses", body)
            assert response.json["spec"].get("ingressClassName") == expected


async def test_runtime_classes_add_what_they_need() -> None:
    """A runtime class adds overhead, node selector and tolerations; a pod that contradicts them is rejected."""
    async with Environment() as env:
        call = Caller(env)
        scheduling = {"nodeSelector": {"kata": "yes"}, "tolerations": [{"key": "kata", "operator": "Exists"}]}
        body = {"metadata": {"name": "kata"}, "handler": "kata", "scheduling": scheduling}
        response = await call("POST", RUNTIMES, {**body, "overhead": {"podFixed": {"cpu": "100m"}}})
        assert response.status == 201
        spec = (await call("POST", f"{CORE}/pods", pod("a", runtimeClassName="kata"))).json["spec"]
        assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "100m"}, {"kata": "yes"})
        assert {"key": "kata", "operator": "Exists"} in spec["tolerations"]
        for wrong, text in (
            (pod("b", runtimeClassName="none"), 'pod rejected: RuntimeClass "none" not found'),
            (
                pod("b", overhead={"cpu": "1"}),
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            ),
            (
                pod("b", runtimeClassName="kata", overhead={"cpu": "1"}),
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
            ),
            (
                pod("b", runtimeClassName="kata", nodeSelector={"kata": "no"}),
                "conflict: runtimeClass.scheduling.nodeSelector[kata] = yes; pod.spec.nodeSelector[kata] = no",
            ),
        ):
            answer = await call("POST", f"{CORE}/pods", wrong)
            assert answer.json["message"] == f'pods "b" is forbidden: {text}'


async def test_new_nodes_take_no_pods_yet() -> None:
    """The taint comes with the node, once."""
    async with Environment() as env:
        response = await Caller(env)("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
        assert response.json["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


async def test_a_plugin_does_nothing_outside_its_resources() -> None:
    """The chain may leave a plugin out for a resource that it does not name: it would neither change nor refuse."""
    async with Environment(admission_plugins=["ServiceAccount"]) as env:
        core = env.plane.core
        limited = [p for p in core.admission.plugins.values() if isinstance(p, Plugin) and p.resources is not None]
        assert len(limited) > 10
        for served in core.resources.installed():
            for operation in ("CREATE", "UPDATE", "DELETE", "CONNECT"):
                await _check_untouched(limited, served, operation)


async def _check_untouched(plugins: list[Plugin], served: InstalledResource, operation: str) -> None:
    tree: JsonObject = {"metadata": {"name": "a", "namespace": "default"}, "spec": {}, "status": {}}
    call = Call(http=REQUEST, info=parse_request("GET", "/", Query()))
    for plugin in plugins:
        if resource_path(served.info) in (plugin.resources or ()):
            continue
        attributes = Attributes(
            call=call,
            served=served,
            operation=operation,
            namespace="default",
            name="a",
            obj=None if operation == "DELETE" else tree,
            old=None if operation in ("CREATE", "CONNECT") else tree,
        )
        before = attributes.obj
        await plugin.mutate(attributes)
        await plugin.validate(attributes)
        assert attributes.obj is before
        assert not call.warnings
