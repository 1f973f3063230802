"""Runnables that may wait."""

from __future__ import annotations

import asyncio

from opsdk.aio.clock import monotonic
from opsdk.manager.deferred import DeferredRunnable
from opsdk.manager.manager import Manager
from opsdk.manager.phases import Phase


class Noting:
    """Notes when it is made and started."""

    def __init__(self, notes: list[tuple[str, float]]) -> None:
        self.notes = notes
        notes.append(("made", monotonic()))

    async def start(self) -> None:
        self.notes.append(("started", monotonic()))


async def test_it_is_made_after_the_delay_and_delays_nothing() -> None:
    """The manager is ready at once; the runnable is made and started later, on a replica that does not lead too."""
    notes: list[tuple[str, float]] = []
    began = monotonic()
    manager = Manager()
    manager.add(DeferredRunnable(lambda: Noting(notes), delay=5.0), phase=Phase.OTHERS)
    running = asyncio.create_task(manager.start())
    await manager.wait_ready()
    assert (notes, monotonic()) == ([], began)
    await asyncio.sleep(6.0)
    assert notes == [("made", began + 5.0), ("started", began + 5.0)]
    manager.stop()
    await running


async def test_a_stop_ends_the_wait() -> None:
    """What was not made yet is never made."""
    notes: list[tuple[str, float]] = []
    manager = Manager()
    manager.add(DeferredRunnable(lambda: Noting(notes), delay=5.0), phase=Phase.OTHERS)
    running = asyncio.create_task(manager.start())
    await manager.wait_ready()
    manager.stop()
    await running
    await asyncio.sleep(10.0)
    assert notes == []
