"""The operator of the page on Secrets replaces Pods when the data of a Secret changes."""

from __future__ import annotations

import asyncio

from documentation import DOCS, blocks, page_module

import envtest
from opsdk import Cluster, ObjectMeta
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import Secret
from opsdk.client.patch import merge_patch
from opsdk.testing.running import running


async def test_a_new_password_replaces_the_pods() -> None:
    """A label of the Secret is not data."""
    path = DOCS / "howto" / "secrets.md"
    with page_module(path) as page:
        exec(blocks(path)[0].text, page.__dict__)
        async with envtest.Environment() as env, Cluster(env.config) as user, running(page.make_operator(), env):
            secret = Secret(metadata=ObjectMeta(name="s", namespace="default"), string_data={"password": "one"})
            secret = await user.uncached.create(secret)
            meta = ObjectMeta(name="shop", namespace="default")
            await user.uncached.create(page.Shop(metadata=meta, spec=page.ShopSpec(secret="s")))

            async def generation() -> int:
                return (await user.uncached.get(Deployment, "default/shop")).metadata.generation

            await env.eventually(generation, lambda current: current == 1)
            await user.uncached.patch(secret, merge_patch({"metadata": {"labels": {"team": "a"}}}))
            await asyncio.sleep(10)
            assert await generation() == 1
            await user.uncached.patch(secret, merge_patch({"stringData": {"password": "two"}}))
            await env.eventually(generation, lambda current: current == 2)
