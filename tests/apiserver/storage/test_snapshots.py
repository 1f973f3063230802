"""Snapshots of a storage, which share unchanged parts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.apiserver.storage.ports import ChangeType, CompactedError, StorageChange
from opsdk.apiserver.storage.sqlite import SqliteStorage

KEYS = [f"core/{kind}/{name}" for kind in ("pods", "nodes") for name in "ab"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(KEYS), st.integers(0, 9)),
        st.tuples(st.just("delete"), st.sampled_from(KEYS), st.just(0)),
        st.tuples(st.just("snapshot"), st.just(""), st.just(0)),
        st.tuples(st.just("restore"), st.just(""), st.integers(0, 3)),
    ),
    max_size=40,
)


def contents(storage: MemoryStorage) -> dict[str, int]:
    """Every key with its value."""
    return {k: v["x"] for kind in ("pods", "nodes") for k, v in storage.list_now(f"core/{kind}/").items}


async def put(storage: MemoryStorage, key: str, x: int) -> None:
    """Create or replace."""

    async def make(current: object) -> dict[str, object]:
        return {"metadata": {"name": key}, "x": x}

    await storage.guaranteed_update(key, make)


@given(STEPS)
def test_a_restored_storage_is_what_it_was(steps: list[tuple[str, str, int]]) -> None:
    """A restored storage equals its model, and a listener that follows the changes ends with the same objects."""

    async def run() -> None:
        storage, model = MemoryStorage(), dict[str, int]()
        taken, events = [], dict[str, int]()

        def hear(change: StorageChange) -> None:
            assert change.value is not None
            if change.kind is ChangeType.PUT:
                events[change.key] = change.value["x"]
            else:
                del events[change.key]

        storage.subscribe(hear)
        for verb, key, x in steps:
            before = storage.current_rv
            if verb == "write":
                await put(storage, key, x)
                model[key] = x
            elif verb == "delete" and key in model:
                storage.delete_now(key)
                del model[key]
            elif verb == "snapshot":
                taken.append((storage.snapshot(), dict(model)))
            elif verb == "restore" and taken:
                snapshot, then = taken[x % len(taken)]
                storage.restore(snapshot)
                model = dict(then)
                assert storage.current_rv == before + 1
            assert contents(storage) == model == events
        for snapshot, then in taken:
            assert contents(MemoryStorage.of(snapshot)) == then

    asyncio.run(run())


async def test_watches_end_with_an_error_and_old_revisions_are_gone() -> None:
    """After a restore, watches end with an error, and only later revisions can be watched or listed."""
    storage = MemoryStorage()
    await put(storage, "core/pods/a", 1)
    snapshot = storage.snapshot()
    await put(storage, "core/pods/b", 1)
    watch = storage.watch_now("core/pods/", 1)
    storage.restore(snapshot)
    assert watch.progress() is None
    with pytest.raises(CompactedError):
        await anext(watch)
    with pytest.raises(StopAsyncIteration):
        await anext(watch)
    with pytest.raises(CompactedError):
        storage.watch_now("core/pods/", storage.current_rv - 1)
    with pytest.raises(CompactedError):
        storage.list_now("core/pods/", revision=storage.current_rv - 1)
    fresh = storage.watch_now("core/pods/", storage.current_rv)
    await put(storage, "core/pods/c", 1)
    assert (await anext(fresh)).key == "core/pods/c"


async def test_the_revision_goes_on_or_back() -> None:
    """A restore continues the revision or resets it, as the argument says."""
    storage = MemoryStorage()
    await put(storage, "core/pods/a", 1)
    snapshot = storage.snapshot()
    for x in range(5):
        await put(storage, "core/pods/a", x + 2)
    last = storage.current_rv
    storage.restore(snapshot)
    assert storage.current_rv == last + 1
    storage.restore(snapshot, reset=True)
    assert storage.current_rv == snapshot.revision
    await put(storage, "core/pods/a", 9)
    assert storage.get_now("core/pods/a")["metadata"]["resourceVersion"] == str(snapshot.revision + 1)


async def test_a_restored_file_is_restored_after_a_restart(tmp_path: Path) -> None:
    """The change is on disk, whole, with its revision."""
    path = tmp_path / "objects.db"
    storage = SqliteStorage(path)
    await put(storage, "core/pods/a", 1)
    snapshot = storage.snapshot()
    await put(storage, "core/pods/a", 2)
    await put(storage, "core/pods/b", 3)
    storage.restore(snapshot)
    last = storage.current_rv
    storage.close()
    again = SqliteStorage(path)
    assert contents(again) == {"core/pods/a": 1}
    assert again.current_rv == last
    again.close()
