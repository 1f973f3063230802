"""Objects of one managed cluster."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from opsdk import ObjectMeta, Unstructured
from opsdk.api.core.v1 import ConfigMap
from opsdk.lifecycle.cluster_scope import for_cluster, object_in_cluster
from opsdk.lifecycle.generic_controller import GenericController
from opsdk.lifecycle.names import LifecycleNames


class Node(ConfigMap, kw_only=True):
    """A kind that knows its cluster."""

    def obj_cluster_name(self) -> str:
        return "c-1"


def tree(**content: Any) -> Unstructured:
    """Return an object in the namespace other."""
    metadata = {"name": "a", "namespace": "other", **content.pop("metadata", {})}
    return Unstructured.from_tree({"apiVersion": "v1", "kind": "Site", "metadata": metadata, **content})


@pytest.mark.parametrize(
    "obj",
    [
        Node(metadata=ObjectMeta(name="a", namespace="c-2", annotations={"field.cattle.io/projectId": "c-2:p"})),
        tree(metadata={"annotations": {"field.cattle.io/projectId": "c-1:p-1"}}, spec={"clusterName": "c-2"}),
        tree(spec={"clusterName": "c-1", "projectName": "c-2:p"}),
        tree(spec={"projectName": "c-1:p"}),
        tree(projectName="c-1:p"),
        tree(metadata={"namespace": "c-1"}, spec=None),
    ],
)
def test_what_says_the_cluster(obj: Any) -> None:
    """Norman Typed helpers: method, annotation, clusterName, projectName, namespace; the first one decides."""
    assert object_in_cluster(obj, "c-1")
    assert not object_in_cluster(obj, "c-2")
    assert not for_cluster("c-10")(obj)


async def test_only_the_objects_of_the_cluster(world: Any) -> None:
    """Norman Typed helpers, AddClusterScopedHandler: only its cluster's objects are seen; names carry the cluster."""
    received: list[str] = []

    class Dns:
        async def updated(self, obj: ConfigMap) -> None:
            received.append(obj.metadata.name)

        async def remove(self, obj: ConfigMap) -> None: ...

    controller = GenericController(world.cluster, ConfigMap)
    names = LifecycleNames.cluster_scoped("dns", "c-1")
    controller.add_lifecycle("dns", Dns(), names=names, when=for_cluster("c-1"))
    annotations = {"field.cattle.io/projectId": "c-1:p"}
    await world.config("ours", meta={"annotations": annotations})
    await world.config("theirs")
    async with world.running(controller):
        await world.until(lambda: received)
        await asyncio.sleep(10)
    assert set(received) == {"ours"}
    assert (await world.read("ours")).metadata.finalizers == ["clusterscoped.controller.cattle.io/dns_c-1"]
    assert (await world.read("theirs")).metadata.finalizers == []
