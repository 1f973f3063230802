"""Laws of `envtest.instruments.hot_loop_guard`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from server_caller import Caller

from envtest.environment import Environment
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.builder.operator import Operator
from opsdk.cluster.cluster import Cluster
from opsdk.event.request import Request
from opsdk.testing.loop import HotLoopError, VirtualLoop

CM = "/api/v1/namespaces/default/configmaps"


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run on a virtual loop, as the pytest plugin does."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main)


def test_a_reconciler_that_causes_its_own_events_fails() -> None:
    """The error names the program, the object, the request and the number of requests."""
    operator = Operator("spinner")

    @operator.reconciler(ConfigMap)
    async def reconcile(request: Request) -> None:
        source = await operator.client.get(ConfigMap, request.key)
        source.data["n"] = str(int(source.data.get("n", "0")) + 1)
        await operator.client.update(source)

    async def main() -> None:
        async with Environment(hot_loop_limit=50) as env, Cluster(env.config) as cluster:
            await cluster.uncached.create(ConfigMap(metadata=ObjectMeta(name="spin", namespace="default")))
            await operator.start(env.config)

    with pytest.raises(HotLoopError, match=rf"spinner.* repeats update {CM}/spin and no time passes") as error:
        run(main())
    assert "51 times: admin (as spinner)" in str(error.value)


def test_many_objects_are_no_hot_loop() -> None:
    """Creations and lists may be ten times as many as requests for one object."""

    async def main(count: int) -> None:
        async with Environment(hot_loop_limit=5) as env:
            call = Caller(env)
            for number in range(count):
                await call("POST", CM, {"metadata": {"name": f"c{number}"}})
            await asyncio.sleep(0)

    run(main(50))
    with pytest.raises(HotLoopError, match="repeats create"):
        run(main(52))


def test_time_that_passes_starts_the_count_anew() -> None:
    """A loop with pauses is legal, because time resets the count; a limit of 0 allows any loop."""

    async def main(limit: int, pause: float) -> None:
        async with Environment(hot_loop_limit=limit) as env:
            for _ in range(20):
                await Caller(env)("GET", f"{CM}/a")
                await asyncio.sleep(pause)

    run(main(5, 0.001))
    run(main(0, 0))
    with pytest.raises(HotLoopError):
        run(main(5, 0))
