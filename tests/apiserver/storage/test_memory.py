"""Laws of in-process storages beyond those in `test_laws`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.apiserver.storage.ports import (
    CompactedError,
    StorageChange,
)
from opsdk.apiserver.storage.sqlite import SqliteStorage
from opsdk.structured_merge.value import JsonObject

P = "core/configmaps/"


def obj(name: str, **data: object) -> JsonObject:
    """An object with some data."""
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "data": data}


@pytest.fixture(params=["memory", "sqlite"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryStorage]:
    """Each kind of storage in turn."""
    created = MemoryStorage() if request.param == "memory" else SqliteStorage(tmp_path / "objects.db")
    yield created
    created.close()


def put(storage: MemoryStorage, name: str, **data: object) -> JsonObject:
    """Create a config map."""
    return storage.create_now(f"{P}{name}", obj(name, **data))


async def update(storage: MemoryStorage, name: str, **data: object) -> JsonObject:
    """Replace the data of a config map."""

    async def step(current: JsonObject | None) -> JsonObject:
        assert current is not None
        return {**current, "data": data}

    return await storage.guaranteed_update(f"{P}{name}", step)


async def collect(watch: object, count: int) -> list[StorageChange]:
    """The next changes."""
    return [await anext(watch) for _ in range(count)]


async def test_an_equal_update_keeps_the_revision(storage: MemoryStorage) -> None:
    """An update without change writes nothing and sends no event."""
    before = put(storage, "a", x=1)
    watch = storage.watch_now(P)
    assert await update(storage, "a", x=1) is before
    assert (await update(storage, "a", x=True))["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
    assert [c.value["data"] for c in await collect(watch, 1)] == [{"x": True}]


def test_an_acknowledged_write_survives(tmp_path: Path) -> None:
    """A second process finds what the first one wrote, and its revisions go on from there."""
    path = tmp_path / "objects.db"
    first = SqliteStorage(path)
    put(first, "a", x=1)
    put(first, "b")
    first.delete_now(f"{P}b")
    revision = first.current_rv
    first.close()
    second = SqliteStorage(path)
    try:
        assert second.current_rv == revision
        assert [v["data"] for _, v in second.list_now(P).items] == [{"x": 1}]
        assert int(put(second, "c")["metadata"]["resourceVersion"]) == revision + 1
        with pytest.raises(CompactedError):
            second.watch_now(P, revision - 1)
    finally:
        second.close()


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "delete", "watch", "resume", "compact"]), st.integers(0, 3)), max_size=40
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_no_change_is_lost_or_doubled(steps: list[tuple[str, int]]) -> None:
    """A watcher that starts anywhere and resumes anywhere sees each later change once, in order."""
    asyncio.run(_assert_watchers_miss_nothing(steps))


async def _assert_watchers_miss_nothing(steps: list[tuple[str, int]]) -> None:
    storage = MemoryStorage()
    log: list[int] = []
    storage.subscribe(lambda change: log.append(change.revision))
    watchers: list[tuple[int, object, list[int]]] = []
    for action, number in steps:
        key = f"{P}{number}"
        if action == "put":
            await storage.guaranteed_update(key, _replace(number, storage.current_rv))
        elif action == "delete" and any(k == key for k, _ in storage.list_now(P).items):
            storage.delete_now(key)
        elif action == "watch":
            watchers.append((storage.current_rv, storage.watch_now(P), []))
        elif action == "resume" and watchers:
            start, watch, watcher = watchers.pop(number % len(watchers))
            await _drain(watch, watcher)
            watch.close()
            watchers.append((start, storage.watch_now(P, watcher[-1] if watcher else start), watcher))
        elif action == "compact" and not watchers:
            storage.compact(storage.current_rv)
    for start, watch, watcher in watchers:
        await _drain(watch, watcher)
        assert watcher == [r for r in log if r > start]


def _replace(number: int, version: int) -> Callable[[JsonObject | None], object]:
    async def step(current: JsonObject | None) -> JsonObject:
        return obj(str(number), version=version)

    return step


async def _drain(watch: object, seen: list[int]) -> None:
    while watch.progress() is None:
        seen.append((await anext(watch)).revision)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=30))
def test_every_remembered_revision_can_be_listed(steps: list[tuple[bool, int]]) -> None:
    """A list at a past revision is what a list at that moment was."""
    storage = MemoryStorage()
    snapshots = {storage.current_rv: []}
    for create, number in steps:
        key = f"{P}{number}"
        there = any(k == key for k, _ in storage.list_now(P).items)
        if create and not there:
            storage.create_now(key, obj(str(number)))
        elif not create and there:
            storage.delete_now(key)
        snapshots[storage.current_rv] = list(storage.list_now(P).items)
    for revision, items in snapshots.items():
        assert list(storage.list_now(P, revision=revision).items) == items


BUCKETS = ("core/pods/", "core/podtemplates/", "rbac.io/roles/", "rbac.io/bindings/")
PREFIXES = st.sampled_from((*BUCKETS, "rbac.io/", "core/pods/ns/"))


@given(st.lists(st.lists(PREFIXES, max_size=2), max_size=4), st.lists(st.sampled_from(BUCKETS), max_size=6))
def test_a_listener_hears_the_changes_of_its_buckets(listeners: list[list[str]], writes: list[str]) -> None:
    """All of them and no other bucket's, in order; without a prefix those of every bucket; none after the end."""
    storage, heard = MemoryStorage(), [list[str]() for _ in listeners]
    callbacks = [lambda change, log=log: log.append(change.key) for log in heard]
    for callback, prefixes in zip(callbacks, listeners, strict=True):
        storage.subscribe(callback, *prefixes)
    keys = [f"{bucket}ns/{number}" for number, bucket in enumerate(writes)]
    for key, bucket in zip(keys, writes, strict=True):
        storage.create_now(key, obj(bucket))
    for log, prefixes in zip(heard, listeners, strict=True):
        buckets = {b for b in BUCKETS if not prefixes or any(b.startswith(p) or p.startswith(b) for p in prefixes)}
        assert log == [key for key, bucket in zip(keys, writes, strict=True) if bucket in buckets]
    for callback in callbacks:
        storage.unsubscribe(callback)
    storage.create_now("core/pods/ns/last", obj("last"))
    assert not any("core/pods/ns/last" in log for log in heard)


def test_an_empty_resource_leaves_nothing_behind() -> None:
    """Dropping the history of a resource without objects removes it; an older revision cannot be watched afterwards."""
    storage = MemoryStorage()
    for number in range(2_000):
        prefix = f"demo.dev/kind{number}/"
        created = storage.create_now(f"{prefix}a", {"metadata": {"name": "a"}})
        storage.delete_now(f"{prefix}a")
        storage.drop_history(prefix)
        with pytest.raises(CompactedError):
            storage.watch_now(prefix, int(created["metadata"]["resourceVersion"]))
        storage.drop_history(prefix)
    assert repr(storage).endswith(": 0 objects of 0 resources, 0 watches>")
