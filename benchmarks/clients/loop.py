"""The loop that a user writes around a client that has no controllers: a cache, a queue of names, and workers.

Standard library only. It does what each client's documentation leaves to its users: list, watch, one place in the
queue for each object, a number of workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class ControlLoop(Generic[T]):
    """A cache of objects by name, and a queue that holds each name at most once."""

    def __init__(self, reconcile: Callable[[T], Awaitable[None]], *, workers: int) -> None:
        self.cache: dict[str, T] = {}
        self._reconcile = reconcile
        self._workers = workers
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()

    def put(self, name: str, obj: T) -> None:
        """Keep the newest state of an object, and queue its name."""
        self.cache[name] = obj
        if name not in self._queued:
            self._queued.add(name)
            self._queue.put_nowait(name)

    def forget(self, name: str) -> None:
        """Remove a deleted object."""
        self.cache.pop(name, None)

    async def _work(self) -> None:
        while True:
            name = await self._queue.get()
            self._queued.discard(name)
            if (obj := self.cache.get(name)) is not None:
                await self._reconcile(obj)

    async def run(self, feed: Awaitable[None], done: asyncio.Event) -> None:
        """Run the feed and the workers until `done` is set; an error of either ends the run.

        Args:
            feed: lists and watches, and calls `put` for each object.
            done: set by the workload.
        """
        tasks: list[asyncio.Future[None]] = [
            asyncio.ensure_future(feed),
            *(asyncio.ensure_future(self._work()) for _ in range(self._workers)),
        ]
        ending: asyncio.Future[object] = asyncio.ensure_future(done.wait())
        try:
            await asyncio.wait([ending, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in (ending, *tasks):
                task.cancel()
            await asyncio.gather(ending, *tasks, return_exceptions=True)
