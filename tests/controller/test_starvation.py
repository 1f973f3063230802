"""Requests of low priority are reconciled beside live changes that occupy all workers."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from boxes import Box, box, environment

from opsdk import Cluster, ControllerOptions, Operator, UsageError, crd_for
from opsdk.client.patch import merge_patch


@pytest.mark.parametrize(("options", "least"), [(ControllerOptions(), 31), (ControllerOptions(max_wait=0), 1)])
async def test_the_initial_list_does_not_starve(options: ControllerOptions, least: int) -> None:
    """All objects of the initial list are reconciled, though one object changes faster than it is reconciled."""
    operator, passes = Operator("boxes"), Counter[str]()

    @operator.reconciler(Box, options=options)
    async def reconcile(obj: Box) -> None:
        passes[obj.metadata.name] += 1
        await asyncio.sleep(1)

    async def change_without_end() -> None:
        for size in range(10_000):
            await outside.uncached.patch(box("busy"), merge_patch({"spec": {"size": size}}))
            await asyncio.sleep(0.5)

    async with environment.Environment(crds=[crd_for(Box)]) as env, Cluster(env.config) as outside:
        for name in ["busy", *(f"quiet-{number}" for number in range(30))]:
            await outside.uncached.create(box(name))
        changing = asyncio.create_task(change_without_end())
        task = asyncio.create_task(operator.start(env.config))
        await asyncio.sleep(120)
        for running in (changing, task):
            running.cancel()
        await asyncio.gather(changing, task, return_exceptions=True)
    assert len(passes) >= least
    assert (least > 1) == (len(passes) > 15)
    assert passes["busy"] >= 50


def test_the_limit_is_a_time() -> None:
    """A wrong value is refused where it is written."""
    with pytest.raises(UsageError, match="max_wait is -1: pass a number of seconds"):
        ControllerOptions(max_wait=-1)
