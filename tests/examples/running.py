"""Runs an example with one object, and looks whether it comes to rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from envtest import Environment
from opsdk import Client, Cluster, ObjectMeta, Operator
from opsdk.client.patch import merge_patch
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.running import running


@asynccontextmanager
async def example(operator: Operator, obj: Any, definitions: Sequence[JsonObject] = ()) -> AsyncIterator[Client]:
    """Run an operator with one object, on a server with more definitions."""
    async with Environment(crds=definitions) as env, running(operator, env), Cluster(env.config) as cluster:
        obj.metadata = ObjectMeta(name="a", namespace="default")
        await cluster.uncached.create(obj)
        await asyncio.sleep(2)
        yield cluster.uncached


async def set_status(client: Client, kind: Any, name: str, **status: Any) -> None:
    """Write a status as the controller of the kind would."""
    live = await client.get(kind, f"default/{name}")
    status["observedGeneration"] = live.metadata.generation
    await client.status().patch(live, merge_patch({"status": status}))
    await asyncio.sleep(2)


async def assert_at_rest(client: Client, kind: Any, operator: Operator, outcome: str = "success") -> None:
    """Check that the object is done, and that a reconcile which finds nothing to do sends nothing."""
    before = list(operator.journal.find(name="a"))
    assert before[-1].result == outcome
    live = await client.get(kind, "default/a")
    await client.patch(live, merge_patch({"metadata": {"annotations": {"touched": "yes"}}}))
    await asyncio.sleep(60)
    later = list(operator.journal.find(name="a"))[len(before) :]
    assert later
    assert not [request for record in later for request in record.requests if request.verb not in ("get", "list")]
