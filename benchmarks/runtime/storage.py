"""Storages side by side: ``python -m benchmarks.runtime storage [WRITES]``.

For memory, SQLite, and etcd with one and three members on this machine: updates per second of one writer and of 32,
linearizable reads per second, and the time from the call of an update until a watcher has its change. Objects have
about 1 KB. etcd and SQLite write to the disk of the temporary folder; etcd waits for it, SQLite (WAL) does not.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from opsdk.apiserver.storage.etcd.options import EtcdOptions
from opsdk.apiserver.storage.etcd.storage import EtcdStorage
from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.apiserver.storage.ports import Storage, StorageWatch, Update
from opsdk.apiserver.storage.sqlite import SqliteStorage
from opsdk.structured_merge.value import JsonObject
from tests.support.etcd_cluster import BINARY, EtcdCluster

WRITERS = 32
_PREFIX = "core/configmaps/"
_TEXT = "x" * 800


@asynccontextmanager
async def opened(name: str) -> AsyncIterator[Storage]:
    """Open a storage by its name."""
    with tempfile.TemporaryDirectory() as folder:
        if name.startswith("etcd"):
            with EtcdCluster(Path(folder), size=int(name[-1])) as cluster:
                async with EtcdStorage(EtcdOptions(endpoints=cluster.urls)) as storage:
                    yield storage
            return
        local = MemoryStorage() if name == "memory" else SqliteStorage(Path(folder) / "objects.db")
        async with aclosing(local):
            yield local


def _setting(number: int) -> Update:
    async def step(current: JsonObject | None) -> JsonObject:
        return {**(current or {"metadata": {"name": "a"}}), "data": {"text": _TEXT, "n": number}}

    return step


async def _rate(count: int, call: Callable[[int], Awaitable[object]], *, workers: int = 1) -> float:
    """Calls per second."""

    async def work(worker: int) -> None:
        for number in range(worker, count, workers):
            await call(number)

    started = time.perf_counter()
    await asyncio.gather(*(work(worker) for worker in range(workers)))
    return count / (time.perf_counter() - started)


async def _latencies(storage: Storage, watch: StorageWatch, count: int) -> list[float]:
    latencies = []
    for number in range(count):
        started = time.perf_counter()
        writing = asyncio.ensure_future(storage.guaranteed_update(f"{_PREFIX}watched", _setting(number)))
        await anext(watch)
        latencies.append((time.perf_counter() - started) * 1000)
        await writing
    return sorted(latencies)


async def measure(name: str, writes: int) -> None:
    """Print one line."""
    async with opened(name) as storage:

        async def update(number: int) -> None:
            await storage.guaranteed_update(f"{_PREFIX}{number % 100}", _setting(number))

        async def get(number: int) -> None:
            await storage.get(f"{_PREFIX}{number % 100}")

        await _rate(200, update)
        one = await _rate(writes // 4, update)
        many = await _rate(writes, update, workers=WRITERS)
        reads = await _rate(writes, get, workers=WRITERS)
        watch = await storage.watch(f"{_PREFIX}watched")
        latencies = await _latencies(storage, watch, writes // 4)
        watch.close()
    median, high = latencies[len(latencies) // 2], latencies[len(latencies) * 99 // 100]
    print(f"{name:<8} {one:>12,.0f} {many:>14,.0f} {reads:>14,.0f} {median:>10.2f} {high:>10.2f}")


async def run(writes: int) -> None:
    """Print the table."""
    print(f"{'':<8} {'updates/s':>12} {f'{WRITERS} writers':>14} {'gets/s':>14} {'watch p50':>10} {'p99 ms':>10}")
    for name in ("memory", "sqlite", "etcd 1", "etcd 3"):
        if name.startswith("etcd") and BINARY is None:
            print(f"{name:<8} left out: etcd is not installed (apt-get install etcd-server)")
        else:
            await measure(name, writes)
