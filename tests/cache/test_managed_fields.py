"""Informers whose transform removes managedFields ask the server to leave them out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from envtest import Environment
from opsdk import ByObject, CacheOptions, Cluster, ClusterOptions, ObjectMeta
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.apimachinery.kinds import metadata_only
from opsdk.cache.options import strip_managed_fields
from opsdk.children.applier import Applier

DROP = ";drop=metadata.managedFields"


class AcceptHeaders:
    """An ASGI application that keeps the Accept header of each read."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.by_path: dict[str, set[str]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "GET":
            headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
            self.by_path.setdefault(scope["path"], set()).add(headers.get("accept", ""))
        await self.app(scope, receive, send)


@pytest.mark.parametrize(
    ("kind", "accepted"),
    [
        (Secret, {f"application/json{DROP},application/json"}),
        (
            metadata_only(Secret),
            {
                f"application/json;as={kind};g=meta.k8s.io;v=v1{DROP},"
                f"application/json;as={kind};g=meta.k8s.io;v=v1,application/json"
                for kind in ("PartialObjectMetadata", "PartialObjectMetadataList")
            },
        ),
    ],
)
async def test_lists_and_watches_ask_for_objects_without_managed_fields(kind: Any, accepted: set[str]) -> None:
    """A server that does not know the parameter answers with the next clause, and the transform removes the fields."""
    cache = CacheOptions(by_kind={Secret: ByObject(transform=strip_managed_fields)}, watch_list=False)
    async with Environment() as env:
        app = AcceptHeaders(env.config.app)
        async with Cluster(replace(env.config, app=app), ClusterOptions(cache=cache)) as cluster:
            await cluster.uncached.create(Secret(metadata=ObjectMeta(name="a", namespace="default")))
            meta = ObjectMeta(name="a", namespace="default")
            await cluster.uncached.create(ConfigMap(metadata=meta, data={"k": "v"}))
            task = asyncio.create_task(cluster.start())
            await cluster.cache.wait_ready()
            secret = await cluster.client.get(kind, "default/a")
            config = await cluster.client.get(ConfigMap, "default/a")
            await asyncio.sleep(1)
            task.cancel()
            await asyncio.wait([task])
    assert app.by_path["/api/v1/secrets"] == accepted
    assert app.by_path["/api/v1/configmaps"] == {"application/json"}
    assert not secret.metadata.managed_fields
    assert config.metadata.managed_fields


async def test_apply_compares_values_of_such_a_kind() -> None:
    """The first apply of a process is sent; a repeated one sends nothing."""
    cache = CacheOptions(transform=strip_managed_fields)
    async with Environment() as env, Cluster(env.config, ClusterOptions(cache=cache)) as cluster:
        task = asyncio.create_task(cluster.start())
        await cluster.cache.wait_ready()
        desired = ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"k": "v"})
        applier = Applier(cluster.client, field_owner="me")
        versions = {(await applier.apply(desired)).metadata.resource_version for _ in range(3)}
        task.cancel()
        await asyncio.wait([task])
    assert len(versions) == 1
