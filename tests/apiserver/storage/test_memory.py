"""One kit of laws for every storage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.apiserver.storage.ports import (
    ChangeType,
    CompactedError,
    FutureRevisionError,
    KeyExistsError,
    KeyNotFoundError,
    PreconditionError,
    Remove,
    StorageChange,
    StoragePreconditions,
    WatchInterruptedError,
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
    made = MemoryStorage() if request.param == "memory" else SqliteStorage(tmp_path / "objects.db")
    yield made
    made.close()


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


def test_a_created_object_has_the_revision_of_its_write(storage: MemoryStorage) -> None:
    """Each write takes the next revision of the whole store and writes it into the object."""
    first, second = put(storage, "a"), storage.create_now("apps/deployments/x", obj("x"))
    assert int(second["metadata"]["resourceVersion"]) == int(first["metadata"]["resourceVersion"]) + 1
    assert storage.current_rv == int(second["metadata"]["resourceVersion"])


def test_a_key_is_taken_once(storage: MemoryStorage) -> None:
    """Creating on a key that is taken fails and changes nothing."""
    put(storage, "a", x=1)
    before = storage.current_rv
    with pytest.raises(KeyExistsError):
        put(storage, "a", x=2)
    assert storage.current_rv == before
    assert storage.get_now(f"{P}a")["data"] == {"x": 1}


async def test_an_equal_update_keeps_the_revision(storage: MemoryStorage) -> None:
    """A write that changes nothing writes nothing and tells nobody."""
    before = put(storage, "a", x=1)
    watch = storage.watch_now(P)
    assert await update(storage, "a", x=1) is before
    assert (await update(storage, "a", x=True))["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
    assert [c.value["data"] for c in await collect(watch, 1)] == [{"x": True}]


async def test_concurrent_updates_are_all_applied(storage: MemoryStorage) -> None:
    """An update that was overtaken runs again on what the other one left."""
    put(storage, "a", n=0)

    async def add(current: JsonObject | None) -> JsonObject:
        await asyncio.sleep(0)
        assert current is not None
        return {**current, "data": {"n": current["data"]["n"] + 1}}

    await asyncio.gather(*(storage.guaranteed_update(f"{P}a", add) for _ in range(20)))
    assert storage.get_now(f"{P}a")["data"] == {"n": 20}


async def test_an_update_may_remove(storage: MemoryStorage) -> None:
    """Watchers of a removal see the state before it, with the removal's revision."""
    put(storage, "a", x=1)
    watch = storage.watch_now(P)

    async def step(current: JsonObject | None) -> Remove:
        return Remove({**current, "data": {"x": "final"}})

    await storage.guaranteed_update(f"{P}a", step)
    [change] = await collect(watch, 1)
    assert (change.kind, change.value["data"]) == (ChangeType.DELETE, {"x": 1})
    assert change.value["metadata"]["resourceVersion"] == str(storage.current_rv)
    with pytest.raises(KeyNotFoundError):
        storage.get_now(f"{P}a")


def test_preconditions_protect_from_deleting_another_object(storage: MemoryStorage) -> None:
    """A wrong uid or version refuses the deletion."""
    made = put(storage, "a")
    for wrong in (StoragePreconditions(uid="other"), StoragePreconditions(resource_version="9999")):
        with pytest.raises(PreconditionError):
            storage.delete_now(f"{P}a", wrong)
    right = StoragePreconditions(uid="uid-a", resource_version=made["metadata"]["resourceVersion"])
    assert storage.delete_now(f"{P}a", right)["metadata"]["name"] == "a"


async def test_pages_show_one_snapshot(storage: MemoryStorage) -> None:
    """Whatever is written between two pages, they are parts of the same list."""
    for name in "abcde":
        put(storage, name)
    first = storage.list_now(P, limit=2)
    storage.delete_now(f"{P}c")
    put(storage, "bb")
    await update(storage, "d", changed=True)
    second = storage.list_now(P, revision=first.revision, start=first.next_key, limit=2)
    third = storage.list_now(P, revision=first.revision, start=second.next_key, limit=2)
    names = [value["metadata"]["name"] for page in (first, second, third) for _, value in page.items]
    assert names == list("abcde")
    assert [p.remaining for p in (first, second, third)] == [3, 1, 0]
    assert all(not value["data"] for _, value in second.items)


def test_a_prefix_is_no_part_of_a_name(storage: MemoryStorage) -> None:
    """Listing one namespace never shows another whose name begins the same."""
    storage.create_now("core/pods/one/a", obj("a"))
    storage.create_now("core/pods/one-more/b", obj("b"))
    assert [key for key, _ in storage.list_now("core/pods/one/").items] == ["core/pods/one/a"]


def test_compaction_forgets(storage: MemoryStorage) -> None:
    """Revisions before a compaction can be neither listed nor watched; later ones can."""
    put(storage, "a")
    old = storage.current_rv
    put(storage, "b")
    storage.compact(storage.current_rv)
    with pytest.raises(CompactedError):
        storage.watch_now(P, old)
    with pytest.raises(CompactedError):
        storage.list_now(P, revision=old)
    assert len(storage.list_now(P, revision=storage.current_rv).items) == 2
    with pytest.raises(FutureRevisionError):
        storage.list_now(P, revision=storage.current_rv + 1)


async def test_a_slow_watcher_is_cut_off() -> None:
    """A reader that lags more than the limit ends without blocking the writer."""
    storage = MemoryStorage(watch_limit=3)
    slow = storage.watch_now(P)
    for index in range(5):
        put(storage, f"n{index}")
    assert slow.overflowed
    with pytest.raises(StopAsyncIteration):
        await anext(slow)


async def test_a_watch_of_the_future_waits() -> None:
    """Changes up to the asked revision are not shown, however long they take to happen."""
    storage = MemoryStorage()
    watch = storage.watch_now(P, storage.current_rv + 1)
    put(storage, "early")
    put(storage, "late")
    assert [c.key for c in await collect(watch, 1)] == [f"{P}late"]


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
    asyncio.run(_interleave(steps))


async def _interleave(steps: list[tuple[str, int]]) -> None:
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
            start, watch, seen = watchers.pop(number % len(watchers))
            await _drain(watch, seen)
            watch.close()
            watchers.append((start, storage.watch_now(P, seen[-1] if seen else start), seen))
        elif action == "compact" and not watchers:
            storage.compact(storage.current_rv)
    for start, watch, seen in watchers:
        await _drain(watch, seen)
        assert seen == [r for r in log if r > start]


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


async def test_an_interrupted_wait_loses_no_change(storage: MemoryStorage) -> None:
    """An interruption ends one wait, now or later; changes that are there come first."""
    watch = storage.watch_now(P)
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    watch.interrupt()
    with pytest.raises(WatchInterruptedError):
        await waiting
    watch.interrupt()
    put(storage, "a")
    assert (await anext(watch)).key == f"{P}a"
    with pytest.raises(WatchInterruptedError):
        await anext(watch)
    put(storage, "b")
    assert (await anext(watch)).key == f"{P}b"
    watch.close()
