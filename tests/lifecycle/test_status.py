"""Status handlers: only differences are written, an error keeps the old status."""

from __future__ import annotations

import asyncio
from typing import Any

from opsdk import Context
from opsdk.lifecycle.cond import Cond
from opsdk.lifecycle.generic_controller import GenericController
from opsdk.lifecycle.options import NORMAN
from opsdk.lifecycle.status import status_handler

READY = Cond("Ready")


async def test_an_error_keeps_the_other_fields(world: Any) -> None:
    """Wrangler RegisterXStatusHandler: the handler raises: the condition is False, other fields are unchanged."""
    failing = False
    calls: list[int] = []

    @status_handler(condition="Ready")
    async def compute(site: Any, status: Any) -> Any:
        calls.append(site.spec.size)
        status.size = site.spec.size * 10
        if failing:
            raise ValueError("no capacity")
        return status

    site = await world.site()
    controller = GenericController(world.cluster, world.Site, options=NORMAN)
    controller.add_handler("status", compute)

    async def live() -> Any:
        return await world.user.get(world.Site, "default/a")

    async def ready() -> bool:
        return READY.is_true(await live())

    async def failed() -> bool:
        return READY.is_false(await live())

    async with world.running(controller):
        await world.until(ready)
        first = await live()
        assert first.status.size == 10
        await asyncio.sleep(100)
        failing = True
        first.spec.size = 2
        await world.user.update(first)
        await world.until(failed)
        second = await live()
        assert (second.status.size, READY.message(second)) == (10, "ValueError: no capacity")
        assert READY.last_updated(second) > READY.last_updated(first)
        async with world.env.no_writes():
            retries = len(calls)
            await asyncio.sleep(100)
            assert len(calls) > retries
        failing = False
        await world.until(ready, within=600)
    assert (await live()).status.size == 20
    assert site.metadata.name == "a"


async def test_no_difference_is_no_request(world: Any) -> None:
    """Wrangler RegisterXStatusHandler: lastUpdateTime and the status change only when something changed."""
    calls: list[str] = []

    @status_handler(condition="Ready")
    async def compute(site: Any, status: Any, ctx: Context) -> None:
        calls.append(ctx.request.name)
        status.size = 7

    await world.site()
    controller = GenericController(world.cluster, world.Site)
    controller.add_handler("status", compute)
    async with world.running(controller):
        await world.until(lambda: len(calls) >= 2)
        async with world.env.no_writes():
            controller.enqueue("default", "a")
            await asyncio.sleep(100)
    assert len(calls) >= 3
