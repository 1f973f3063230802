"""The loop that a user writes around a client that has no controllers: a cache, a queue of names, and workers.

Standard library only. It does what each client's documentation leaves to its users: list, watch, one place in the
queue for each object, a number of workers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from benchmarks.protocol import Options

T = TypeVar("T")


class ControlLoop(Generic[T]):
    """A cache of objects by name, and a queue that holds each name at most once."""

    def __init__(self, reconcile: Callable[[T], Awaitable[None]], *, workers: int) -> None:
        self.cache: dict[str, T] = {}
        self._reconcile = reconcile
        self._workers = workers
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()

    def keep(self, name: str, obj: T) -> None:
        """Keep the newest state of an object."""
        self.cache[name] = obj

    def enqueue(self, name: str) -> None:
        """Queue a name unless it is queued."""
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
            feed: lists and watches, and calls `keep` and `enqueue` for each object.
            done: set by the workload.
        """
        tasks = [asyncio.ensure_future(feed), *(asyncio.ensure_future(self._work()) for _ in range(self._workers))]
        ending = asyncio.create_task(_until(done))
        try:
            await asyncio.wait([ending, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in (ending, *tasks):
                task.cancel()
            await asyncio.gather(ending, *tasks, return_exceptions=True)


async def _until(done: asyncio.Event) -> None:
    await done.wait()


class Follower:
    """Notes when a controller sees the values of objects, until it has seen the last value of each.

    Options: ``changed`` objects get values up to ``final``; ``stamps`` keeps the time of each value.
    """

    def __init__(self, options: Options, end: Callable[[], None]) -> None:
        self.stamps: dict[str, float] = {}
        self._final: int = options["final"]
        self._missing: int = options["changed"]
        self._keep: bool = options.get("stamps", False)
        self._ended: set[str] = set()
        self._end = end

    def see(self, name: str, value: int) -> None:
        """Note a value; the last one of the last object calls `end`."""
        if self._keep and value > 1:
            self.stamps.setdefault(f"{name}/{value}", time.monotonic())
        if value >= self._final and name not in self._ended:
            self._ended.add(name)
            if len(self._ended) == self._missing:
                self._end()
