"""The SQL store: pages, revisions, the log of changes, and errors of databases."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from normankit import V3, api_context
from sqlalchemy import event

from opsdk.errors import ConfigError
from opsdk.norman.codes import ErrorCode
from opsdk.norman.collections.access_set import EVERYTHING, VisibleObjects
from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.errors import NormanError
from opsdk.norman.model import Schema
from opsdk.norman.query import apply_query, condition, sort_by
from opsdk.norman.schema_parts import Field, Filter, Modifier
from opsdk.norman.store_results import ResourceEvent, ResourceEvents, ResourceEventType
from opsdk.norman.stores.sql import SqlStore, SqlStoreOptions
from opsdk.norman.stores.sql_database import SqlDatabase, SqlOptions
from opsdk.structured_merge.value import JsonObject

EVERY = Filter(modifiers=tuple(Modifier))


def schema(*filters: str) -> Schema:
    """Return a schema whose filters are these fields."""
    return Schema(
        id="book",
        version=V3,
        resource_fields={"name": Field(type="string"), "value": Field(type="json"), "other": Field(type="json")},
        collection_filters=dict.fromkeys(("name", "id", *filters), EVERY),
    )


BOOK = schema("value", "value.a")


@asynccontextmanager
async def stores(
    path: Path, count: int = 1, options: SqlStoreOptions | None = None, **limits: Any
) -> AsyncIterator[list[SqlStore]]:
    """Stores of one collection, each with connections of its own, as in several processes."""
    databases = [SqlDatabase(f"sqlite:///{path}/books.db", SqlOptions(**limits)) for _ in range(count)]
    opened = [SqlStore(database, "books", options) for database in databases]
    try:
        yield opened
    finally:
        for store, database in zip(opened, databases, strict=True):
            await store.aclose()
            await database.aclose()


async def names(store: SqlStore, query: ObjectQuery, kind: Schema = BOOK) -> list[str]:
    """Return the names of the objects of a list."""
    return [item["name"] for item in (await store.list(api_context(), kind, query)).items]


# ------------------------------------------------------------------ queries
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-2, 12)
    | st.sampled_from([1 << 53, (1 << 53) + 1, 2.5, -0.0, 1e300])
    | st.sampled_from(["", "a", "B", "ä", "\x00", "2", "true", "\U0001f600"])
)
anything = scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.sampled_from("ab"), scalars, max_size=2)
documents = st.lists(
    st.fixed_dictionaries(
        {"name": st.text("abcÄ\x00", min_size=1, max_size=3)}, optional={"value": anything, "other": anything}
    ),
    max_size=8,
    unique_by=lambda item: item["name"],
)
conditions = st.builds(
    lambda field, modifier, values: condition(field, modifier, *values),
    st.sampled_from(["id", "name", "value", "value.a", "other", "missing"]),
    st.sampled_from(list(Modifier)),
    st.lists(st.sampled_from(["", "a", "b", "2", "2.5", "true", "ä"]), max_size=2),
)
queries = st.builds(
    ObjectQuery,
    filters=st.lists(conditions, max_size=2).map(lambda found: tuple(item for filters in found for item in filters)),
    sort=st.builds(
        lambda field, descending: sort_by(field, descending=descending),
        st.sampled_from(["id", "name", "value", "value.a", "other"]),
        st.booleans(),
    ),
    limit=st.integers(0, 3),
    marker=st.text("abcÄ\x00", max_size=3),
    visible=st.just(EVERYTHING) | st.builds(VisibleObjects, names=st.just({None: frozenset({"a", "b"})})),
)


@settings(max_examples=30)
@given(items=documents, requests=st.lists(queries, min_size=1, max_size=8))
def test_the_database_answers_as_python_does(items: list[JsonObject], requests: list[ObjectQuery]) -> None:
    """Objects, order and all markers are those of `apply_query`, for any values, queries and markers."""

    async def run() -> None:
        async with SqlDatabase("sqlite:///:memory:") as database, SqlStore(database, "books") as store:
            context = api_context()
            created = [await store.create(context, BOOK, item) for item in items]
            for each in requests:
                expected = apply_query(BOOK, each, created)
                result = await store.list(context, BOOK, each)
                assert ([i["id"] for i in result.items], result.markers) == (
                    [i["id"] for i in expected.items],
                    expected.markers,
                )
                assert list(result.items) == list(expected.items)

    asyncio.run(run())


async def test_a_filter_that_is_declared_later_knows_old_objects(tmp_path: Path) -> None:
    """The values of a new field are added to all objects, and other processes then write them too."""
    where = ObjectQuery(filters=condition("value", Modifier.EQ, "x"), sort=sort_by("value"))
    async with stores(tmp_path, 2) as (old, new):
        await old.create(api_context(), schema(), {"name": "a", "value": "x"})
        assert await names(new, where, schema("value")) == ["a"]
        await old.create(api_context(), schema(), {"name": "b", "value": "x"})
        await old.update(api_context(), schema(), {"value": "y"}, "a")
        assert await names(new, where, schema("value")) == ["b"]


# ------------------------------------------------------------------ revisions
async def test_an_update_with_an_old_revision_is_a_conflict(tmp_path: Path) -> None:
    """An update with an old revision is a conflict; without a revision, updates are merged."""
    async with stores(tmp_path, 2) as (first, second):
        context = api_context()
        created = await first.create(context, BOOK, {"name": "a"})
        updated = await first.update(context, BOOK, {**created, "value": 1}, "a")
        assert updated["resourceVersion"] != created["resourceVersion"]
        with pytest.raises(NormanError, match="read it again") as raised:
            await second.update(context, BOOK, {**created, "value": 2}, "a")
        assert (raised.value.status, raised.value.code) == (409, "Conflict")
        await second.update(context, BOOK, {"other": 2}, "a")
        merged = await first.by_id(context, BOOK, "a")
        assert (merged["value"], merged["other"]) == (1, 2)


async def test_concurrent_updates_of_different_fields_all_survive(tmp_path: Path) -> None:
    """Two stores with connections of their own, forty updates at once."""
    async with stores(tmp_path, 2) as opened:
        context = api_context()
        await opened[0].create(context, BOOK, {"name": "a"})
        await asyncio.gather(
            *(opened[number % 2].update(context, BOOK, {f"f{number}": number}, "a") for number in range(40))
        )
        result = await opened[0].by_id(context, BOOK, "a")
        assert {name: value for name, value in result.items() if name.startswith("f")} == {
            f"f{n}": n for n in range(40)
        }


async def test_one_of_many_creates_of_a_name_wins(tmp_path: Path) -> None:
    """Of many creates of one name, one succeeds; the others are NotUnique with the id field."""
    async with stores(tmp_path, 2) as opened:
        attempts = [
            opened[number % 2].create(api_context(), BOOK, {"name": "a", "value": number}) for number in range(8)
        ]
        results = await asyncio.gather(*attempts, return_exceptions=True)
        errors = [(e.code, e.field_name) for e in results if isinstance(e, NormanError)]
        assert errors == [("NotUnique", "name")] * 7


# ------------------------------------------------------------------ watches
async def take(events: ResourceEvents, count: int) -> list[ResourceEvent]:
    """Return so many events of a watch."""
    return [await anext(events) for _ in range(count)]


async def test_a_watch_sees_writes_of_other_processes(tmp_path: Path) -> None:
    """A watch sees writes of other processes within a poll interval, once and in order."""
    async with stores(tmp_path, 2) as (reader, writer):
        context = api_context()
        async with aclosing(reader.watch(context, BOOK, ObjectQuery())) as events:
            reading = asyncio.create_task(take(events, 3))
            await asyncio.sleep(1)
            created = await writer.create(context, BOOK, {"name": "a"})
            updated = await writer.update(context, BOOK, {"value": 1}, "a")
            await writer.delete(context, BOOK, "a")
            events_read = await asyncio.wait_for(reading, 60)
        assert [(e.type, e.data) for e in events_read] == [
            (ResourceEventType.CHANGE, created),
            (ResourceEventType.CHANGE, updated),
            (ResourceEventType.REMOVE, updated),
        ]


async def test_a_watch_outlives_a_database_that_cannot_be_reached(tmp_path: Path) -> None:
    """A failed read of the log is retried, and no write is missed."""
    context = api_context()
    async with stores(tmp_path) as (store,), aclosing(store.watch(context, BOOK, ObjectQuery())) as events:
        reading = asyncio.create_task(take(events, 2))
        await asyncio.sleep(1)
        failures = 0

        async def unreachable(*_: object) -> None:
            nonlocal failures
            failures += 1
            raise ErrorCode.CLUSTER_UNAVAILABLE.error("the database cannot be reached")

        await store.create(context, BOOK, {"name": "a"})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store._database, "run", unreachable)
            await asyncio.sleep(5)
        await store.create(context, BOOK, {"name": "b"})
        assert [event.data["name"] for event in await reading] == ["a", "b"]
        assert failures > 1


async def test_own_writes_are_seen_without_a_poll(tmp_path: Path) -> None:
    """A write of this process reaches its watches without virtual time."""
    context = api_context()
    options = SqlStoreOptions(poll_interval=3600)
    async with (
        stores(tmp_path, options=options) as (store,),
        aclosing(store.watch(context, BOOK, ObjectQuery())) as events,
    ):
        reading = asyncio.create_task(take(events, 1))
        await asyncio.sleep(1)
        before = asyncio.get_running_loop().time()
        await store.create(context, BOOK, {"name": "a"})
        await reading
        assert asyncio.get_running_loop().time() == before


async def test_a_watch_resumes_after_a_restart(tmp_path: Path) -> None:
    """A watch resumes from the revision of any event, even in another process."""
    context = api_context()
    async with stores(tmp_path) as (store,), aclosing(store.watch(context, BOOK, ObjectQuery())) as events:
        reading = asyncio.create_task(take(events, 3))
        await asyncio.sleep(1)
        for name in "abc":
            await store.create(context, BOOK, {"name": name})
        events_read = await reading
    async with stores(tmp_path) as (store,):
        await store.create(context, BOOK, {"name": "d"})
        for index, event in enumerate(events_read):
            async with aclosing(store.watch(context, BOOK, ObjectQuery(since=event.revision))) as events:
                rest = await take(events, 3 - index)
                assert [e.data["name"] for e in rest] == list("abcd")[index + 1 :]


@pytest.mark.parametrize("since", ["x", "-", "other-1", "99-", "{epoch}-100", "{epoch}-" + "9" * 30, "{epoch}--1"])
async def test_a_revision_of_another_log_is_gone(tmp_path: Path, since: str) -> None:
    """Also one that this log has not reached."""
    async with stores(tmp_path) as (store,):
        await store.create(api_context(), BOOK, {"name": "a"})
        with sqlite3.connect(tmp_path / "books.db") as connection:
            (epoch,) = connection.execute("SELECT epoch FROM norman_collections").fetchone()
        connection.close()
        with pytest.raises(NormanError) as raised:
            await anext(store.watch(api_context(), BOOK, ObjectQuery(since=since.format(epoch=epoch))))
        assert raised.value.status == 410


async def test_old_changes_are_pruned(tmp_path: Path) -> None:
    """The log keeps what the options say; older revisions are gone, and a watch that fell behind ends."""
    async with stores(tmp_path, options=SqlStoreOptions(keep_changes=50)) as (store,):
        context = api_context()
        await store.create(context, BOOK, {"name": "a"})
        async with aclosing(store.watch(context, BOOK, ObjectQuery())) as slow:
            reading = asyncio.create_task(take(slow, 1))
            await asyncio.sleep(1)
            await store.update(context, BOOK, {"value": -1}, "a")
            (first,) = await reading
            for number in range(300):
                await store.update(context, BOOK, {"value": number}, "a")
            with pytest.raises(NormanError) as raised:
                await anext(store.watch(context, BOOK, ObjectQuery(since=first.revision)))
            assert raised.value.status == 410
            assert [event async for event in slow] == []
        with sqlite3.connect(tmp_path / "books.db") as connection:
            (changes_left,) = connection.execute("SELECT count(*) FROM norman_changes").fetchone()
        connection.close()
        assert 50 <= changes_left <= 150


# ------------------------------------------------------------------ errors
async def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """A write without disk space is an error; existing objects stay, and reads still work."""
    async with stores(tmp_path) as (store,):
        context = api_context()
        await store.create(context, BOOK, {"name": "a"})
        limit = limit_pages(store)
        limit["pages"] = 60
        stored = ["a"]

        async def fill() -> None:
            for number in range(100):
                await store.create(context, BOOK, {"name": f"b{number}", "value": "x" * 20_000})
                stored.append(f"b{number}")

        with pytest.raises(NormanError, match="the disk of the database is full") as raised:
            await fill()
        assert raised.value.status == 500
        assert await names(store, ObjectQuery()) == sorted(stored)
        limit["pages"] = 10_000
        await store.create(context, BOOK, {"name": "later", "value": "x" * 20_000})


def limit_pages(store: SqlStore) -> dict[str, int]:
    """Let the file of a database have at most ``["pages"]`` pages, as a full disk does."""
    limit = {"pages": 10_000}

    def apply_limit(connection: sqlite3.Connection, *_: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {limit['pages']}")

    event.listen(store._database._engine, "checkout", apply_limit)
    return limit


@pytest.mark.realtime
async def test_two_stores_can_open_a_new_file_at_once(tmp_path: Path) -> None:
    """Two processes that open a new database at once both create their object."""
    for number in range(30):
        (tmp_path / str(number)).mkdir()
        async with stores(tmp_path / str(number), 2, lock_timeout=60) as opened:
            created = await asyncio.gather(
                *(store.create(api_context(), BOOK, {"name": name}) for store, name in zip(opened, "ab", strict=True))
            )
        assert [item["name"] for item in created] == ["a", "b"]


async def test_a_lock_of_another_process_is_unavailable_after_the_timeout(tmp_path: Path) -> None:
    """A write that waits too long for a lock is a 503; reads do not wait."""
    async with stores(tmp_path, lock_timeout=0.05) as (store,):
        context = api_context()
        await store.create(context, BOOK, {"name": "a"})
        other = sqlite3.connect(tmp_path / "books.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(NormanError, match="another process holds the lock") as raised:
            await store.update(context, BOOK, {"value": 1}, "a")
        assert raised.value.status == 503
        assert await names(store, ObjectQuery()) == ["a"]
        other.execute("ROLLBACK")
        other.close()
        await store.update(context, BOOK, {"value": 1}, "a")


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    """A file that is not a database is an error with the reason."""
    (tmp_path / "books.db").write_text("not a database, " * 100)
    async with stores(tmp_path) as (store,):
        with pytest.raises(NormanError, match="not a SQLite database"):
            await store.list(api_context(), BOOK, ObjectQuery())


async def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    """A missing folder is an error with advice."""
    async with stores(tmp_path / "missing") as (store,):
        with pytest.raises(NormanError, match="check path and permissions"):
            await store.list(api_context(), BOOK, ObjectQuery())


@pytest.mark.parametrize("url", ["", "nonsense", "mysql://host/db", "unknown+driver://host"])
def test_urls_of_other_databases_are_refused(url: str) -> None:
    """A URL of another database is an error with advice."""
    with pytest.raises(ConfigError, match="check the URL"):
        SqlDatabase(url)


async def test_values_that_cannot_be_stored(tmp_path: Path) -> None:
    """Lone surrogates and ids that are too long are errors of the client; integers of any size are stored."""
    async with stores(tmp_path) as (store,):
        for data, code in (
            ({"name": "a", "value": "\ud800"}, "InvalidBodyContent"),
            ({"name": "a" * 2001}, "MaxLengthExceeded"),
        ):
            with pytest.raises(NormanError) as raised:
                await store.create(api_context(), BOOK, data)
            assert (raised.value.status, raised.value.code) == (422, code)
        assert await names(store, ObjectQuery()) == []
        for name, value in (("a", 10**400), ("b", -(10**400)), ("c", 1 << 70)):
            created = await store.create(api_context(), BOOK, {"name": name, "value": value})
            assert created["value"] == value
        assert await names(store, ObjectQuery(sort=sort_by("value"))) == ["b", "c", "a"]


async def test_a_closed_database_refuses_requests(tmp_path: Path) -> None:
    """A closed database returns 503; closing it again does nothing."""
    database = SqlDatabase(f"sqlite:///{tmp_path}/books.db")
    store = SqlStore(database, "books")
    await store.create(api_context(), BOOK, {"name": "a"})
    await store.aclose()
    await database.aclose()
    await database.aclose()
    with pytest.raises(NormanError, match="is closed") as raised:
        await store.list(api_context(), BOOK, ObjectQuery())
    assert raised.value.status == 503


async def test_closing_a_store_ends_its_watches(tmp_path: Path) -> None:
    """A reader that waits gets the end."""
    async with stores(tmp_path) as (store,):
        events = store.watch(api_context(), BOOK, ObjectQuery())
        reading = asyncio.ensure_future(anext(events, None))
        await asyncio.sleep(1)
        await store.aclose()
        assert await reading is None
