"""The operator against the in-process API server, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import envtest
from opsdk import Client, Cluster, MergeFrom, ObjectMeta, Unstructured, crd_for, deep_copy
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap, Service
from opsdk.recipes import is_condition_true, is_controlled_by
from website.api import FINALIZER, Website, WebsiteSpec
from website.operator import DIRECTORY, make_operator


@asynccontextmanager
async def running_operator() -> AsyncIterator[Client]:
    """An API server with the kind installed, and the operator at work."""
    async with envtest.Environment(controllers="cluster") as env, Cluster(env.config) as cluster:
        await cluster.uncached.create(Unstructured.from_tree(crd_for(Website)))
        operator = make_operator()
        working = asyncio.create_task(operator.start(env.config))
        try:
            yield cluster.uncached
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


def site(name: str = "hello", **spec: object) -> Website:
    """A Website in the default namespace."""
    wanted = WebsiteSpec(image="nginx:1")
    for field, value in spec.items():
        setattr(wanted, field, value)
    return Website(metadata=ObjectMeta(name=name, namespace="default"), spec=wanted)


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait, for at most a virtual minute, until `check` holds."""
    async with asyncio.timeout(60):
        while not await check():
            await asyncio.sleep(0.1)


async def is_ready(client: Client, image: str = "nginx:1") -> bool:
    """Whether the site serves `image`."""
    found = await client.get(Website, "default/hello")
    status = found.status
    return status is not None and status.image == image and is_condition_true(status.conditions, "Ready")


async def sites_in_the_directory(client: Client) -> set[str]:
    """What the directory of the default namespace lists."""
    return {entry.data["site"] for entry in await client.list(ConfigMap, namespace="default", label_selector=DIRECTORY)}


async def test_a_website_gets_its_parts_and_becomes_ready() -> None:
    """ConfigMap, Service and Deployment appear, owned by the site, and the status says Ready."""
    async with running_operator() as client:
        made = await client.create(site(content="Hi!"))
        await until(lambda: is_ready(client))
        page = await client.get(ConfigMap, "default/hello")
        assert page.data == {"index.html": "Hi!"}
        for kind in (ConfigMap, Service, Deployment):
            assert is_controlled_by(made, await client.get(kind, "default/hello"))
        assert FINALIZER in (await client.get(Website, "default/hello")).metadata.finalizers


async def test_a_new_image_is_rolled_through() -> None:
    """The Deployment follows the image, and the status says when it serves."""
    async with running_operator() as client:
        found = await client.create(site())
        await until(lambda: is_ready(client))
        before = deep_copy(found)
        found.spec.image = "nginx:2"
        await client.patch(found, MergeFrom(before))
        await until(lambda: is_ready(client, "nginx:2"))
        deployment = await client.get(Deployment, "default/hello")
        assert deployment.spec.template.spec is not None
        assert deployment.spec.template.spec.containers[0].image == "nginx:2"


async def test_a_child_deleted_by_hand_comes_back() -> None:
    """What the site owns is made again."""
    async with running_operator() as client:
        await client.create(site())
        await until(lambda: is_ready(client))
        old = await client.get(Service, "default/hello")
        await client.delete(old)

        async def is_back() -> bool:
            found = await client.get_or_none(Service, "default/hello")
            return found is not None and found.metadata.uid != old.metadata.uid

        await until(is_back)


async def test_deletion_cleans_up() -> None:
    """The finalizer leaves the directory, then the site and everything it owns is gone."""
    async with running_operator() as client:
        await client.create(site())
        await client.create(site("other"))
        await until(lambda: is_ready(client))
        assert await sites_in_the_directory(client) >= {"hello"}
        await client.delete(Website, "default/hello")

        async def is_gone() -> bool:
            return await client.get_or_none(Website, "default/hello") is None

        await until(is_gone)
        assert await sites_in_the_directory(client) == {"other"}


async def test_nothing_is_written_when_nothing_changes() -> None:
    """A settled site causes no writes: the revision stands still until Events expire, after an hour."""
    async with running_operator() as client:
        await client.create(site())
        await until(lambda: is_ready(client))
        await asyncio.sleep(60)
        before = (await client.list(Website)).metadata.resource_version
        await asyncio.sleep(3000)
        assert (await client.list(Website)).metadata.resource_version == before
