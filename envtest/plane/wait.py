"""The pause between two checks of a test: it ends after each write to the storage, so there is no fixed interval."""

from __future__ import annotations

import asyncio

from opsdk.apiserver.storage.ports import LocalStorage, StorageChange

_TURNS = 10
"""Iterations of the event loop until informers have processed a write."""


async def pause(seconds: float, *, storage: LocalStorage) -> None:
    """Wait for a write, at most `seconds`."""
    written = asyncio.Event()

    def on_change(_: StorageChange) -> None:
        written.set()

    storage.subscribe(on_change)
    try:
        async with asyncio.timeout(seconds):
            await written.wait()
    except TimeoutError:
        pass  # the caller checks again
    finally:
        storage.unsubscribe(on_change)
    for _ in range(_TURNS):
        await asyncio.sleep(0)
