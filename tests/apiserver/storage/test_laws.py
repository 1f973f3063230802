"""The laws of every storage: memory, SQLite, etcd."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from etcd_cluster import EtcdCluster
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opsdk.apiserver.storage.etcd import messages
from opsdk.apiserver.storage.etcd.client import EtcdClient, Rpc
from opsdk.apiserver.storage.etcd.options import EtcdOptions
from opsdk.apiserver.storage.etcd.storage import EtcdStorage
from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.apiserver.storage.ports import (
    ChangeType,
    CompactedError,
    FutureRevisionError,
    KeyExistsError,
    KeyNotFoundError,
    PreconditionError,
    Remove,
    Storage,
    StorageChange,
    StoragePreconditions,
    StorageWatch,
    Update,
    WatchInterruptedError,
)
from opsdk.apiserver.storage.sqlite import SqliteStorage
from opsdk.structured_merge.value import JsonObject

pytestmark = pytest.mark.realtime
P = "core/configmaps/"
_PREFIXES = itertools.count()
_PATIENCE = 20.0

Opener = Callable[..., "asynccontextmanager[Storage]"]


@pytest.fixture(params=["memory", "sqlite", "etcd"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens each kind of storage in turn, empty; ``page_limit`` is for etcd, which reads long lists in parts."""
    kind = request.param
    cluster: EtcdCluster | None = request.getfixturevalue("etcd") if kind == "etcd" else None

    @asynccontextmanager
    async def opening(*, watch_limit: int = 10_000, page_limit: int = 2) -> AsyncIterator[Storage]:
        if cluster is None:
            path = tmp_path / f"{next(_PREFIXES)}.db"
            async with aclosing(
                MemoryStorage(watch_limit=watch_limit)
                if kind == "memory"
                else SqliteStorage(path, watch_limit=watch_limit)
            ) as local:
                yield local
            return
        options = EtcdOptions(
            endpoints=cluster.urls,
            prefix=f"/laws-{next(_PREFIXES)}/",
            watch_limit=watch_limit,
            page_limit=page_limit,
            compaction_interval=0,
        )
        async with EtcdStorage(options) as storage:
            yield storage

    return opening


@pytest.fixture
async def storage(opened: Opener) -> AsyncIterator[Storage]:
    """Each kind of storage in turn."""
    async with opened() as storage:
        yield storage


def obj(name: str, **data: object) -> JsonObject:
    """An object with some data."""
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "data": data}


async def put(storage: Storage, name: str, **data: object) -> JsonObject:
    """Create a config map."""
    return await storage.create(f"{P}{name}", obj(name, **data))


def setting(**data: object) -> Update:
    """A step that replaces the data."""

    async def step(current: JsonObject | None) -> JsonObject:
        assert current is not None
        return {**current, "data": data}

    return step


async def update(storage: Storage, name: str, **data: object) -> JsonObject:
    """Replace the data of a config map."""
    return await storage.guaranteed_update(f"{P}{name}", setting(**data))


async def compact(storage: Storage, revision: int) -> None:
    """Forget the history up to a revision."""
    if isinstance(storage, EtcdStorage):
        async with EtcdClient(storage.options) as client:
            await client.request(Rpc.COMPACT, messages.CompactionRequest(revision=revision, physical=True))
    else:
        storage.compact(revision)


async def next_changes(watch: StorageWatch, count: int) -> list[StorageChange]:
    """The next changes."""
    async with asyncio.timeout(_PATIENCE):
        return [await anext(watch) for _ in range(count)]


async def eventually(check: Callable[[], object]) -> None:
    """Wait until a check is true."""
    async with asyncio.timeout(_PATIENCE):
        while not check():
            await asyncio.sleep(0.005)


def rv(value: JsonObject) -> int:
    """The resource version."""
    return int(value["metadata"]["resourceVersion"])


# ------------------------------------------------------------------ one key
async def test_a_created_object_has_the_revision_of_its_write(storage: Storage) -> None:
    """Each write takes the next revision of the whole store and writes it into the object."""
    first, second = await put(storage, "a"), await storage.create("apps/deployments/x", obj("x"))
    assert rv(second) == rv(first) + 1 == await storage.get_current_resource_version()
    assert await storage.get(f"{P}a") == first
    with pytest.raises(KeyNotFoundError):
        await storage.get(f"{P}x")


async def test_a_key_is_taken_once(storage: Storage) -> None:
    """Creating on a key that is taken fails and changes nothing."""
    await put(storage, "a", x=1)
    before = await storage.get_current_resource_version()
    with pytest.raises(KeyExistsError):
        await put(storage, "a", x=2)
    assert await storage.get_current_resource_version() == before
    assert (await storage.get(f"{P}a"))["data"] == {"x": 1}


async def test_an_equal_update_writes_nothing(storage: Storage) -> None:
    """An equal result keeps the revision and shows no change; true is not 1."""
    before = await put(storage, "a", x=1, y=1.5)
    watch = await storage.watch(P)
    assert await update(storage, "a", y=1.5, x=1) == before
    assert await storage.get_current_resource_version() == rv(before)
    assert rv(await update(storage, "a", x=True, y=1.5)) > rv(before)
    [change] = await next_changes(watch, 1)
    assert change.value is not None
    assert change.value["data"]["x"] is True


async def test_concurrent_updates_are_all_applied(storage: Storage) -> None:
    """An update that was overtaken runs again on the newer state."""
    await put(storage, "a", n=0)

    async def add(current: JsonObject | None) -> JsonObject:
        await asyncio.sleep(0)
        assert current is not None
        return {**current, "data": {"n": current["data"]["n"] + 1}}

    await asyncio.gather(*(storage.guaranteed_update(f"{P}a", add) for _ in range(20)))
    assert (await storage.get(f"{P}a"))["data"] == {"n": 20}


async def test_an_update_may_create(storage: Storage) -> None:
    """The step of an absent key sees None, and its result is created; of two at once, one sees the other's object."""
    states: list[object] = []

    async def step(current: JsonObject | None) -> JsonObject:
        await asyncio.sleep(0)
        states.append(current and current["data"])
        return obj("a", n=1 if current is None else current["data"]["n"] + 1)

    await asyncio.gather(*(storage.guaranteed_update(f"{P}a", step) for _ in range(2)))
    assert (await storage.get(f"{P}a"))["data"] == {"n": 2}
    assert (states[0], states[-1]) == (None, {"n": 1})


async def test_a_step_that_raises_changes_nothing(storage: Storage) -> None:
    """The error of a step reaches the caller, and nothing is written."""
    before = await put(storage, "a")

    async def step(_: JsonObject | None) -> JsonObject:
        raise LookupError("refused")

    with pytest.raises(LookupError):
        await storage.guaranteed_update(f"{P}a", step)
    assert await storage.get(f"{P}a") == before


async def test_an_update_may_remove(storage: Storage) -> None:
    """Watchers of a removal see the state before it, with the removal's revision."""
    before = await put(storage, "a", x=1)
    watch = await storage.watch(P)

    async def step(current: JsonObject | None) -> Remove:
        return Remove({**(current or {}), "data": {"x": "final"}})

    removed = await storage.guaranteed_update(f"{P}a", step)
    [change] = await next_changes(watch, 1)
    assert change.value is not None
    assert (change.kind, change.value["data"], change.previous) == (ChangeType.DELETE, {"x": 1}, before)
    assert rv(change.value) == rv(removed) == change.revision == await storage.get_current_resource_version()
    with pytest.raises(KeyNotFoundError):
        await storage.get(f"{P}a")
    with pytest.raises(KeyNotFoundError):
        await storage.guaranteed_update(f"{P}a", step)


async def test_preconditions_protect_from_deleting_another_object(storage: Storage) -> None:
    """A wrong uid or version refuses the deletion; a deletion returns the last state with its own revision."""
    stored = await put(storage, "a")
    for wrong in (StoragePreconditions(uid="other"), StoragePreconditions(resource_version="9999999")):
        with pytest.raises(PreconditionError):
            await storage.delete(f"{P}a", wrong)
    right = StoragePreconditions(uid="uid-a", resource_version=stored["metadata"]["resourceVersion"])
    assert rv(await storage.delete(f"{P}a", right)) == rv(stored) + 1
    with pytest.raises(KeyNotFoundError):
        await storage.delete(f"{P}a")


async def test_any_json_is_stored_as_it_is(storage: Storage) -> None:
    """Unicode, nested values, large integers, floats and nulls return unchanged."""
    data = {"ß": "\u2028\U0001f600", "n": 2**63 - 1, "f": 1.0, "e": [[], {}, None, False, -0.5], "s": "  \n"}
    await put(storage, "a", **data)
    read = (await storage.get(f"{P}a"))["data"]
    assert repr(read) == repr(data)


# ------------------------------------------------------------------ lists
async def test_pages_show_one_snapshot(opened: Opener) -> None:
    """All pages of a list are of one revision, whatever is written between them."""
    async with opened() as storage:
        for name in "abcde":
            await put(storage, name)
        first = await storage.list(P, limit=2)
        await storage.delete(f"{P}c")
        await put(storage, "bb")
        await update(storage, "d", changed=True)
        second = await storage.list(P, revision=first.revision, start=first.next_key, limit=2)
        third = await storage.list(P, revision=first.revision, start=second.next_key, limit=2)
        names = [value["metadata"]["name"] for page in (first, second, third) for _, value in page.items]
        assert names == list("abcde")
        assert [p.remaining for p in (first, second, third)] == [3, 1, 0]
        assert not third.next_key
        assert {p.revision for p in (first, second, third)} == {first.revision}
        assert all(not value["data"] for _, value in second.items)


async def test_a_list_without_a_limit_is_whole(storage: Storage) -> None:
    """A list without limit has every key with the prefix in order, from the start key on."""
    for name in "edcba":
        await put(storage, name)
    whole = await storage.list(P)
    assert [key for key, _ in whole.items] == [f"{P}{name}" for name in "abcde"]
    assert (whole.next_key, whole.remaining) == ("", 0)
    assert [key for key, _ in (await storage.list(P, start=f"{P}c", limit=9)).items] == [f"{P}{n}" for n in "cde"]
    assert not (await storage.list("core/secrets/")).items


async def test_a_prefix_is_no_part_of_a_name(storage: Storage) -> None:
    """Listing one namespace never shows another whose name begins the same."""
    await storage.create("core/pods/one/a", obj("a"))
    await storage.create("core/pods/one-more/b", obj("b"))
    assert [key for key, _ in (await storage.list("core/pods/one/")).items] == ["core/pods/one/a"]


async def test_compaction_forgets(storage: Storage) -> None:
    """Revisions before a compaction can be neither listed nor watched; later ones can. Future ones cannot be listed."""
    old = rv(await put(storage, "a"))
    await put(storage, "b")
    last = rv(await put(storage, "c"))
    await compact(storage, last)
    with pytest.raises(CompactedError):
        await storage.watch(P, old)
    with pytest.raises(CompactedError):
        await storage.list(P, revision=old)
    assert len((await storage.list(P, revision=last)).items) == 3
    with pytest.raises(FutureRevisionError) as caught:
        await storage.list(P, revision=last + 1)
    assert (caught.value.requested, caught.value.current) == (last + 1, last)


# ------------------------------------------------------------------ watches
async def test_a_watch_shows_each_change_with_the_state_before(storage: Storage) -> None:
    """Creation, update and deletion come in order, each with the object before it."""
    watch = await storage.watch(P)
    created = await put(storage, "a", x=1)
    changed = await update(storage, "a", x=2)
    await storage.create("core/secrets/a", obj("a"))
    removed = await storage.delete(f"{P}a")
    assert await next_changes(watch, 3) == [
        StorageChange(ChangeType.PUT, f"{P}a", rv(created), created, None),
        StorageChange(ChangeType.PUT, f"{P}a", rv(changed), changed, created),
        StorageChange(ChangeType.DELETE, f"{P}a", rv(removed), removed, changed),
    ]


async def test_a_watch_may_start_in_the_past(storage: Storage) -> None:
    """A watch from an old revision shows every later change, beside watches that started later."""
    first = await put(storage, "a")
    await put(storage, "b")
    later = await storage.watch(P)
    await put(storage, "c")
    earlier = await storage.watch(P, rv(first))
    narrow = await storage.watch(f"{P}b", rv(first))
    await put(storage, "d")
    assert [c.key for c in await next_changes(later, 2)] == [f"{P}c", f"{P}d"]
    assert [c.key for c in await next_changes(earlier, 3)] == [f"{P}b", f"{P}c", f"{P}d"]
    assert [c.key for c in await next_changes(narrow, 1)] == [f"{P}b"]
    # The first reader leaves; the others go on.
    later.close()
    await put(storage, "e")
    assert [c.key for c in await next_changes(earlier, 1)] == [f"{P}e"]


async def test_a_watch_of_the_future_waits(storage: Storage) -> None:
    """Changes up to the watch's revision are not shown, however long they take to happen."""
    watch = await storage.watch(P, await storage.get_current_resource_version() + 1)
    await put(storage, "early")
    await put(storage, "late")
    assert [c.key for c in await next_changes(watch, 1)] == [f"{P}late"]


async def test_progress_reaches_writes_elsewhere(storage: Storage) -> None:
    """The progress of a watch passes changes of other resources, and never those that wait to be read."""
    watch = await storage.watch(P)
    other = rv(await storage.create("core/secrets/a", obj("a")))
    await eventually(lambda: (watch.progress() or 0) >= other)
    own = rv(await put(storage, "a"))
    await eventually(lambda: watch.progress() is None or watch.progress() >= own)
    assert watch.progress() is None
    assert [change.revision for change in await next_changes(watch, 1)] == [own]
    await eventually(lambda: (watch.progress() or 0) >= own)


async def test_a_slow_watcher_is_cut_off(opened: Opener) -> None:
    """A reader that lags more than the limit ends without blocking the writer or other readers."""
    async with opened(watch_limit=3) as storage:
        slow, fast = await storage.watch(P), await storage.watch(P)
        for index in range(5):
            await put(storage, f"n{index}")
            await next_changes(fast, 1)
        await eventually(lambda: slow.overflowed)
        with pytest.raises(StopAsyncIteration):
            await anext(slow)
        assert not fast.overflowed


async def test_an_interrupted_wait_loses_no_change(storage: Storage) -> None:
    """An interruption ends one wait, now or later; changes that are there come first."""
    watch = await storage.watch(P)
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    watch.interrupt()
    with pytest.raises(WatchInterruptedError):
        await waiting
    watch.interrupt()
    await put(storage, "a")
    await eventually(lambda: watch.progress() is None)
    assert (await anext(watch)).key == f"{P}a"
    with pytest.raises(WatchInterruptedError):
        await anext(watch)


async def test_watches_end_with_the_storage(opened: Opener) -> None:
    """`end_watches` ends the watches and allows new ones; closing ends all and may be repeated."""
    async with opened() as storage:
        ended = await storage.watch(P)
        storage.end_watches()
        with pytest.raises(StopAsyncIteration):
            await anext(ended)
        watch = await storage.watch(P)
        await storage.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(watch)
        watch.close()
        await storage.aclose()


# ------------------------------------------------------------------ models
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "delete", "watch", "resume", "list"]), st.integers(0, 3)), max_size=25
)
few = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@few
@given(STEPS)
def test_no_change_is_lost_or_doubled(opened: Opener, steps: list[tuple[str, int]]) -> None:
    """A watcher that starts anywhere and resumes anywhere sees each later change once, in order.

    A list at any past revision shows what a list at that time showed.
    """
    asyncio.run(_assert_watchers_miss_nothing(opened, steps))


async def _assert_watchers_miss_nothing(opened: Opener, steps: list[tuple[str, int]]) -> None:
    async with opened() as storage:
        log: list[int] = []
        model: dict[str, JsonObject] = {}
        revision = await storage.get_current_resource_version()
        past = {revision: dict(model)}
        watchers: list[tuple[int, StorageWatch, list[int]]] = []
        for action, number in steps:
            key = f"{P}{number}"
            if action == "put":
                model[key] = await storage.guaranteed_update(key, _replacing(number, len(log)))
                revision = rv(model[key])
                log.append(revision)
            elif action == "delete" and key in model:
                del model[key]
                revision = rv(await storage.delete(key))
                log.append(revision)
            elif action == "watch":
                watchers.append((revision, await storage.watch(P), []))
            elif action == "resume" and watchers:
                start, watch, watcher = watchers.pop(number % len(watchers))
                watcher.extend(change.revision for change in watch.ready(3))
                watch.close()
                watchers.append((start, await storage.watch(P, watcher[-1] if watcher else start), watcher))
            elif action == "list":
                chosen = sorted(past)[number % len(past)]
                assert dict((await storage.list(P, revision=chosen)).items) == past[chosen]
            past[revision] = dict(model)
        for start, watch, watcher in watchers:
            due = [entry for entry in log if entry > start]
            watcher.extend(change.revision for change in await next_changes(watch, len(due) - len(watcher)))
            assert watcher == due
        assert dict((await storage.list(P)).items) == model


def _replacing(number: int, version: int) -> Update:
    async def step(_: JsonObject | None) -> JsonObject:
        return obj(str(number), version=version)

    return step


@pytest.mark.parametrize("seed", range(5))
async def test_seeded_writers_agree_on_one_order(storage: Storage, seed: int) -> None:
    """With several writers in any interleaving, a watcher's changes rebuild the state, and no increment is lost."""
    rng = random.Random(seed)
    start = await storage.get_current_resource_version()
    increments: dict[str, int] = {}

    def adding() -> Update:
        async def step(current: JsonObject | None) -> JsonObject:
            for _ in range(rng.randrange(3)):
                await asyncio.sleep(0)
            return obj("a", n=1 if current is None else current["data"]["n"] + 1)

        return step

    async def write() -> None:
        for _ in range(10):
            key = f"{P}{rng.randrange(3)}"
            await storage.guaranteed_update(key, adding())
            increments[key] = increments.get(key, 0) + 1

    watch = await storage.watch(P)
    writers: list[Awaitable[None]] = [write() for _ in range(4)]
    await asyncio.gather(*writers)
    changes = await next_changes(watch, 40)
    revisions = [change.revision for change in changes]
    assert revisions == list(range(start + 1, start + 41))
    state = {change.key: change.value for change in changes}
    assert state == dict((await storage.list(P)).items)
    assert {key: value["data"]["n"] for key, value in state.items() if value} == increments
