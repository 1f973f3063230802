"""Setup functions with a ``yield``: they run around the controllers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from envtest import Environment
from opsdk import Cluster, Context, ObjectMeta, Operator, UsageError
from opsdk.api.core.v1 import ConfigMap
from opsdk.testing.running import running


def config() -> ConfigMap:
    """Return a new ConfigMap."""
    return ConfigMap(metadata=ObjectMeta(name="a", namespace="default"))


class Service:
    """Something outside the cluster, which takes three seconds to connect to."""

    def __init__(self) -> None:
        self.log: list[str] = []

    async def connect(self) -> None:
        """Connect."""
        await asyncio.sleep(3)
        self.log.append("connected")

    async def close(self) -> None:
        """Close the connection."""
        await asyncio.sleep(3)
        self.log.append("closed")


def make_operator(service: Service) -> Operator:
    """Return an operator whose reconciles take two seconds, and need the service."""
    operator = Operator("blocks")

    @operator.setup
    async def connect(operator: Operator) -> AsyncIterator[None]:
        await service.connect()
        yield
        await service.close()

    @operator.reconciler(ConfigMap)
    async def reconcile(config: ConfigMap, ctx: Context) -> None:
        if config.metadata.name == "a":
            service.log.append("reconciling")
            await asyncio.sleep(2)
            service.log.append("reconciled")

    return operator


async def test_the_controllers_work_inside_of_the_block() -> None:
    """The first reconcile begins after the yield is reached, and the last one has ended before the block goes on."""
    service = Service()
    async with Environment() as env, Cluster(env.config) as user:
        await user.uncached.create(config())
        async with running(make_operator(service), env):
            await asyncio.sleep(1)
    assert service.log == ["connected", "reconciling", "reconciled", "closed"]


async def test_an_error_of_the_entry_ends_the_operator() -> None:
    """No reconcile runs, and the block is not left."""
    service = Service()
    operator = make_operator(service)

    @operator.setup
    async def fail(operator: Operator) -> AsyncIterator[None]:
        raise ConnectionRefusedError("the service is down")
        yield

    async with Environment() as env, Cluster(env.config) as user:
        await user.uncached.create(config())
        with pytest.raises(ConnectionRefusedError, match="the service is down"):
            async with running(operator, env):
                await asyncio.sleep(1000)
    assert "reconciling" not in service.log


async def test_an_error_of_the_exit_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The stop goes on, as after an error of any runnable that ends."""
    operator = Operator("blocks")

    @operator.setup
    async def leave(operator: Operator) -> AsyncIterator[None]:
        yield
        raise ConnectionResetError("not closed")

    @operator.reconciler(ConfigMap)
    async def reconcile(config: ConfigMap) -> None: ...

    async with Environment() as env, running(operator, env):
        await asyncio.sleep(1)
    assert "failed while stopping: ConnectionResetError('not closed')" in caplog.text


def test_an_async_function_without_a_yield_is_refused() -> None:
    """An async function without a yield is refused, because it would run before the event loop."""
    with pytest.raises(UsageError, match="connect is async: declare a plain def, or yield once"):

        @Operator("blocks").setup
        async def connect(operator: Operator) -> None: ...
