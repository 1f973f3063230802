"""Faults that begin with a write or an event, and not at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import simulations

from envtest import Environment
from opsdk import Client, Cluster, ObjectKey, ObjectMeta
from opsdk.api.core.v1 import ConfigMap
from opsdk.engine.world.exchange import Exchange
from opsdk.engine.world.faults import PLACED_AT_WRITES, PLACED_FAULTS
from opsdk.engine.world.link import Link
from opsdk.errors import ConflictError, OpsdkError
from opsdk.testing.simulate import Fault, Step, simulate

A = ObjectKey("default", "a")


@asynccontextmanager
async def linked() -> AsyncIterator[tuple[Link, Client, Client]]:
    """Start a server; yields a link to it, a client behind the link, and one without a link."""
    async with Environment() as env:
        assert env.config.app is not None
        link = Link(env.config.app)
        async with Cluster(replace(env.config, app=link)) as cluster, Cluster(env.config) as direct:
            yield link, cluster.uncached, direct.uncached


def config_map(name: str) -> ConfigMap:
    """Return a config map."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"))


async def test_one_of_the_next_writes_meets_a_conflict() -> None:
    """Of the updates that follow one fails, and is not stored; creations cannot conflict."""
    async with linked() as (link, client, direct):
        await link.apply(Step(time=0, name=Fault.CONFLICTING_WRITE))
        stored = await client.create(config_map("a"))
        conflicts = 0
        for number in range(6):
            stored.data = {"n": str(number)}
            try:
                stored = await client.update(stored)
            except ConflictError:
                conflicts += 1
                assert (await direct.get(ConfigMap, A)).data != {"n": str(number)}
        assert conflicts == 1


async def stored_names(client: Client) -> list[str]:
    """Return the names of the config maps of the tests."""
    config_maps = await client.list(ConfigMap, namespace="default")
    return [each.metadata.name for each in config_maps if each.metadata.name.startswith("a-")]


async def test_one_of_the_next_answers_is_lost() -> None:
    """All writes are stored, and the client misses one answer."""
    async with linked() as (link, client, direct):
        await link.apply(Step(time=0, name=Fault.LOSE_ANSWER))
        lost = 0
        for number in range(6):
            try:
                await client.create(config_map(f"a-{number}"))
            except OpsdkError:
                lost += 1
        assert lost == 1
        assert len(await stored_names(direct)) == 6


async def test_a_client_ends_after_one_of_its_next_writes() -> None:
    """The last write is stored; then the link is dead."""
    async with linked() as (link, client, direct):
        crashed = asyncio.Event()
        link.on_crash = crashed.set
        await link.apply(Step(time=0, name=Fault.CRASH_AFTER_WRITE))
        for number in range(6):
            try:
                await client.create(config_map(f"a-{number}"))
            except OpsdkError:
                break
        assert crashed.is_set()
        assert link.dead
        assert len(await stored_names(direct)) == number + 1


@pytest.mark.parametrize("fault", sorted(PLACED_AT_WRITES))
async def test_a_fault_that_is_decided_is_the_one_that_is_placed(fault: Fault) -> None:
    """The exchange has its name, and the client misses the answer; only a conflict stores nothing."""
    async with linked() as (link, client, direct):
        stored = await direct.create(config_map("a"))
        exchanges: list[Exchange] = []

        async def decide(exchange: Exchange) -> Fault | None:
            return fault if exchange.is_write else None

        link.decide, link.on_exchange = decide, exchanges.append
        stored.data = {"n": "1"}
        with pytest.raises(OpsdkError):
            await client.update(stored)
        assert [each.fault for each in exchanges if each.is_write][:1] == [fault.value]
        assert ((await direct.get(ConfigMap, A)).data == {"n": "1"}) is (fault is not Fault.CONFLICTING_WRITE)
        assert link.dead is (fault is Fault.CRASH_AFTER_WRITE)


async def test_one_watch_stands_still() -> None:
    """Its events arrive after the window, in order, and none is lost."""
    async with linked() as (link, client, direct), client.watch(ConfigMap, namespace="default") as events:
        await link.apply(Step(time=0, name=Fault.SLOW_WATCH, seconds=30))
        begin = asyncio.get_running_loop().time()
        for number in range(6):
            await direct.create(config_map(f"a-{number}"))
            await asyncio.sleep(0.5)
        names: list[str] = []
        while len(names) < 6:
            event = await anext(aiter(events))
            if event.object.metadata.name.startswith("a-"):
                names.append(event.object.metadata.name)
        assert names == [f"a-{number}" for number in range(6)]
        assert asyncio.get_running_loop().time() - begin >= 30


@pytest.mark.slow
@pytest.mark.parametrize("fault", sorted(PLACED_FAULTS | {Fault.LOSE_LEASE}))
def test_operators_survive_each_fault(fault: Fault) -> None:
    """With nothing but one of these faults the simulations converge."""
    for name in ("FAMILIES", "REPLICAS"):
        simulate(replace(getattr(simulations, name), faults=(fault,)), range(2), name=f"simulations.{name}")
