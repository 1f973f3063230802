"""Laws of `envtest.controllers.namespace` and `envtest.controllers.service_account`."""

from __future__ import annotations

import pytest

from envtest.environment import Environment
from opsdk.errors import NotFoundError
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import Kubectl, condition, config_map, deployment, reference, settle

SPACES = "/api/v1/namespaces"
WIDGETS = "/apis/demo.io/v1/namespaces/team/widgets"


def definition() -> JsonObject:
    """The definition of widgets."""
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "demo.io", "scope": "Namespaced", "names": names, "versions": [version]}
    meta = {"name": "widgets.demo.io"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": meta,
        "spec": spec,
    }


def widget(name: str, **meta: object) -> JsonObject:
    """A widget."""
    return {"apiVersion": "demo.io/v1", "kind": "Widget", "metadata": {"name": name, **meta}}


async def team(env: Environment) -> Kubectl:
    """A namespace, and widgets to put there."""
    api = Kubectl(env)
    await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    await api.create(SPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    return api


async def test_goes_with_everything_in_it() -> None:
    """A deleted namespace goes, with built-in and custom resources, running pods among them."""
    async with Environment(controllers="cluster") as env:
        api = await team(env)
        await api.create(WIDGETS, widget("w"))
        await api.create(f"{SPACES}/team/configmaps", config_map("c"))
        await api.create("/apis/apps/v1/namespaces/team/deployments", deployment("web", replicas=2))
        await settle()
        await api.delete(f"{SPACES}/team")
        await settle()
        with pytest.raises(NotFoundError):
            await api.get(f"{SPACES}/team")
        for path in ("/apis/demo.io/v1/widgets", "/api/v1/pods", "/apis/apps/v1/replicasets"):
            assert await api.names(path) == []


async def test_says_what_it_waits_for() -> None:
    """While finalizers hold content, the conditions name them; when they are gone, so is the namespace."""
    async with Environment(controllers="cluster") as env:
        api = await team(env)
        await api.create(WIDGETS, widget("w", finalizers=["demo.io/f"]))
        await api.delete(f"{SPACES}/team")
        await settle()
        namespace = await api.get(f"{SPACES}/team")
        assert namespace["status"]["phase"] == "Terminating"
        text = "Some resources are remaining: widgets.demo.io has 1 resource instances"
        assert condition(namespace, "NamespaceContentRemaining")["message"] == text
        text = "Some content in the namespace has finalizers remaining: demo.io/f in 1 resource instances"
        assert condition(namespace, "NamespaceFinalizersRemaining")["message"] == text
        assert condition(namespace, "NamespaceDeletionContentFailure")["status"] == "False"
        await api.merge(f"{WIDGETS}/w", {"metadata": {"finalizers": None}})
        await settle()
        assert "team" not in await api.names(SPACES)


async def test_custom_owners() -> None:
    """Custom resources own, and are collected with their owners, from the moment their kind is defined."""
    async with Environment(controllers="cluster") as env:
        api = await team(env)
        owner = await api.create(WIDGETS, widget("owner"))
        await api.create(WIDGETS, widget("child", ownerReferences=[reference(owner)]))
        await api.create(f"{SPACES}/team/configmaps", config_map("c", owner))
        await settle()
        await api.delete(f"{WIDGETS}/owner")
        await settle()
        assert await api.names(WIDGETS) == []
        assert await api.names(f"{SPACES}/team/configmaps") == ["kube-root-ca.crt"]


async def test_a_kind_may_go_and_come_back() -> None:
    """Objects of a kind that was deleted and defined again are collected as before."""
    async with Environment(controllers="cluster") as env:
        api = await team(env)
        await api.create(WIDGETS, widget("w"))
        await settle()
        await api.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.demo.io")
        await settle()
        await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
        owner = await api.create(WIDGETS, widget("owner"))
        await api.create(WIDGETS, widget("child", ownerReferences=[reference(owner)]))
        await api.delete(f"{WIDGETS}/owner")
        await settle()
        assert await api.names(WIDGETS) == []


async def test_every_namespace_has_a_default_account_and_root_ca() -> None:
    """Every namespace has the default ServiceAccount and kube-root-ca.crt; both are restored."""
    async with Environment(controllers=["serviceaccount"]) as env:
        api = await team(env)
        await settle()
        for name in ("team", "default"):
            assert await api.names(f"{SPACES}/{name}/serviceaccounts") == ["default"]
        await api.delete(f"{SPACES}/team/serviceaccounts/default")
        await api.merge(f"{SPACES}/team/configmaps/kube-root-ca.crt", {"data": {"ca.crt": "bad"}})
        await settle()
        assert await api.names(f"{SPACES}/team/serviceaccounts") == ["default"]
        trust = await api.get(f"{SPACES}/team/configmaps/kube-root-ca.crt")
        assert trust["data"]["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")
