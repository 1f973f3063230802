"""Hostile queries and ids: SQL stores give the results of the memory store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlencode

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from normankit import V3, NormanKit
from postgres import PostgresServer, postgres_server

from opsdk.norman.model import Schema, Store
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import Field, Filter, Modifier
from opsdk.norman.server.server import NormanServer
from opsdk.norman.stores.memory import MemoryStore
from opsdk.norman.stores.sql import SqlStore
from opsdk.norman.stores.sql_database import SqlDatabase

EVERY = Filter(modifiers=tuple(Modifier))
NAMES = [
    "a",
    "b'",
    'c"',
    "d%_",
    "e\\",
    "f;--",
    "g)",
    "h\u00e9\U0001f600",
    "i ",
    "J",
    "' OR 1=1 --",
    "$1",
    ":x",
    "%(x)s",
]
VALUES = ["", "a", "b'", "1", "1.0", "-1", "1e308", "nan", "inf", "null", "true", "\u00e9", "%", "_", "x" * 3000]
HOSTILE = st.one_of(
    st.sampled_from([*NAMES, *VALUES, "'; DROP TABLE norman_objects; --", "a\0b", "%ff", "%ed%a0%80"]),
    st.text(max_size=6),
)
SUFFIXES = ("", "_ne", "_in", "_notin", "_null", "_notnull")
PARAMETERS = st.sampled_from([
    *(f"{name}{suffix}" for name in ("id", "name", "value") for suffix in SUFFIXES),
    "sort", "order", "limit", "marker", "value.x", "value'--", "name_in_in", "namespaceId",
])  # fmt: skip
QUERIES = st.lists(st.tuples(PARAMETERS, HOSTILE), max_size=5)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL server."""
    with ExitStack() as stack:
        yield stack.enter_context(postgres_server())


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/books.db"
    database: PostgresServer = request.getfixturevalue("server")
    return database.new_database()


def kit(store: Store) -> NormanKit:
    """Return a server of books in a store."""
    schemas = SchemaRegistry()
    fields = {"name": Field(type="string"), "value": Field(type="json", nullable=True)}
    schemas.add(
        Schema(
            id="book",
            version=V3,
            resource_methods=("GET", "PUT", "DELETE"),
            collection_methods=("GET", "POST"),
            resource_fields=fields,
            collection_filters=dict.fromkeys(("id", "name", "value"), EVERY),
            store=store,
        )
    )
    return NormanKit(NormanServer(schemas))


@asynccontextmanager
async def shelves(url: str) -> AsyncIterator[tuple[NormanKit, NormanKit]]:
    """The same books in a database and in memory."""
    async with SqlDatabase(url) as database, SqlStore(database, "books") as store:
        both = kit(store), kit(MemoryStore())
        for number, name in enumerate(NAMES):
            values = [
                VALUES[number],
                number,
                None,
                [VALUES[number], "y"],
                {"x": number},
                -1.5e300,
                2**53 + number,
                True,
            ]
            for served in both:
                created = await served.post("/v3/books", {"name": name, "value": values[number % len(values)]})
                assert created.status == 201
        yield both


async def ids(served: NormanKit, query: str) -> tuple[int, list[str]]:
    """Return the status and the ids of a list."""
    response = await served.raw("GET", f"/v3/books?{query}")
    body = msgspec.json.decode(response.body)
    return response.status, [item["id"] for item in body.get("data", ())]


@pytest.mark.realtime
@pytest.mark.slow
async def test_a_hostile_query_selects_what_it_selects_in_memory(url: str) -> None:
    """No value, field, order or marker is SQL; none is an error of the server."""
    async with shelves(url) as (stored, in_memory):

        async def compare(query: str) -> None:
            expected = await ids(in_memory, query)
            assert await ids(stored, query) == expected, query
            assert expected[0] < 500

        queries: list[str] = []

        @settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(QUERIES)
        def collect(pairs: list[tuple[str, str]]) -> None:
            queries.append(
                "&".join(f"{quote(name)}={value if value[:1] == '%' else quote(value)}" for name, value in pairs)
            )

        collect()
        for query in dict.fromkeys(queries):
            await compare(query)
        for length in (1, 1000, 1001, 40_000):
            await compare(urlencode({"name_in": ",".join(map(str, range(length)))}))
        for number in (99, 101):
            await compare("&".join(f"name_ne={each}" for each in range(number)) + "&value_null=1")
        assert len((await stored.get("/v3/books")).data) == len(NAMES)


@pytest.mark.realtime
@pytest.mark.slow
@pytest.mark.parametrize("name", ["a\0b", "x" * 100_000, "../..", "\ud800", "' OR ''='", "a/b", "%00", "\u202e"])
async def test_a_hostile_id_names_one_object_or_none(url: str, name: str) -> None:
    """What can be created can be read and deleted by its id; everything else is an error of the client."""
    async with SqlDatabase(url) as database, SqlStore(database, "books") as store:
        served = kit(store)
        body = b'{"name": "%s"}' % "".join(f"\\u{unit:04x}" for unit in utf16(name)).encode()
        created = await served.raw("POST", "/v3/books", body, {"content-type": "application/json"})
        assert created.status < 500
        # A path has a replacement character where its bytes are not UTF-8.
        path = f"/v3/books/{name}".replace("\ud800", "\ufffd")
        for method in ("GET", "DELETE", "GET"):
            assert (await served.raw(method, path)).status < 500


@pytest.mark.realtime
@pytest.mark.slow
async def test_a_list_with_many_elements_is_refused(url: str) -> None:
    """Each element of a field with filters is a row; a write beyond the limit stores nothing."""
    async with SqlDatabase(url) as database, SqlStore(database, "books") as store:
        served = kit(store)
        assert (await served.post("/v3/books", {"name": "a", "value": list(range(1000))})).status == 201
        many = {"value": list(range(1001))}
        assert (await served.post("/v3/books", {"name": "b", **many})).error == (422, "InvalidFormat", "value")
        assert (await served.call("PUT", "/v3/books/a", many)).error == (422, "InvalidFormat", "value")
        assert [item["id"] for item in (await served.get("/v3/books")).data] == ["a"]
        assert len((await served.get("/v3/books/a")).body["value"]) == 1000


def utf16(text: str) -> list[int]:
    """Return the code units of a text."""
    raw = text.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(raw[place : place + 2], "big") for place in range(0, len(raw), 2)]
