"""kr8s, blocking and not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import kr8s
import kr8s.asyncio
import pytest
from kr8s.asyncio.objects import ConfigMap as AsyncConfigMap
from kr8s.objects import ConfigMap, CustomResourceDefinition, Deployment, Pod, Service, new_class

from opsdk.structured_merge.value import JsonObject

pytestmark = [pytest.mark.e2e, pytest.mark.realtime]


@pytest.fixture
def api(kubeconfig: str, namespace: str) -> Iterator[Any]:
    """A client for the namespace."""
    return kr8s.api(kubeconfig=kubeconfig, namespace=namespace)


def named(name: str, namespace: str, **more: Any) -> JsonObject:
    """The beginning of an object."""
    return {"metadata": {"name": name, "namespace": namespace}, **more}


def test_objects_are_labelled_and_patched(api: Any, namespace: str) -> None:
    """Labels, annotations, patches; refreshed from what the server has."""
    created = ConfigMap(named("a", namespace, data={"k": "v"}), api=api)
    created.create()
    created.patch({"data": {"z": "1"}})
    created.patch([{"op": "add", "path": "/data/j", "value": "2"}], type="json")
    created.label({"app": "x"})
    created.annotate({"note": "y"})
    created.refresh()
    assert (dict(created.data), dict(created.labels), dict(created.annotations)) == (
        {"k": "v", "z": "1", "j": "2"},
        {"app": "x"},
        {"note": "y"},
    )
    assert [o.name for o in api.get("configmaps", label_selector={"app": "x"}, namespace=namespace)] == ["a"]
    kind, result = next(iter(api.watch("configmaps", namespace=namespace, label_selector="app=x")))
    assert (kind, result.name) == ("ADDED", "a")
    created.delete()
    created.wait("delete", timeout=10)
    assert not created.exists()


def test_pods_run_and_go(api: Any, namespace: str) -> None:
    """Conditions are waited for; logs are read; deletion is seen."""
    pod = Pod(named("p", namespace, spec={"containers": [{"name": "c", "image": "i"}]}), api=api)
    pod.create()
    pod.wait("condition=Ready", timeout=10)
    assert pod.ready()
    assert list(pod.logs()) == ["p", "c"]
    pod.delete()
    pod.wait("delete", timeout=10)


def test_deployments_scale(api: Any, namespace: str) -> None:
    """``scale`` waits for the status to follow."""
    labels = {"app": "d"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    created = Deployment(named("d", namespace, spec=spec), api=api)
    created.create()
    created.wait("condition=Available", timeout=10)
    created.scale(3)
    created.wait("jsonpath='{.status.readyReplicas}'=3", timeout=10)
    assert len(created.pods()) == 3


def test_nodes_are_cordoned(api: Any) -> None:
    """kr8s cordons and uncordons a node."""
    (node,) = api.get("nodes")
    node.cordon()
    node.refresh()
    assert node.unschedulable
    node.uncordon()
    node.refresh()
    assert not node.spec.get("unschedulable")


def test_custom_kinds(api: Any, namespace: str, definition: Any) -> None:
    """Classes made on the fly, with status, scale and owners."""
    kind = CustomResourceDefinition(definition("kr8s.test"), api=api)
    kind.create()
    kind.wait("condition=Established", timeout=10)
    toy_class = new_class("Toy", "kr8s.test/v1", asyncio=False, namespaced=True, scalable=True)
    toy = toy_class(named("t", namespace, spec={"replicas": 1}), api=api)
    toy.create()
    toy.patch({"status": {"replicas": 1}}, subresource="status")
    toy.scale(1)
    owner = ConfigMap(named("o", namespace), api=api)
    owner.create()
    toy.set_owner(owner)
    toy.refresh()
    assert [o.name for o in api.get("toys.kr8s.test", namespace=namespace)] == ["t"]
    assert toy.metadata.ownerReferences[0].uid == owner.metadata.uid
    assert toy.raw["status"]["replicas"] == 1


def test_discovery_of_the_server(served: Any, api: Any) -> None:
    """kr8s reads versions, users and resources of the server."""
    assert api.version()["gitVersion"].startswith(f"v{served.kubernetes}.")
    assert api.whoami() == "admin"
    assert "pods" in [r["name"] for r in api.api_resources()]


def test_what_exists_and_what_does_not(api: Any, namespace: str) -> None:
    """Errors are the server's; objects say whether they exist."""
    created = ConfigMap(named("a", namespace), api=api)
    assert not created.exists()
    with pytest.raises(kr8s.NotFoundError):
        created.refresh()
    created.create()
    with pytest.raises(kr8s.ServerError) as again:
        ConfigMap(named("a", namespace), api=api).create()
    assert again.value.response.status_code == 409
    with pytest.raises(kr8s.NotFoundError):
        ConfigMap.get("z", namespace=namespace, api=api)


def test_lists_are_selected(api: Any, namespace: str) -> None:
    """kr8s lists by labels, fields, names, and in all namespaces."""
    for name, app in (("a", "x"), ("b", "y"), ("c", "x")):
        ConfigMap({"metadata": {"name": name, "namespace": namespace, "labels": {"app": app}}}, api=api).create()

    def found(*names: str, **more: Any) -> list[str]:
        return [o.name for o in api.get("configmaps", *names, **{"namespace": namespace, **more})]

    assert found(label_selector="app in (x)") == ["a", "c"]
    assert found(field_selector="metadata.name=b") == ["b"]
    assert found("a") == ["a"]
    assert {"a", "b", "c"} <= set(found(namespace=kr8s.ALL))


def test_owners_take_what_is_theirs_along(api: Any, namespace: str) -> None:
    """Deleting in the foreground waits for the owned."""
    owner = ConfigMap(named("o", namespace), api=api)
    owner.create()
    owned = ConfigMap(named("p", namespace), api=api)
    owned.create()
    owned.set_owner(owner)
    owner.delete(propagation_policy="Foreground")
    owned.wait("delete", timeout=10)
    owner.wait("delete", timeout=10)
    assert not owner.exists()


def test_services_find_their_pods(api: Any, namespace: str) -> None:
    """A service is ready when its pods are."""
    labels = {"app": "s"}
    pod = {"metadata": {"name": "p", "namespace": namespace, "labels": labels}}
    Pod({**pod, "spec": {"containers": [{"name": "c", "image": "i"}]}}, api=api).create()
    service = Service(named("s", namespace, spec={"selector": labels, "ports": [{"port": 80}]}), api=api)
    service.create()
    deadline = time.monotonic() + 10
    while not service.ready():
        assert time.monotonic() < deadline
    assert [p.name for p in service.ready_pods()] == ["p"]


async def test_the_async_api_works_alike(kubeconfig: str, namespace: str) -> None:
    """kr8s's async API works like the synchronous one."""
    api = await kr8s.asyncio.api(kubeconfig=kubeconfig, namespace=namespace)
    created = await AsyncConfigMap(named("a", namespace), api=api)
    await created.create()
    await created.patch([{"op": "add", "path": "/data", "value": {"q": "1"}}], type="json")
    assert "a" in [o.name async for o in api.get("configmaps", namespace=namespace)]
    await created.delete()
