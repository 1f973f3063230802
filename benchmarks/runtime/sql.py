"""A `SqlStore` with many objects: ``python -m benchmarks.runtime sql [OBJECTS]``.

SQLite in a file, and PostgreSQL of the distribution in a folder, without fsync. Milliseconds and milliseconds of CPU of
this process for each request, medians, and the slowest one.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import msgspec
from sqlalchemy import Connection, insert, select, update

from opsdk.http.server.request import Query
from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.model import Schema
from opsdk.norman.query import parse_query
from opsdk.norman.schema_parts import ApiVersion, Field, Filter
from opsdk.norman.stores.sql import SqlStore, SqlStoreOptions
from opsdk.norman.stores.sql_database import SqlDatabase, TransactionMode
from opsdk.norman.stores.sql_tables import collections, objects
from tests.support.normankit import api_context
from tests.support.postgres import postgres_server

_VERSION = ApiVersion(group="example.com", version="v3", path="/v3")
_FIELDS = {name: Field(type="string") for name in ("name", "state", "owner", "created", "text")}
_ROUNDS = 20
_ROWS_OF_AN_INSERT = 1000


def _schema(*filters: str) -> Schema:
    return Schema(
        id="book", version=_VERSION, resource_fields=_FIELDS, collection_filters=dict.fromkeys(filters, Filter())
    )


_BOOK = _schema("state", "owner", "created")
_LISTS = {
    "first page by id": "",
    "page in the middle by id": "marker=book-{middle}",
    "first page by age": "sort=created",
    "page in the middle by age": "sort=created&marker=book-{middle}",
    "first page by state, descending": "sort=state&order=desc",
    "page in the middle by state, descending": "sort=state&order=desc&marker=book-{middle}",
    "filter on a rare value": "owner=owner-77",
    "filter on a common value": "state=active",
    "filter and sort": "state=active&sort=created&order=desc",
    "2 filters and sort": "state_ne=active&owner_in=owner-1,owner-2,owner-3&sort=created",
}


async def run(count: int) -> None:
    """Print the figures of each database."""
    with tempfile.TemporaryDirectory() as folder:
        await _measure(f"sqlite:///{folder}/books.db", count)
    with postgres_server() as server:
        await _measure(server.new_database(), count)


async def _measure(url: str, count: int) -> None:
    options = SqlStoreOptions(poll_interval=0.1)
    async with SqlDatabase(url) as database, SqlStore(database, "books", options) as store:
        print(f"{database!r}, {count} objects: ms and CPU ms, medians; slowest ms")
        await store.list(api_context(), _schema(), _query(_schema(), "limit=1"))
        await database.run(TransactionMode.WRITE, lambda connection: _fill(connection, count))
        began = time.perf_counter()
        await store.list(api_context(), _BOOK, _query(_BOOK, "limit=1"))
        print(f"  index the objects by 4 fields: {time.perf_counter() - began:.1f} s")
        for title, text in _LISTS.items():
            query = _query(_BOOK, f"{text.format(middle=f'{count // 2:06}')}&limit=100")
            await _print(title, lambda _, query=query: store.list(api_context(), _BOOK, query))  # type: ignore[misc]
        names = random.Random(1).sample(range(count), _ROUNDS + 1)
        await _print("get", lambda turn: store.by_id(api_context(), _BOOK, f"book-{names[turn]:06}"))
        await _print(
            "update", lambda turn: store.update(api_context(), _BOOK, {"state": "new"}, f"book-{names[turn]:06}")
        )
        await _print(
            "create", lambda turn: store.create(api_context(), _BOOK, _book(count + turn, random.Random(turn)))
        )
        await _print("delete", lambda turn: store.delete(api_context(), _BOOK, f"book-{count + turn:06}"))
        await _watches(database, store)


async def _watches(database: SqlDatabase, store: SqlStore) -> None:
    """Print the time from the begin of a write to its event, in this store and in one of another process."""
    async with SqlStore(database, "books", SqlStoreOptions(poll_interval=0.1)) as other:
        for title, writer in (("update until its event", store), ("update of another store until its event", other)):
            async with aclosing(store.watch(api_context(), _BOOK, ObjectQuery())) as events:
                waiting = asyncio.ensure_future(anext(events))
                await asyncio.sleep(0.5)

                async def change(turn: int, writer: SqlStore = writer) -> None:
                    nonlocal waiting
                    await writer.update(api_context(), _BOOK, {"text": f"change {turn}"}, "book-000001")
                    await waiting
                    waiting = asyncio.ensure_future(anext(events))

                await _print(title, change)
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)


def _query(schema: Schema, text: str) -> ObjectQuery:
    return parse_query(schema, Query(text))


def _book(number: int, chance: random.Random) -> dict[str, str]:
    seconds = chance.randrange(100_000_000)
    return {
        "name": f"book-{number:06}",
        "state": chance.choice(["active", "active", "active", "pending", "error"]),
        "owner": f"owner-{number % 1000}",
        "created": f"{2020 + seconds // 31_536_000}-{seconds % 31_536_000:08}",
        "text": f"{number} " * 40,
    }


def _fill(connection: Connection, count: int) -> None:
    """Insert objects without fields, as a store without filters wrote them."""
    chance = random.Random(1)
    number = connection.scalar(select(collections.c.number))
    for start in range(0, count, _ROWS_OF_AN_INSERT):
        books = [_book(index, chance) for index in range(start, min(start + _ROWS_OF_AN_INSERT, count))]
        rows = [
            {
                "collection": number,
                "id": book["name"].encode(),
                "revision": 0,
                "data": msgspec.json.encode({"id": book["name"], "type": "/v3/schemas/book", **book}),
            }
            for book in books
        ]
        connection.execute(insert(objects), rows)
    connection.execute(update(collections).values(size=count))


async def _print(title: str, request: Callable[[int], Awaitable[object]]) -> None:
    await request(_ROUNDS)
    walls, cpus = [], []
    for turn in range(_ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        await request(turn)
        walls.append((time.perf_counter() - wall) * 1e3)
        cpus.append((time.process_time() - cpu) * 1e3)
    print(f"  {title:42} {statistics.median(walls):7.1f} {statistics.median(cpus):7.1f} {max(walls):7.1f}", flush=True)
