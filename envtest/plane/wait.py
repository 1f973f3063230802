"""The pause between two checks of a test: it ends after each write to the storage, so there is no fixed interval."""

from __future__ import annotations

import asyncio

from opsdk.aio.alarm import Alarm
from opsdk.aio.clock import Clock
from opsdk.apiserver.storage.ports import LocalStorage, StorageChange
from opsdk.testing.clock import ManualClock

_TURNS = 10
"""Iterations of the event loop until informers have processed a write."""


async def pause(seconds: float, *, clock: Clock, storage: LocalStorage) -> None:
    """Wait for a write, at most `seconds`. A manual clock is advanced."""
    if isinstance(clock, ManualClock):
        await clock.advance(seconds)
        return
    alarm = Alarm(clock, clock.now() + seconds)

    def on_change(_: StorageChange) -> None:
        if not alarm.future.done():
            alarm.future.set_result(None)

    storage.subscribe(on_change)
    try:
        await alarm.future
    finally:
        storage.unsubscribe(on_change)
        alarm.cancel()
    for _ in range(_TURNS):
        await asyncio.sleep(0)
