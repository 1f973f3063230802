"""What users do in the demo: they create Websites, look at them, and change one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from opsdk import Client, Cluster, ObjectMeta, load_config
from opsdk.client.patch import merge_patch
from opsdk.recipes import create_crds
from website.api import Website, WebsiteSpec

OLD_IMAGE = "nginx:1.28"
NEW_IMAGE = "registry.example.com:5000/nginx:1.29"
SITES = ("hello", "docs")
_OWNER = "web-team"
"""The field manager of their writes, which managedFields and the causes of a reconcile name."""

T = TypeVar("T")


def on_cluster(kubeconfig: Path, action: Callable[[Client], Awaitable[T]]) -> T:
    """Return the result of an action on the cluster of a kubeconfig."""

    async def act() -> T:
        async with Cluster(load_config(kubeconfig=kubeconfig)) as cluster:
            return await action(cluster.uncached)

    return asyncio.run(act())


async def create_websites(client: Client) -> None:
    """Install the definition of Website, and create two of them."""
    await create_crds(client, [Website])
    for name in SITES:
        meta = ObjectMeta(name=name, namespace="default")
        site = Website(metadata=meta, spec=WebsiteSpec(image=OLD_IMAGE, replicas=2))
        await client.create(site, field_owner=_OWNER)


async def move_image(client: Client) -> None:
    """Let Website hello take its image from a registry that has a port."""
    meta = ObjectMeta(name="hello", namespace="default")
    site = Website(metadata=meta, spec=WebsiteSpec(image=""))
    await client.patch(site, merge_patch({"spec": {"image": NEW_IMAGE}}), field_owner=_OWNER)


async def are_served(client: Client) -> bool:
    """Whether each Website serves the image of its spec."""
    sites = await client.list(Website)
    return all(site.status is not None and site.status.image == site.spec.image for site in sites)
