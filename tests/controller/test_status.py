"""Laws of `opsdk.controller.status`: what an object is after its status was written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from opsdk import Client, Cluster, ConflictError, MergeFrom, ObjectMeta, Unstructured, unstructured
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import Node
from opsdk.client.patch import merge_patch
from opsdk.controller.status import StatusPatch

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x", "image": "y"}]}}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d", "namespace": "default"},
    "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE},
}
CHANGES = {
    "spec": {"spec": {"replicas": 7}},
    "labels": {"metadata": {"labels": {"team": "a"}}},
    "finalizers": {"metadata": {"finalizers": ["example.com/a"]}},
}


@asynccontextmanager
async def deployment(kind: Any = Deployment) -> AsyncIterator[tuple[Client, Any]]:
    """Return a client without a cache, and an object that it has read."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        await cluster.uncached.create(Unstructured.from_tree(DEPLOYMENT))
        yield cluster.uncached, await cluster.uncached.get(kind, "default/d")


async def write_status(client: Client, obj: Any, replicas: int = 1) -> None:
    """Write the status as a reconciler does."""
    async with StatusPatch[Any](client, obj) as patch:
        if isinstance(obj, Unstructured):
            patch.status["replicas"] = replicas
        else:
            patch.status.replicas = replicas


@pytest.mark.parametrize("kind", [Deployment, unstructured("apps/v1", "Deployment")])
async def test_an_object_can_be_written_after_its_status(kind: Any) -> None:
    """Without other writers, a patch with a lock and an update succeed after status writes, and send only the rest."""
    async with deployment(kind) as (client, obj):
        await write_status(client, obj)
        await write_status(client, obj, replicas=2)
        obj.metadata.labels["mine"] = "yes"
        assert b"status" not in MergeFrom().data(obj)
        await client.patch(obj, MergeFrom(optimistic_lock=True))
        await write_status(client, obj, replicas=3)
        obj.metadata.labels["mine"] = "no"
        await client.update(obj)
        stored = await client.get(Deployment, "default/d")
        assert (stored.status.replicas, stored.metadata.labels["mine"]) == (3, "no")


@pytest.mark.parametrize("kind", [Deployment, unstructured("apps/v1", "Deployment")])
@pytest.mark.parametrize("change", CHANGES)
async def test_a_status_write_does_not_hide_the_change_of_another_writer(kind: Any, change: str) -> None:
    """An update of the object that was read does not undo changes between the read and the status write."""
    async with deployment(kind) as (client, obj):
        await client.patch(await client.get(Deployment, "default/d"), merge_patch(CHANGES[change]))
        await write_status(client, obj)
        with pytest.raises(ConflictError):
            await client.update(obj)
        obj.metadata.labels["mine"] = "yes"
        with pytest.raises(ConflictError):
            await client.patch(obj, MergeFrom(optimistic_lock=True))


@pytest.mark.parametrize("changed", [False, True])
async def test_specs_of_kinds_without_a_generation_are_compared(changed: bool) -> None:
    """A Node has no generation: its specs decide whether another writer has changed it."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        client = cluster.uncached
        await client.create(Node(metadata=ObjectMeta(name="n")))
        obj = await client.get(Node, "n")
        if changed:
            await client.patch(await client.get(Node, "n"), merge_patch({"spec": {"unschedulable": True}}))
        async with StatusPatch[Any](client, obj) as patch:
            patch.status.phase = "Running"
        if changed:
            with pytest.raises(ConflictError):
                await client.update(obj)
        else:
            await client.update(obj)
