"""The SQL store in several processes, on SQLite and PostgreSQL: no write is lost, and files stay consistent."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, aclosing
from pathlib import Path

import pytest
from normankit import api_context
from postgres import PostgresServer, postgres_server
from sql_writer import COUNTERS

from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.errors import NormanError
from opsdk.norman.query import condition
from opsdk.norman.schema_parts import Modifier
from opsdk.norman.store_results import ResourceEventType
from opsdk.norman.stores.sql import SqlStore, SqlStoreOptions
from opsdk.norman.stores.sql_database import SqlDatabase, SqlOptions

pytestmark = [pytest.mark.slow, pytest.mark.realtime]

SUPPORT = Path(__file__).parents[2] / "support"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL server."""
    with ExitStack() as stack:
        yield stack.enter_context(postgres_server())


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/counters.db"
    server: PostgresServer = request.getfixturevalue("server")
    return server.new_database()


def start_writer(url: str, name: str, count: int) -> subprocess.Popen[str]:
    """Start a process that writes."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), str(Path.cwd())])}
    command = [sys.executable, str(SUPPORT / "sql_writer.py"), url, name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


async def watching(store: SqlStore) -> None:
    """Return when the first watch of a store has begun."""
    while not store._watch_events:
        await asyncio.sleep(0.01)


async def create_shared(store: SqlStore) -> None:
    """Create the object that all writers count in."""
    await store.create(api_context(), COUNTERS, {"name": "shared", "count": 0})


async def test_two_processes_lose_no_update(url: str) -> None:
    """Two processes increment with revisions and lose no update; a watch sees every write once."""
    count = 25
    async with (
        SqlDatabase(url) as database,
        SqlStore(database, "counters", SqlStoreOptions(poll_interval=0.05)) as store,
    ):
        await create_shared(store)
        events = store.watch(api_context(), COUNTERS, ObjectQuery())
        first = asyncio.ensure_future(anext(events))
        await watching(store)
        writers = [start_writer(url, name, count) for name in ("left", "right")]
        async with aclosing(events):
            revisions, shared, created = [], 0, set()
            event = await first
            while True:
                revisions.append(int(event.revision.rpartition("-")[2]))
                if event.data["name"] == "shared":
                    shared += 1
                else:
                    created.add(event.data["name"])
                if len(revisions) == 4 * count:
                    break
                event = await anext(events)
        assert revisions == list(range(revisions[0], revisions[0] + 4 * count))
        assert (shared, len(created)) == (2 * count, 2 * count)
        for writer in writers:
            assert await asyncio.to_thread(writer.wait, 60) == 0
            assert writer.stdout is not None
            writer.stdout.close()
        assert (await store.by_id(api_context(), COUNTERS, "shared"))["count"] == 2 * count


async def test_kill_9_loses_no_write_that_was_acknowledged(url: str) -> None:
    """After kill -9, objects, indices and log are consistent, and the next process continues."""
    async with SqlDatabase(url, SqlOptions(lock_timeout=60)) as database, SqlStore(database, "counters") as store:
        await create_shared(store)
        position = await first_position(store)
        acknowledged: set[str] = set()
        for attempt in range(3):
            writer = start_writer(url, f"w{attempt}", 0)
            assert writer.stdout is not None
            for _ in range(15 + 7 * attempt):
                line = await asyncio.to_thread(writer.stdout.readline)
                acknowledged.add(f"w{attempt}-{line.strip()}")
            writer.kill()
            await asyncio.to_thread(writer.wait)
            acknowledged |= {f"w{attempt}-{line.strip()}" for line in writer.stdout if line.endswith("\n")}
            writer.stdout.close()
        context = api_context()
        everything = (await store.list(context, COUNTERS, ObjectQuery(limit=10_000))).items
        stored = {item["name"]: item for item in everything}
        assert acknowledged <= set(stored)
        for name, item in stored.items():
            where = (
                *condition("name", Modifier.EQ, name),
                *condition("count", Modifier.EQ, str(item["count"])),
            )
            assert [each["id"] for each in (await store.list(context, COUNTERS, ObjectQuery(filters=where))).items] == [
                name
            ]
        replayed = await replay(store, position, len(stored))
        assert replayed == {name: item for name, item in stored.items() if name in replayed}
        assert set(stored) - set(replayed) <= {"shared"}
        await store.create(context, COUNTERS, {"name": "after", "count": 1})
        if url.startswith("sqlite"):
            check = sqlite3.connect(url.removeprefix("sqlite:///"))
            assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            check.close()


async def first_position(store: SqlStore) -> str:
    """Return the revision of a write."""
    async with aclosing(store.watch(api_context(), COUNTERS, ObjectQuery())) as events:
        reading = asyncio.ensure_future(anext(events))
        await watching(store)
        await store.update(api_context(), COUNTERS, {"count": 0}, "shared")
        return (await reading).revision


async def replay(store: SqlStore, since: str, count: int) -> dict[str, object]:
    """Return the objects that the log of changes leads to."""
    objects: dict[str, object] = {}
    async with aclosing(store.watch(api_context(), COUNTERS, ObjectQuery(since=since))) as events:
        last = await store.update(api_context(), COUNTERS, {"count": -1}, "shared")
        async for event in events:
            assert event.type is ResourceEventType.CHANGE
            objects[event.data["name"]] = event.data
            if event.data == last:
                del objects["shared"]
                assert len(objects) == count - 1
                return objects
    raise AssertionError("the log ends early")


async def test_a_server_that_restarts_is_unavailable_meanwhile(server: PostgresServer) -> None:
    """While PostgreSQL is down, requests are a 503; watches and requests continue afterwards."""
    url = server.new_database()
    options = SqlStoreOptions(poll_interval=0.05)
    async with SqlDatabase(url) as database, SqlStore(database, "counters", options) as store:
        context = api_context()
        await create_shared(store)
        async with aclosing(store.watch(context, COUNTERS, ObjectQuery())) as events:
            reading = asyncio.ensure_future(anext(events))
            await watching(store)
            await asyncio.to_thread(server.stop)
            for attempt in (store.by_id(context, COUNTERS, "shared"), store.update(context, COUNTERS, {}, "shared")):
                with pytest.raises(NormanError) as raised:
                    await attempt
                assert (raised.value.status, raised.value.code) == (503, "ClusterUnavailable")
            await asyncio.sleep(0.2)
            await asyncio.to_thread(server.start)
            await store.update(context, COUNTERS, {"count": 7}, "shared")
            assert (await asyncio.wait_for(reading, 30)).data["count"] == 7


async def test_a_transaction_that_the_server_ends_stores_nothing(server: PostgresServer) -> None:
    """The next request gets a new connection."""
    url = server.new_database()
    async with SqlDatabase(url) as database, SqlStore(database, "counters") as store:
        await create_shared(store)
        server.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'test%'")
        assert (await store.update(api_context(), COUNTERS, {"count": 1}, "shared"))["count"] == 1


async def test_a_user_without_permissions(server: PostgresServer) -> None:
    """The error says that permissions are missing."""
    url = server.new_database()
    server.query("CREATE ROLE reader LOGIN")
    async with SqlDatabase(url.replace("postgres@", "reader@")) as database, SqlStore(database, "counters") as store:
        with pytest.raises(NormanError, match="grant the permissions"):
            await store.list(api_context(), COUNTERS, ObjectQuery())
