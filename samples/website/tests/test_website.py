"""The operator against the in-process API server, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from envtest import Environment
from opsdk import Client, ObjectMeta
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap, Service
from opsdk.client.patch import merge_patch
from opsdk.recipes import is_controlled_by
from opsdk.testing.eventually import assert_condition, eventually
from opsdk.testing.running import running
from website.api import FINALIZER, Website, WebsiteSpec
from website.operator import DIRECTORY, make_operator

pytestmark = pytest.mark.k8s(controllers="cluster")


async def create(client: Client, name: str = "hello", **spec: object) -> Website:
    """Create a Website in the default namespace."""
    meta = ObjectMeta(name=name, namespace="default")
    return await client.create(Website(metadata=meta, spec=WebsiteSpec(image="nginx:1", **spec)))  # type: ignore[arg-type]


async def wait_ready(client: Client, image: str = "nginx:1") -> None:
    """Wait until the site serves an image."""

    async def is_ready() -> bool:
        site = await client.get(Website, "default/hello")
        assert_condition(site, "Ready")
        return site.status is not None and site.status.image == image

    await eventually(is_ready)


async def sites_in_the_directory(client: Client) -> set[str]:
    """Return the sites that the directory of the default namespace lists."""
    return {entry.data["site"] for entry in await client.list(ConfigMap, namespace="default", label_selector=DIRECTORY)}


async def test_a_website_gets_its_parts_and_becomes_ready(k8s_env: Environment, k8s_client: Client) -> None:
    """ConfigMap, Service and Deployment appear, owned by the site, and the status says Ready."""
    async with running(make_operator(), k8s_env):
        site = await create(k8s_client, content="Hi!")
        await wait_ready(k8s_client)
        page = await k8s_client.get(ConfigMap, "default/hello")
        assert page.data == {"index.html": "Hi!"}
        for kind in (ConfigMap, Service, Deployment):
            assert is_controlled_by(site, await k8s_client.get(kind, "default/hello"))
        assert FINALIZER in (await k8s_client.get(Website, "default/hello")).metadata.finalizers


async def test_a_new_image_is_rolled_through(k8s_env: Environment, k8s_client: Client) -> None:
    """The Deployment gets the new image, and the status reports when the rollout is complete."""
    async with running(make_operator(), k8s_env):
        site = await create(k8s_client)
        await wait_ready(k8s_client)
        await k8s_client.patch(site, merge_patch({"spec": {"image": "nginx:2"}}))
        await wait_ready(k8s_client, "nginx:2")
        deployment = await k8s_client.get(Deployment, "default/hello")
        assert deployment.spec.template.spec is not None
        assert deployment.spec.template.spec.containers[0].image == "nginx:2"


async def test_a_child_deleted_by_hand_comes_back(k8s_env: Environment, k8s_client: Client) -> None:
    """A deleted child is created again."""
    async with running(make_operator(), k8s_env):
        await create(k8s_client)
        await wait_ready(k8s_client)
        old = await k8s_client.get(Service, "default/hello")
        await k8s_client.delete(old)

        async def is_back() -> bool:
            return (await k8s_client.get(Service, "default/hello")).metadata.uid != old.metadata.uid

        await eventually(is_back)


async def test_deletion_cleans_up(k8s_env: Environment, k8s_client: Client) -> None:
    """The finalizer leaves the directory, then the site and everything it owns is gone."""
    async with running(make_operator(), k8s_env):
        await create(k8s_client)
        await create(k8s_client, "other")
        await wait_ready(k8s_client)
        assert await sites_in_the_directory(k8s_client) >= {"hello"}
        await k8s_client.delete(Website, "default/hello")

        async def is_gone() -> bool:
            return await k8s_client.get_or_none(Website, "default/hello") is None

        await eventually(is_gone)
        assert await sites_in_the_directory(k8s_client) == {"other"}


async def test_nothing_is_written_when_nothing_changes(k8s_env: Environment, k8s_client: Client) -> None:
    """A reconciled site causes no writes: the storage revision does not change until Events expire after an hour."""
    async with running(make_operator(), k8s_env):
        await create(k8s_client)
        await wait_ready(k8s_client)
        await asyncio.sleep(60)
        before = (await k8s_client.list(Website)).metadata.resource_version
        await asyncio.sleep(3000)
        assert (await k8s_client.list(Website)).metadata.resource_version == before
