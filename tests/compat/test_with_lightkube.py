"""lightkube, blocking and not: the flows of its own end-to-end tests."""

from __future__ import annotations

import time
from typing import Any

import lightkube
import pytest
from lightkube import codecs
from lightkube.generic_resource import (
    create_namespaced_resource,
    get_generic_resource,
    load_in_cluster_generic_resources,
)
from lightkube.models.apps_v1 import DeploymentSpec
from lightkube.models.core_v1 import (
    Container,
    HTTPGetAction,
    PodSpec,
    PodTemplateSpec,
    Probe,
    ServicePort,
    ServiceSpec,
)
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import ConfigMap, Namespace, Node, Pod, Service
from lightkube.types import CascadeType, PatchType

pytestmark = [pytest.mark.e2e, pytest.mark.realtime]


@pytest.fixture
def lk(kubeconfig: str, namespace: str) -> lightkube.Client:
    """A client for the namespace."""
    return lightkube.Client(namespace=namespace, field_manager="lightkube")


def a_deployment(name: str) -> Deployment:
    """One to create, with a probe: part of it is embedded."""
    probe = Probe(httpGet=HTTPGetAction(port=80))
    pods = PodTemplateSpec(
        metadata=ObjectMeta(labels={"app": name}),
        spec=PodSpec(containers=[Container(name="c", image="i", readinessProbe=probe)]),
    )
    spec = DeploymentSpec(replicas=1, selector=LabelSelector(matchLabels={"app": name}), template=pods)
    return Deployment(metadata=ObjectMeta(name=name), spec=spec)


def test_patches_of_every_kind(lk: lightkube.Client) -> None:
    """Strategic, merge, JSON and apply."""
    lk.create(ConfigMap(metadata=ObjectMeta(name="a"), data={"k": "v"}))
    assert lk.patch(ConfigMap, "a", {"data": {"s": "1"}}).data == {"k": "v", "s": "1"}
    assert lk.patch(ConfigMap, "a", {"data": {"s": None}}, patch_type=PatchType.MERGE).data == {"k": "v"}
    added = [{"op": "add", "path": "/data/j", "value": "1"}]
    assert lk.patch(ConfigMap, "a", added, patch_type=PatchType.JSON).data == {"k": "v", "j": "1"}
    applied = ConfigMap(metadata=ObjectMeta(name="a"), data={"p": "1"})
    assert lk.patch(ConfigMap, "a", applied, patch_type=PatchType.APPLY, field_manager="m").data["p"] == "1"
    result = lk.get(ConfigMap, "a")
    result.data = {"n": "1"}
    assert lk.replace(result).data == {"n": "1"}


def test_managers_of_fields_conflict(lk: lightkube.Client) -> None:
    """An apply of lightkube conflicts with another field manager unless it is forced."""
    lk.apply(ConfigMap(metadata=ObjectMeta(name="a"), data={"k": "v"}))
    other = ConfigMap(metadata=ObjectMeta(name="a"), data={"k": "w"})
    with pytest.raises(lightkube.ApiError) as refused:
        lk.apply(other, field_manager="other")
    assert refused.value.status.code == 409
    assert lk.apply(other, field_manager="other", force=True).data == {"k": "w"}
    gone = lk.apply(ConfigMap(metadata=ObjectMeta(name="a")), field_manager="other")
    assert not gone.data


def test_lists_in_chunks_and_by_selectors(lk: lightkube.Client, namespace: str) -> None:
    """Pages are followed, selectors of all kinds understood."""
    for name, app in (("a", "x"), ("b", "y"), ("c", "x")):
        lk.create(ConfigMap(metadata=ObjectMeta(name=name, labels={"app": app})))
    assert [o.metadata.name for o in lk.list(ConfigMap, chunk_size=1, labels={"app": ["x", "y"]})] == ["a", "b", "c"]
    assert [o.metadata.name for o in lk.list(ConfigMap, labels={"app": "x"}, fields={"metadata.name": "c"})] == ["c"]
    assert {o.metadata.namespace for o in lk.list(ConfigMap, namespace="*")} > {namespace}
    assert [n.metadata.name for n in lk.list(Node)] == ["node-1"]
    assert lk.get(Namespace, namespace).status.phase == "Active"
    for event, item in lk.watch(ConfigMap, labels={"app": "y"}, server_timeout=2):
        assert (event, item.metadata.name) == ("ADDED", "b")
        break
    with pytest.raises(lightkube.ApiError) as missing:
        lk.get(ConfigMap, "z")
    assert (missing.value.status.code, missing.value.status.reason) == (404, "NotFound")


def test_lightkube_waits_for_deployments_and_scales_them(lk: lightkube.Client) -> None:
    """Lightkube waits for a Deployment, and writes its scale and status subresources."""
    lk.create(a_deployment("d"))
    assert lk.wait(Deployment, "d", for_conditions=["Available"]).status.readyReplicas == 1
    scale = lk.get(Deployment.Scale, "d")
    scale.spec.replicas = 2
    assert lk.replace(scale, "d").spec.replicas == 2
    assert lk.patch(Deployment.Status, "d", {"status": {"observedGeneration": 7}}).status.observedGeneration == 7
    lk.create(
        Service(metadata=ObjectMeta(name="s"), spec=ServiceSpec(selector={"app": "d"}, ports=[ServicePort(port=80)]))
    )
    assert lk.get(Service, "s").spec.clusterIP.startswith("10.0.0.")
    name = next(iter(lk.list(Pod, labels={"app": "d"}))).metadata.name
    assert list(lk.log(name)) == [f"{name}\n", "c\n"]
    lk.create(Pod.Eviction(metadata=ObjectMeta(name=name)), name)
    lk.delete(Deployment, "d", cascade=CascadeType.FOREGROUND)
    deadline = time.monotonic() + 15
    while list(lk.list(Deployment)) or list(lk.list(Pod)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_generic_resources(lk: lightkube.Client, definition: Any) -> None:
    """Kinds that the client has no class for, its own words for them and those of the cluster."""
    lk.create(CustomResourceDefinition.from_dict(definition("lightkube.test")))
    lk.wait(CustomResourceDefinition, "toys.lightkube.test", for_conditions=["Established"])
    toy = create_namespaced_resource("lightkube.test", "v1", "Toy", "toys")
    assert lk.create(toy(metadata=ObjectMeta(name="t"), spec={"replicas": 1})).spec == {"replicas": 1}
    assert lk.patch(toy, "t", {"spec": {"replicas": 2}}, patch_type=PatchType.MERGE).spec == {"replicas": 2}
    assert lk.patch(toy.Status, "t", {"status": {"x": 2}}, patch_type=PatchType.MERGE).status == {"x": 2}
    assert lk.get(toy.Scale, "t").spec.replicas == 2
    load_in_cluster_generic_resources(lk)
    assert get_generic_resource("lightkube.test/v1", "Toy") is not None
    lk.delete(toy, "t")


def test_what_exists_and_what_does_not(lk: lightkube.Client) -> None:
    """Errors carry the reasons of the server; dry runs leave nothing."""
    created = ConfigMap(metadata=ObjectMeta(name="a"))
    lk.create(created, dry_run=True)
    with pytest.raises(lightkube.ApiError) as missing:
        lk.delete(ConfigMap, "a")
    assert missing.value.status.reason == "NotFound"
    lk.create(created)
    with pytest.raises(lightkube.ApiError) as again:
        lk.create(created)
    assert again.value.status.reason == "AlreadyExists"
    bad = Pod(metadata=ObjectMeta(name="Bad_Name"), spec=PodSpec(containers=[Container(name="c", image="i")]))
    with pytest.raises(lightkube.ApiError) as invalid:
        lk.create(bad)
    assert (invalid.value.status.code, invalid.value.status.reason) == (422, "Invalid")


def test_stale_objects_are_refused(lk: lightkube.Client) -> None:
    """A replacement must know the last version; a patch need not."""
    first = lk.create(ConfigMap(metadata=ObjectMeta(name="a"), data={"k": "1"}))
    lk.patch(ConfigMap, "a", {"data": {"k": "2"}})
    with pytest.raises(lightkube.ApiError) as stale:
        lk.replace(first)
    assert stale.value.status.reason == "Conflict"


def test_collections_go(lk: lightkube.Client) -> None:
    """All of a kind in a namespace, and nothing else."""
    for name in "abc":
        lk.create(ConfigMap(metadata=ObjectMeta(name=name, labels={"mine": "yes"})))
    lk.create(Service(metadata=ObjectMeta(name="s"), spec=ServiceSpec(ports=[ServicePort(port=80)])))
    lk.deletecollection(ConfigMap)
    assert list(lk.list(ConfigMap, labels={"mine": "yes"})) == []
    assert [o.metadata.name for o in lk.list(Service)] == ["s"]


def test_pods_from_birth_to_death(lk: lightkube.Client) -> None:
    """A pod is created, runs, is labelled, logs, and goes."""
    lk.create(Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(containers=[Container(name="c", image="i")])))
    assert lk.wait(Pod, "p", for_conditions=["Ready"]).status.phase == "Running"
    labelled = lk.patch(Pod, "p", {"metadata": {"labels": {"a": "b"}}}, patch_type=PatchType.MERGE)
    assert labelled.metadata.labels == {"a": "b"}
    assert list(lk.log("p", container="c", tail_lines=1)) == ["c\n"]
    lk.delete(Pod, "p", grace_period=0)
    deadline = time.monotonic() + 15
    while any(o.metadata.name == "p" for o in lk.list(Pod)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_manifests_are_loaded_and_applied(lk: lightkube.Client) -> None:
    """Several documents with kinds of several groups; twice changes nothing."""
    text = """
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {k: v}
---
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
"""
    created = [lk.apply(item, field_manager="m") for item in codecs.load_all_yaml(text)]
    again = [lk.apply(item, field_manager="m") for item in codecs.load_all_yaml(text)]
    assert [type(o).__name__ for o in created] == ["Secret", "Job"]
    assert [o.metadata.uid for o in created] == [o.metadata.uid for o in again]
    lk.wait(Job, "j", for_conditions=["Complete"])


async def test_the_async_client_works_alike(kubeconfig: str, namespace: str) -> None:
    """The ``AsyncClient`` works like the synchronous client."""
    client = lightkube.AsyncClient(namespace=namespace)
    try:
        await client.create(a_deployment("d"))
        assert (await client.wait(Deployment, "d", for_conditions=["Available"])).metadata.name == "d"
        assert [o.metadata.name async for o in client.list(Deployment)] == ["d"]
        async for event, item in client.watch(Deployment, server_timeout=2):
            assert (event, item.metadata.name) == ("ADDED", "d")
            break
    finally:
        await client.close()
