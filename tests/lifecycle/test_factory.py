"""The shared factory, as operators reach it: one controller, one informer and one queue for a kind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from envtest import Environment
from opsdk import Cluster, ConflictError, ObjectMeta, Operator, Request, UsageError
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.lifecycle.factory import SharedControllerFactory
from opsdk.lifecycle.options import GenericControllerOptions
from opsdk.testing.running import running


async def test_several_parts_share_one_informer(k8s_env: Environment) -> None:
    """Lasso details: handlers of several parts of a program share informer and queue; ForKind is idempotent."""
    order: list[str] = []
    operator = Operator("shared")
    factories: list[SharedControllerFactory] = []

    def part(name: str) -> Any:
        async def handle(request: Request, obj: ConfigMap | None) -> None:
            if request == Request("default", "x"):
                order.append(name)

        return handle

    @operator.setup
    def setup(operator: Operator) -> None:
        factory = SharedControllerFactory.of(operator)
        factories.append(factory)
        for name in ("a", "b", "c"):
            factory.for_kind(ConfigMap).add_handler(name, part(name))
        factory.for_kind(Secret)  # has no handler, so nothing is watched

    async with running(operator, k8s_env), Cluster(k8s_env.config) as user:
        await user.uncached.create(ConfigMap(metadata=ObjectMeta(name="x", namespace="default")))
        await k8s_env.eventually(lambda: order == ["a", "b", "c"])
        (factory,) = factories
        assert [kind.gvk.kind for kind in operator.cluster.cache.kinds()] == ["ConfigMap"]
        # Deferred start: the first handler starts the informer, also long after the operator.
        factory.for_kind(Secret).add_handler("late", part("late"))
        await k8s_env.eventually(lambda: len(operator.cluster.cache.kinds()) == 2)
        assert factory.for_object(ConfigMap(metadata=ObjectMeta(name="y"))) is factory.for_kind(ConfigMap)
        assert (await factory.for_resource("deployments.apps")).kind.name == "Deployment"
        assert {record.controller for record in operator.journal.find(name="x")} == {"configmap-handlers"}
        with pytest.raises(UsageError, match="use one class for each kind"):
            factory.for_kind(unstructured_kind("v1", "ConfigMap"))
        with pytest.raises(UsageError, match="already exists"):
            factory.for_kind(ConfigMap, predicates=[lambda event: True])


async def test_options_by_kind(k8s_env: Environment) -> None:
    """Lasso limiter: workers and limiter can differ by kind."""
    operator = Operator("shared")

    @operator.setup
    def setup(operator: Operator) -> None:
        options = GenericControllerOptions(workers=9)
        factory = SharedControllerFactory(
            operator.cluster, operator.manager, options=options, options_by_kind={Secret: GenericControllerOptions()}
        )
        assert factory.for_kind(ConfigMap).options.workers == 9
        assert factory.for_kind(Secret).options.workers == 5
        assert repr(factory) == "<SharedControllerFactory of ConfigMap, Secret>"

    async with running(operator, k8s_env):
        await asyncio.sleep(1)


async def test_handlers_end_with_the_operator(k8s_env: Environment) -> None:
    """A stop drains: a running handler may finish, and no task is left."""
    ended: list[str] = []
    operator = Operator("shared")

    @operator.setup
    def setup(operator: Operator) -> None:
        async def slow(request: Request, obj: ConfigMap | None) -> None:
            if request.name == "x":
                await asyncio.sleep(10)
                ended.append(request.name)

        async def conflicts(request: Request, obj: ConfigMap | None) -> None:
            raise ConflictError("always")

        controller = SharedControllerFactory.of(operator).for_kind(ConfigMap)
        controller.add_handler("slow", slow)
        controller.add_handler("conflicts", conflicts)

    async with Cluster(k8s_env.config) as user:
        await user.uncached.create(ConfigMap(metadata=ObjectMeta(name="x", namespace="default")))
        async with running(operator, k8s_env):
            await asyncio.sleep(1)
    assert ended == ["x"]


async def test_the_rules_have_the_kinds_of_the_factory(k8s_env: Environment) -> None:
    """``operator.rules()`` has what the informers of the factory need, for roles and for the check at the start."""
    operator = Operator("shared")

    @operator.setup
    def setup(operator: Operator) -> None:
        factory = SharedControllerFactory.of(operator)
        factory.for_kind(ConfigMap)
        factory.for_kind(ConfigMap)

    async with running(operator, k8s_env):
        assert str(operator.rules()) == "get configmaps\nlist configmaps\nwatch configmaps"
