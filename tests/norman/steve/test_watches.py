"""Watches of types that come and go with their definition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from stevekit import WIDGETS, config_map, running_cluster

import envtest
from opsdk.apimachinery.object import Unstructured
from opsdk.apiserver.auth.user import User
from opsdk.client.client import Client
from opsdk.norman.steve.api import SteveApi, SteveOptions
from opsdk.norman.steve.resources import SteveUrls
from opsdk.norman.steve.watches import SubscribeFrame, UserWatches
from opsdk.structured_merge.value import JsonObject

ADMIN = User(name="admin", groups=("system:masters",))
ID = "demo.dev.widget"


async def install(client: Client, api: SteveApi) -> Unstructured:
    """Create the definition, and wait until its type is served."""
    definition = await client.create(Unstructured.from_tree(WIDGETS))
    async with asyncio.timeout(10):
        while ID not in api.catalog.schemas:
            await asyncio.sleep(0.01)
    return definition


async def rest(messages: AsyncGenerator[JsonObject, None]) -> list[str]:
    """The names of what comes until the watch ends."""
    async with asyncio.timeout(60):
        return [message["name"] async for message in messages]


async def test_the_watches_of_a_type_and_of_counts_end_with_its_definition() -> None:
    """Watches of a type end with its definition, and the watch of schemas shows the change."""
    async with envtest.Environment() as env, running_cluster(env) as cluster, SteveApi(cluster) as api:
        watches = UserWatches(api, ADMIN, SteveUrls("http://steve"))
        schemas = await watches.watch(SubscribeFrame(resource_type="schemas"))
        by_name: dict[str, object] = {}

        async def read() -> None:
            async for message in schemas:
                by_name[message["name"]] = message["data"]["id"]

        reading = asyncio.create_task(read())
        await asyncio.sleep(0)
        definition = await install(cluster.uncached, api)
        widgets = asyncio.ensure_future(rest(await watches.watch(SubscribeFrame(resource_type=ID))))
        counts = asyncio.ensure_future(rest(await watches.watch(SubscribeFrame(resource_type="counts"))))
        await asyncio.sleep(5)
        await cluster.uncached.delete(definition)
        assert set(await widgets) <= {"resource.remove"}
        await counts
        await asyncio.sleep(5)
        assert by_name == {"resource.create": ID, "resource.remove": ID}
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert "admin" in repr(watches)


async def test_counts_go_on_while_other_users_come() -> None:
    """Count watches survive the eviction of the user's permissions from the cache."""
    options = SteveOptions(max_users=1)
    async with envtest.Environment() as env, running_cluster(env) as cluster, SteveApi(cluster, options) as api:
        watches = UserWatches(api, ADMIN, SteveUrls("http://steve"))
        counts = await watches.watch(SubscribeFrame(resource_type="count"))
        waiting = asyncio.ensure_future(anext(counts))
        await asyncio.sleep(1)
        api.schemas_for(User(name="ann"))
        await config_map(cluster.uncached, "default", "a")
        assert list((await waiting)["data"]["counts"]) == ["configmap"]
        await counts.aclose()
