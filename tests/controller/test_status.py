"""Laws of `opsdk.controller.status`: what an object is after its status was written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

import pytest
from boxes import Box, box, running
from hypothesis import given
from hypothesis import strategies as st

from opsdk import Client, Cluster, ConflictError, MergeFrom, ObjectMeta, Operator, Unstructured
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import Node
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import convert
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


@pytest.mark.parametrize("kind", [Deployment, unstructured_kind("apps/v1", "Deployment")])
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


@pytest.mark.parametrize("kind", [Deployment, unstructured_kind("apps/v1", "Deployment")])
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


# ------------------------------------------------------------------ conditions
class NoWrites:
    """A client for which any write is an error."""

    def status(self) -> NoWrites:
        """Return the client of the status."""
        return self

    async def patch(self, obj: object, patch: object) -> None:
        """Fail."""
        raise AssertionError(f"{patch!r} is written to {obj!r}")


TYPES, STATUSES = ("Ready", "Synced"), ("True", "False", "Unknown")
CONDITIONS = [
    {
        "type": name,
        "status": status,
        "reason": "Good",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    for name, status in zip(TYPES, STATUSES, strict=False)
]


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["set", "remove", "reset"]), st.sampled_from(TYPES), st.sampled_from(STATUSES))
    ),
    typed=st.booleans(),
)
def test_conditions_that_end_as_they_were_are_not_written(steps: list[tuple[str, str, str]], typed: bool) -> None:
    """Whatever a block did to conditions before, the same status with the same reason keeps its time, and no write."""
    tree = {
        "apiVersion": "tests.opsdk.dev/v1",
        "kind": "Box",
        "metadata": {"name": "a", "namespace": "default", "generation": 1},
        "spec": {},
        "status": {"observedGeneration": 1, "conditions": CONDITIONS},
    }
    obj: Any = convert(tree, Box) if typed else Unstructured.from_tree(deepcopy(tree))

    async def reconcile() -> None:
        async with StatusPatch[Any](NoWrites(), obj) as patch:  # type: ignore[arg-type]
            for step, name, status in steps:
                if step == "set":
                    patch.set_condition(name, status, "Elsewhere", "not yet")
                elif step == "remove":
                    patch.remove_condition(name)
                elif typed:
                    patch.status.conditions = []
                else:
                    patch.status["conditions"] = []
            for name in TYPES:
                patch.remove_condition(name)
            for condition in CONDITIONS:
                patch.set_condition(condition["type"], condition["status"], condition["reason"])

    asyncio.run(reconcile())


async def test_a_condition_that_changes_gets_a_new_time() -> None:
    """Only the status of a condition moves its time."""
    async with running(Operator("none")) as client:
        obj = await client.create(box())
        for status, changed in (("True", True), ("True", False), ("False", True), ("True", True)):
            before = next((c.last_transition_time for c in obj.status.conditions), None) if obj.status else None
            await asyncio.sleep(10)
            async with StatusPatch[Any](client, obj) as patch:
                patch.set_condition("Ready", "Unknown", "Checking")
                patch.set_condition("Ready", status, "Checked")
            assert obj.status is not None
            [condition] = obj.status.conditions
            assert (condition.last_transition_time != before) is changed
