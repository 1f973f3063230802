"""A write to a subresource that the definition does not have says so; a missing object stays a missing object."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from boxes import Box, BoxSpec, box, environment

from opsdk import Client, Cluster, Context, ControllerOptions, Operator, Unstructured, crd_for
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.client.patch import merge_patch
from opsdk.errors import NoMatchError, NotFoundError

MISSING = r"the definition of tests.opsdk.dev/v1, Kind=Box has no subresource status"
CRD = unstructured_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")


async def install(client: Client, *, status: bool) -> None:
    """Install the definition of boxes."""
    tree = crd_for(Box)
    if not status:
        del tree["spec"]["versions"][0]["subresources"]
    await client.apply(Unstructured.from_tree(tree), field_owner="installer", force=True)


@pytest.mark.parametrize("verb", ["patch", "update", "apply", "get"])
async def test_a_missing_subresource_is_named(verb: str) -> None:
    """Without the subresource, the definition is named; with it, a missing object stays a missing object."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        client = cluster.uncached

        async def write() -> Any:
            match verb:
                case "patch":
                    await client.status().patch(box(), merge_patch({"status": {"size": 2}}))
                case "update":
                    await client.status().update(await client.get(Box, "default/a", uncached=True))
                case "apply":
                    await client.status().apply(Box(metadata=box().metadata, spec=BoxSpec()), field_owner="x")
                case _:
                    await client.status().get(box(), Box)

        await install(client, status=False)
        await client.create(box())
        with pytest.raises(NoMatchError, match=MISSING) as error:
            await write()
        assert "subresources: {status: {}}" in str(error.value)
        await install(client, status=True)
        await write()
        await client.delete(box())
        await asyncio.sleep(2)
        env.audit.clear()
        for _ in range(100):
            with pytest.raises(NotFoundError, match='"a" not found'):
                await write()
        assert sum(not event.resource for event in env.audit) <= 4, "discovery runs once a minute"
        await client.create(box())
        await install(client, status=False)
        await asyncio.sleep(61)
        with pytest.raises(NoMatchError, match=MISSING):
            await write()


@pytest.mark.parametrize("fails", [False, True])
async def test_a_condition_that_cannot_be_written_is_logged(fails: bool, caplog: pytest.LogCaptureFixture) -> None:
    """With `error_condition`, the log says that the definition lacks the subresource, also after a failure."""
    operator = Operator("boxes")

    @operator.reconciler(Box, options=ControllerOptions(error_condition="Stalled"))
    async def reconcile(obj: Box, ctx: Context) -> None:
        if fails:
            raise OSError("no route")

    # The condition is True at first, so that a success has something to write.
    condition = {"type": "Stalled", "status": "True", "reason": "X", "message": "x"}
    async with environment.Environment() as env, Cluster(env.config) as outside:
        await install(outside.uncached, status=False)
        task = asyncio.create_task(operator.start(env.config))
        await asyncio.sleep(1)
        tree = tree_with({**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"})
        await outside.uncached.create(Unstructured.from_tree(tree))
        await asyncio.sleep(2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert "has no subresource status" in caplog.text


def tree_with(condition: dict[str, str]) -> dict[str, Any]:
    """A box with a condition."""
    return {
        "apiVersion": "tests.opsdk.dev/v1",
        "kind": "Box",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"size": 1},
        "status": {"conditions": [condition]},
    }
