"""Query plans: requests use indices, scan no tables, and sort only what no index orders."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from normankit import V3, api_context
from postgres import postgres_server
from sqlalchemy import Connection, event

from opsdk.http.server.request import Query
from opsdk.norman.model import Schema
from opsdk.norman.query import parse_query
from opsdk.norman.schema_parts import Field, Filter, Modifier
from opsdk.norman.stores.sql import SqlStore
from opsdk.norman.stores.sql_database import SqlDatabase

EVERY = Filter(modifiers=tuple(Modifier))
BOOK = Schema(
    id="book",
    version=V3,
    resource_fields={name: Field(type="string") for name in ("name", "state", "owner")},
    collection_filters={"name": EVERY, "id": EVERY, "state": EVERY, "owner": EVERY},
)
# All of 9 objects match, so that a page of one is read in the order of an index.
MANY = [
    "",
    "marker=b5",
    "marker=missing",
    "order=desc&marker=b5",
    "sort=owner",
    "sort=owner&marker=b5",
    "sort=owner&order=desc&marker=b5",
    "state=new",
    "state=new&sort=owner&marker=b5",
    "state_ne=old&sort=owner&order=desc",
    "owner_notnull=1",
]
FEW = ["owner=o1", "owner=o1&sort=state", "owner_in=o1,o2&state_ne=old&sort=name&order=desc&marker=b1", "id=b1,b2"]


class Plans:
    """Explains each query of a database."""

    def __init__(self, database: SqlDatabase) -> None:
        self.lines: list[str] = []
        self._is_sqlite = database._is_sqlite
        self._explaining = False
        event.listen(database._engine, "before_cursor_execute", self._explain)

    def _explain(self, connection: Connection, _: object, statement: str, parameters: Any, *rest: object) -> None:
        if self._explaining or not statement.startswith(("SELECT", "UPDATE", "DELETE")) or "norman_" not in statement:
            return
        self._explaining = True
        if self._is_sqlite:
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            self.lines += [row[3] for row in rows]
        else:
            # Tables of few rows are read as a whole, unless this costs more than anything.
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
            rows = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters).all()
            self.lines += [row[0] for row in rows]
        self._explaining = False


@contextmanager
def explained(lines: list[str], *refused: str) -> Iterator[None]:
    """Assert that the requests of the block have plans, and none of these words in them."""
    lines.clear()
    yield
    assert lines
    assert [line for line in lines if any(word in line for word in refused)] == []


async def fill(store: SqlStore) -> None:
    """Create nine objects."""
    for number in range(9):
        await store.create(api_context(), BOOK, {"name": f"b{number}", "state": "new", "owner": f"o{number}"})


async def explain_requests(database: SqlDatabase, scans: str, sorts: Callable[[str], tuple[str, ...]]) -> None:
    """Run all requests, and refuse scans and sorts."""
    async with SqlStore(database, "books") as store:
        await fill(store)
        plans = Plans(database)
        with explained(plans.lines, scans):
            await store.by_id(api_context(), BOOK, "b1")
            await store.update(api_context(), BOOK, {"state": "new"}, "b1")
            await store.delete(api_context(), BOOK, "b8")
            await store.create(api_context(), BOOK, {"name": "b8", "state": "new", "owner": "o8"})
        for text in MANY:
            with explained(plans.lines, scans, *sorts(text)):
                await store.list(api_context(), BOOK, parse_query(BOOK, Query(f"{text}&limit=1")))
        for text in FEW:
            with explained(plans.lines, scans):
                await store.list(api_context(), BOOK, parse_query(BOOK, Query(f"{text}&limit=1000")))


async def test_sqlite_reads_indices() -> None:
    """Get, writes, pages in any order from any marker, and filters: no table is scanned, and no page is sorted."""
    async with SqlDatabase("sqlite:///:memory:") as database:
        await explain_requests(database, "SCAN norman_", lambda _: ("ORDER BY",))


async def test_sqlite_finds_few_objects_first() -> None:
    """A filter for a rare value does not scan the collection."""
    async with SqlDatabase("sqlite:///:memory:") as database, SqlStore(database, "books") as store:
        await fill(store)
        plans = Plans(database)
        for text in ("owner=o1", "owner=o1&sort=state", "owner=o1&sort=state&order=desc"):
            with explained(plans.lines, "objects_1 (collection=?)", "ascending (field=?)", "descending (field=?)"):
                await store.list(api_context(), BOOK, parse_query(BOOK, Query(f"{text}&limit=1000")))


@pytest.mark.slow
@pytest.mark.realtime
async def test_postgresql_reads_indices() -> None:
    """The same with PostgreSQL, whose planner may sort so few rows."""
    with ExitStack() as stack:
        server = stack.enter_context(postgres_server())
        async with SqlDatabase(server.new_database()) as database:
            await explain_requests(database, "Seq Scan on norman_", lambda _: ())


@pytest.mark.slow
@pytest.mark.realtime
async def test_the_longest_ids_and_values_fit_into_the_indices_of_postgresql() -> None:
    """The longest incompressible strings fit into index entries; their order is that of 511 bytes."""
    chance = random.Random(1)
    names = ["".join(chance.choices(string.ascii_letters, k=2000)) for _ in range(5)]
    with ExitStack() as stack:
        server = stack.enter_context(postgres_server())
        async with SqlDatabase(server.new_database()) as database, SqlStore(database, "books") as store:
            for name in names:
                await store.create(api_context(), BOOK, {"name": name, "state": name * 2, "owner": name})
            for text in ("sort=state", "sort=owner", ""):
                result = await store.list(api_context(), BOOK, parse_query(BOOK, Query(text)))
                assert [item["id"] for item in result.items] == sorted(names)
