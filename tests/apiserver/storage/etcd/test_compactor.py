"""Compactions by several replicas, on an etcd with one key."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from opsdk.apiserver.storage.etcd import messages
from opsdk.apiserver.storage.etcd.client import Rpc
from opsdk.apiserver.storage.etcd.compactor import EtcdCompactor
from opsdk.apiserver.storage.etcd.errors import EtcdError, EtcdFailure

INTERVAL = 300.0


class OneKey:
    """An etcd with the compactors' key and a revision that others raise; `log` has each compaction with its time."""

    def __init__(self) -> None:
        self.revision = 1
        self.version = 0
        self.log: list[tuple[float, int]] = []
        self.failing = False

    async def request(self, rpc: Rpc, message: Any) -> tuple[Any, bool]:
        """See `EtcdClient.request`."""
        await asyncio.sleep(0.01)
        if self.failing:
            raise EtcdError(EtcdFailure.UNREACHABLE, "down")
        if rpc is Rpc.COMPACT:
            if self.log and message.revision <= self.log[-1][1]:
                raise EtcdError(EtcdFailure.COMPACTED, "compacted")
            self.log.append((asyncio.get_running_loop().time(), message.revision))
            return messages.CompactionResponse(), False
        answer = messages.TxnResponse(succeeded=message.compare[0].version == self.version)
        if answer.succeeded:
            self.version += 1
            self.revision += 1
        else:
            answer.responses.add().response_range.kvs.add(version=self.version)
        answer.header.revision = self.revision
        return answer, False


async def writes(etcd: OneKey, past: dict[int, float]) -> None:
    """A write each second; `past` has the time of each revision."""
    while True:
        etcd.revision += 1
        past[etcd.revision] = asyncio.get_running_loop().time()
        await asyncio.sleep(1)


@pytest.mark.parametrize("replicas", [1, 3])
async def test_history_lasts_an_interval(replicas: int) -> None:
    """Each compaction leaves an interval of history, less the time between the replicas' starts, and the next comes.

    Replicas do not compact one after the other, and an etcd that was down for a while is compacted again.
    """
    etcd, past = OneKey(), dict[int, float]()
    start = asyncio.get_running_loop().time()
    async with AsyncExitStack() as stack:
        writing = asyncio.ensure_future(writes(etcd, past))
        for number in range(replicas):
            compactor = EtcdCompactor(etcd, interval=INTERVAL)
            stack.push_async_callback(compactor.aclose)
            compactor.start()
            await asyncio.sleep(20 * number)
        await asyncio.sleep(5000)
        etcd.failing = True
        await asyncio.sleep(1000)
        etcd.failing = False
        await asyncio.sleep(2000)
        writing.cancel()
    times = [time for time, _ in etcd.log]
    assert all(time - past[min(r for r in past if r >= revision)] >= INTERVAL - 60 for time, revision in etcd.log)
    waits = [later - earlier for earlier, later in zip([start, *times], times, strict=False)]
    assert max(waits) < 1000 + 3 * INTERVAL
    assert sum(wait < INTERVAL / 2 for wait in waits) == 0
    assert len(times) >= 15
