"""Indices that are added to a store that has objects."""

from __future__ import annotations

import msgspec

from opsdk.aio.tasks import TaskOwner
from opsdk.cache.entry import Problem
from opsdk.cache.informer_indices import InformerIndices
from opsdk.cache.store import InformerStore


async def test_a_late_index_is_complete_after_the_wait() -> None:
    """Objects are indexed in slices; `wait` returns when the last one is, and failures are reported once each."""
    store, problems = InformerStore(), list[Problem]()
    for number in range(1000):
        meta = {"name": f"o{number}", "namespace": "ns", "uid": f"u{number}", "resourceVersion": str(number + 1)}
        store.put(store.make_entry(msgspec.json.encode({"metadata": meta})))

    def parity(data: bytes) -> list[str]:
        number = int(msgspec.json.decode(data)["metadata"]["uid"][1:])
        if number == 500:
            raise ValueError("no parity")
        return ["odd" if number % 2 else "even"]

    async with TaskOwner("test") as tasks:
        indices = InformerIndices(store, tasks=tasks, report=problems.extend)
        indices.add("parity", parity)
        assert 0 < len(list(store.by_index("parity", "odd"))) < 500
        await indices.wait("parity")
        assert len(list(store.by_index("parity", "odd"))) == 500
        assert len(list(store.by_index("parity", "even"))) == 499
        assert [problem.key.name for problem in problems] == ["o500"]
        await indices.wait("parity")
        await indices.wait("no such index")
