"""Indices that are added to a store while it is read: existing objects are indexed in slices."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from opsdk.aio.slicer import Slicer
from opsdk.aio.tasks import TaskOwner
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.cache.entry import Indexer, Problem
from opsdk.cache.store import InformerStore


class InformerIndices:
    """Adds indices to the store of an informer.

    Args:
        store: the store.
        tasks: owns the tasks that index the existing objects.
        report: is called with the objects that an index function failed on.
    """

    def __init__(
        self, store: InformerStore, *, tasks: TaskOwner, report: Callable[[Iterable[Problem]], object]
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._report = report
        self._builds: dict[str, asyncio.Task[None]] = {}

    def add(self, name: str, indexer: Indexer) -> None:
        """Add an index. Existing objects are indexed in slices; see `wait`. Raises `UsageError` if it exists.

        An object that the function raises for stays readable, and is left out of the index.
        """
        self._store.add_index(name, indexer)
        if self._build_slice(name, keys := deque(self._store.keys())):
            self._builds[name] = self._tasks.start(self._build(name, keys), name=f"index {name}")

    def _build_slice(self, name: str, keys: deque[ObjectKey]) -> bool:
        """Index some objects. Returns whether keys are left."""
        slicer = Slicer(once=f"index {name} of {self._tasks.name}")
        while keys:
            if slicer.add(self._store.index_entry(keys.popleft(), name)):
                break
        self._report(self._store.take_problems())
        return bool(keys)

    async def _build(self, name: str, keys: deque[ObjectKey]) -> None:
        while keys:
            await asyncio.sleep(0)
            self._build_slice(name, keys)
        del self._builds[name]

    async def wait(self, name: str) -> None:
        """Return when every object is in the index of this name."""
        if (task := self._builds.get(name)) is not None:
            await asyncio.wait([task])

    def __repr__(self) -> str:
        return f"<InformerIndices: {sorted(self._store.indexers)}, building {sorted(self._builds)}>"
