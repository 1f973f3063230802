"""A cluster with a running cache, and controllers that run beside the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import field

from envtest import Environment
from opsdk import (
    Client,
    Cluster,
    ClusterOptions,
    Condition,
    GroupVersionKind,
    Model,
    Object,
    ObjectMeta,
    crd_for,
)
from opsdk.api.core.v1 import ConfigMap
from opsdk.base.runnable import Runnable
from opsdk.lifecycle.generic_controller import GenericController
from opsdk.testing.definitions import install_definitions


class SiteSpec(Model):
    """A size."""

    size: int = 1


class SiteStatus(Model):
    """A state with conditions."""

    size: int = 0
    conditions: list[Condition] = field(default_factory=list)


class Site(Object[SiteSpec, SiteStatus]):
    """A kind with a status subresource."""

    gvk = GroupVersionKind("lifecycle.opsdk.dev", "v1", "Site")


class World:
    """A server, a running cluster, and what a user sends beside it."""

    def __init__(self, env: Environment, cluster: Cluster, user: Client) -> None:
        self.env, self.cluster, self.user = env, cluster, user
        self._installed = False
        self.Site = Site

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    @asynccontextmanager
    async def running(self, *controllers: Runnable) -> AsyncIterator[None]:
        """Run controllers while the block runs."""
        tasks = [asyncio.create_task(controller.start()) for controller in controllers]
        for controller in controllers:
            if isinstance(controller, GenericController):
                await controller.wait_ready()
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result

    async def site(self, name: str = "a", namespace: str = "default", **fields: Any) -> Site:
        """Create a Site as a user; the first one installs the kind."""
        if not self._installed:
            await install_definitions(self.user, [crd_for(Site)])
            self._installed = True
        return await self.user.create(
            Site(metadata=ObjectMeta(name=name, namespace=namespace, **fields), spec=SiteSpec())
        )

    async def config(self, name: str = "a", namespace: str = "default", **fields: Any) -> ConfigMap:
        """Create a ConfigMap as a user."""
        meta = ObjectMeta(name=name, namespace=namespace, **fields.pop("meta", {}))
        return await self.user.create(ConfigMap(metadata=meta, **fields))

    async def read(self, name: str = "a") -> ConfigMap | None:
        """Read a ConfigMap of the default namespace from the server."""
        return await self.user.get_or_none(ConfigMap, f"default/{name}")

    async def until_gone(self, name: str = "a") -> None:
        """Wait until a ConfigMap of the default namespace is gone."""

        async def is_gone() -> bool:
            return await self.read(name) is None

        await self.until(is_gone)

    async def until(self, check: Callable[[], Any] | Callable[[], Awaitable[Any]], within: float = 30.0) -> Any:
        """Wait until `check` is true."""
        return await self.env.eventually(check, within=within)


@pytest.fixture
async def world(k8s_env: Environment) -> AsyncIterator[World]:
    """A running cluster."""
    async with (
        Cluster(k8s_env.config, ClusterOptions(name="tests")) as cluster,
        Cluster(k8s_env.config, ClusterOptions(name="user")) as user,
    ):
        task = asyncio.create_task(cluster.start())
        await cluster.wait_ready()
        yield World(k8s_env, cluster, user.uncached)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
