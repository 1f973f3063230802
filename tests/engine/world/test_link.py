"""Faults on the way to a server, seen from the client."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import simulations
from slow_cases import mostly_slow

from envtest import Environment
from opsdk import Cluster, ObjectMeta
from opsdk.api.core.v1 import ConfigMap
from opsdk.engine.world.link import Link
from opsdk.errors import DeadlineError
from opsdk.testing.simulate import Fault, Step, simulate


async def test_a_black_hole_swallows_requests_and_silences_watches() -> None:
    """No response and no error: the client's own timeouts end the request and the watch. Later requests pass."""
    async with Environment() as env:
        app = env.config.app
        assert app is not None
        link = Link(app)
        config = replace(env.config, app=link, timeout=5.0)
        async with Cluster(config) as cluster, Cluster(env.config) as direct:
            client = cluster.uncached
            async with client.watch(ConfigMap, namespace="default", resource_version="0") as events:
                await link.apply(Step(time=0, name=Fault.BLACK_HOLE, seconds=30))
                with pytest.raises(DeadlineError):
                    await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
                assert not await direct.uncached.list(ConfigMap, namespace="default")
                await asyncio.sleep(30)
                await client.create(ConfigMap(metadata=ObjectMeta(name="b", namespace="default")))
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(60):
                        await anext(aiter(events))


@pytest.mark.parametrize("name", mostly_slow(simulations.ALL, every=3))
def test_operators_survive_black_holes(name: str) -> None:
    """With nothing but black holes every simulation converges."""
    simulation = simulations.ALL[name]
    only = replace(simulation, faults=(Fault.BLACK_HOLE,))
    simulate(only, range(2), name=f"simulations.{name.upper()}")


def test_a_watch_that_vanishes_is_opened_again() -> None:
    """The head of a watch has a timeout: without it the cache would stay as it was, forever."""
    steps = [
        Step(time=32.018, name="cut_watches", seed=176972257),
        Step(time=33.075, name="black_hole", seconds=0.78, seed=230210706),
        Step(time=39.601, name="make_site", seed=238293563),
    ]
    outcome = simulations.WEBSITES.run(4, steps)
    assert not outcome.violations, outcome.violations
