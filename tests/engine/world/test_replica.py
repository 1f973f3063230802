"""A replica of a simulated operator: crash, and restart."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from envtest import Environment
from opsdk import Operator
from opsdk.engine.world.invariants import LeaseLedger
from opsdk.engine.world.replica import Observer, Replica


class SlowToEnd(Operator):
    """An operator that needs three seconds to end, however often it is cancelled."""

    async def start(self, *_: Any, **__: Any) -> None:
        """Run until a cancellation, and three seconds longer."""
        loop = asyncio.get_running_loop()
        try:
            await asyncio.Event().wait()
        finally:
            end = loop.time() + 3
            while loop.time() < end:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.5)


async def test_a_crash_that_takes_time_does_not_reach_the_next_start() -> None:
    """The replica is started while its crashed process still ends: the new connection stays open."""
    async with Environment() as env:
        replica = Replica(0, lambda: SlowToEnd("slow"), env.config, Observer(), LeaseLedger())
        replica.start()
        await asyncio.sleep(1)
        crash = asyncio.ensure_future(replica.crash())
        await asyncio.sleep(0.5)
        replica.wake()
        started = replica.link
        await crash
        assert replica.link is started
        assert not started.dead
        await replica.stop()


async def test_a_replica_that_waits_for_its_restart_does_not_come_back_after_the_end() -> None:
    """The world closes during the absence."""
    async with Environment() as env:
        replica = Replica(0, lambda: SlowToEnd("slow"), env.config, Observer(absence=30.0), LeaseLedger())
        replica.start()
        await asyncio.sleep(1)
        replica.link.kill()
        replica.link.on_crash()
        await asyncio.sleep(10)
        await replica.aclose()
        ended = replica.link
        await asyncio.sleep(60)
        assert replica.link is ended
