"""Objects made as wanted, with as few writes as possible, against a whole API server in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from client_fakes import Site, SiteStatus, site

from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Unstructured
from opsdk.client.client import Client
from opsdk.client.decorators.intercept import intercept
from opsdk.client.operations import Get, Operation
from opsdk.client.patch import merge_patch
from opsdk.cluster.cluster import Cluster
from opsdk.errors import UsageError
from opsdk.recipes.create_or_update import OperationResult, create_or_patch, create_or_update

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
Recipe = Callable[..., Any]


@asynccontextmanager
async def world() -> AsyncIterator[tuple[Client, list[str]]]:
    """A client of a fresh server that serves sites, and the names of the writes made through it."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        await cluster.uncached.create(Unstructured.from_tree(crd_for(Site)))
        await asyncio.sleep(5)
        writes: list[str] = []

        async def count(operation: Operation, proceed: Any) -> Any:
            if not isinstance(operation, Get):
                writes.append(type(operation).__name__)
            return await proceed(operation)

        yield intercept(cluster.uncached, count), writes


def config(**data: str) -> ConfigMap:
    """A config map that is wanted."""
    return ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data=data)


@pytest.mark.behaviour(137)
@pytest.mark.parametrize("recipe", [create_or_update, create_or_patch])
async def test_the_result_is_created_updated_or_unchanged(recipe: Recipe) -> None:
    """A change is one write and no change none; the object then equals the server's."""
    async with world() as (client, writes):

        def wish(value: str) -> Callable[[ConfigMap], None]:
            def mutate(obj: ConfigMap) -> None:
                obj.data["x"] = value

            return mutate

        obj = config()
        assert await recipe(client, obj, wish("1")) is OperationResult.CREATED
        assert obj.metadata.uid
        obj = config()
        assert await recipe(client, obj, wish("1")) is OperationResult.UNCHANGED
        assert obj.data == {"x": "1"}
        assert await recipe(client, config(), wish("2")) is OperationResult.UPDATED
        assert await recipe(client, config()) is OperationResult.UNCHANGED
        assert len(writes) == 2


@pytest.mark.behaviour(137)
@pytest.mark.parametrize("recipe", [create_or_update, create_or_patch])
async def test_a_mutate_function_may_not_rename(recipe: Recipe) -> None:
    """A mutate function that changes the name is an error, and nothing is written."""
    async with world() as (client, writes):

        def rename(obj: ConfigMap) -> None:
            obj.metadata.name = "b"

        for _ in range(2):
            with pytest.raises(UsageError, match="must not change name or namespace"):
                await recipe(client, config(), rename)
            assert "Update" not in writes
            await client.apply(config(), field_owner="me")


@pytest.mark.behaviour(137)
async def test_status_is_patched_apart() -> None:
    """The results say which of the two was written; the status of a new object is not."""
    async with world() as (client, _):

        def wish(replicas: int, ready: int) -> Callable[[Site], None]:
            def mutate(obj: Site) -> None:
                obj.spec.replicas = replicas
                obj.status = SiteStatus(ready=ready)

            return mutate

        def wanted() -> Site:
            return site(namespace="default")

        obj = wanted()
        assert await create_or_patch(client, obj, wish(1, 1)) is OperationResult.CREATED
        assert obj.status is None
        assert await create_or_patch(client, wanted(), wish(1, 1)) is OperationResult.UPDATED_STATUS_ONLY
        obj = wanted()
        assert await create_or_patch(client, obj, wish(2, 2)) is OperationResult.UPDATED_STATUS
        assert (obj.spec.replicas, obj.status) == (2, SiteStatus(ready=2))
        assert await create_or_patch(client, wanted(), wish(3, 2)) is OperationResult.UPDATED
        assert await create_or_patch(client, wanted(), wish(3, 2)) is OperationResult.UNCHANGED


async def test_what_others_change_meanwhile_is_kept() -> None:
    """A patch touches only what the wish changed."""
    async with world() as (client, _):
        await client.create(config(x="1"))

        def wish(obj: ConfigMap) -> None:
            obj.data["mine"] = "1"

        await client.patch(config(), merge_patch({"data": {"theirs": "1"}}))
        obj = config()
        await create_or_patch(client, obj, wish)
        assert obj.data == {"x": "1", "mine": "1", "theirs": "1"}
