"""The client against a real server, over sockets."""

from __future__ import annotations

import asyncio
import importlib
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from normankit import V3

from opsdk.api.authentication.v1 import UserInfo
from opsdk.errors import CodecError, ConnectError, UsageError
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.server import ServeOptions, WebServer
from opsdk.norman.client.client import NormanClient, expect_result
from opsdk.norman.client.stubs import typed_client
from opsdk.norman.errors import NormanError
from opsdk.norman.model import ApiContext, RawResource, RequestResult, Schema
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import Action, Field, Filter
from opsdk.norman.server.server import NormanOptions, NormanServer
from opsdk.norman.stores.memory import MemoryStore
from opsdk.norman.tokens import token_of
from opsdk.rest.config import RestConfig

pytestmark = pytest.mark.realtime


async def authenticate(request: HttpRequest) -> UserInfo | None:
    """The token ``good`` is Ada's."""
    return UserInfo(username="ada") if token_of(request) == "good" else None


def make_server() -> NormanServer:
    """Books that are lent, and films that nobody may list."""

    def format_book(context: ApiContext, resource: RawResource) -> None:
        if resource.values.get("lent"):
            resource.actions.clear()

    async def act(context: ApiContext, name: str, body: dict[str, Any]) -> RequestResult:
        assert context.schema is not None
        assert context.schema.store is not None
        if name == "close":
            return None
        await context.schema.store.update(context, context.schema, {"lent": True}, context.id)
        return {"days": body["days"]}

    schemas = SchemaRegistry()
    schemas.add(Schema(id="loan", version=V3, resource_fields={"days": Field(type="int", required=True)}))
    schemas.add(
        Schema(
            id="book",
            version=V3,
            resource_methods=("GET", "PUT", "DELETE"),
            collection_methods=("GET", "POST"),
            resource_fields={
                "name": Field(type="string", required=True, update=False),
                "pages": Field(type="int", nullable=True, min=1),
                "title": Field(type="string", nullable=True),
                "lent": Field(type="boolean", default=False),
            },
            collection_filters={"name": Filter(), "pages": Filter()},
            resource_actions={"lend": Action(input="loan", output="loan")},
            collection_actions={"close": Action(), "open": Action(input="loan", output="loan")},
            action_handler=act,
            formatter=format_book,
            store=MemoryStore(),
        )
    )
    return NormanServer(schemas, options=NormanOptions(authenticate=authenticate))


@asynccontextmanager
async def connected() -> AsyncIterator[NormanClient]:
    """A client of a served API."""
    async with (
        WebServer(make_server().app) as web,
        NormanClient(RestConfig(host=web.url, token="good"), "/v3") as client,
    ):
        yield client


async def test_every_verb() -> None:
    """Types are discovered; objects are created, read, changed, acted on and deleted through their links."""
    async with connected() as client:
        assert set(client.schemas) == {"book", "loan"}
        book = await client.create("book", {"name": "dune", "pages": 412, "title": "Dune"})
        assert (await client.by_id("book", "dune"))["pages"] == 412
        book = await client.update(book, {"pages": 500})
        assert (await client.reload(book))["pages"] == 500
        assert await client.action(book, "lend", {"days": 7}) is not None
        book = await client.reload(book)
        with pytest.raises(UsageError, match="does not offer the action 'lend'"):
            await client.action(book, "lend", {"days": 7})
        assert await client.delete(book) is None
        with pytest.raises(NormanError) as raised:
            await client.reload(book)
        assert (raised.value.status, raised.value.code) == (404, "NotFound")


async def test_the_actions_of_a_generated_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Actions of objects and collections are methods; a missing result is an error."""
    async with connected() as client:
        code = typed_client(client.schemas.values(), class_name="Library", source="the library")
    (tmp_path / "generated_library.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    generated = importlib.import_module("generated_library")
    async with (
        WebServer(make_server().app) as web,
        generated.Library(RestConfig(host=web.url, token="good"), "/v3") as library,
    ):
        book = await library.books.create({"name": "dune"})
        assert (await library.books.lend(book, {"days": 7}))["days"] == 7
        assert await library.books.close() is None
        with pytest.raises(NormanError, match="MissingRequired"):
            await library.books.open({})
        with pytest.raises(UsageError, match="no action 'burn' for this client; it has: close, open"):
            await library.books.collection_action("burn")
    with pytest.raises(CodecError, match="'lend' returned nothing"):
        expect_result("lend", None)


async def test_lists_go_over_all_pages() -> None:
    """A list has filters and sort as parameters, and yields each object of all pages once."""
    async with connected() as client:
        books = client.collection("book")
        for number in range(25):
            await books.create({"name": f"b{number:02}", "pages": number + 1})
        names = [book["name"] async for book in books.list({"limit": 4, "sort": "pages", "order": "desc"})]
        assert names == [f"b{number:02}" for number in reversed(range(25))]
        chosen = [book["name"] async for book in client.list("book", {"name_in": ["b01", "b02", "zzz"]})]
        assert chosen == ["b01", "b02"]


async def test_errors_say_what_is_wrong() -> None:
    """A rejected body has code and field; an unknown type names the existing ones; a wrong token is a 401."""
    async with WebServer(make_server().app) as web:
        async with NormanClient(RestConfig(host=web.url, token="good"), "/v3") as client:
            with pytest.raises(NormanError) as raised:
                await client.create("book", {"name": "a", "pages": 0})
            assert (raised.value.code, raised.value.field_name) == ("MinLimitExceeded", "pages")
            with pytest.raises(UsageError, match="no type 'film' for this client; it has: book, loan"):
                client.collection("film")
            with pytest.raises(UsageError, match="has no link 'pages'"):
                await client.link(await client.create("book", {"name": "a"}), "pages")
        with pytest.raises(NormanError, match="must authenticate"):
            async with NormanClient(RestConfig(host=web.url, token="bad"), "/v3"):
                pass
        with pytest.raises(NormanError, match="no API version is served"):
            async with NormanClient(RestConfig(host=web.url, token="good"), "/v9"):
                pass
    with pytest.raises(ConnectError):
        async with NormanClient(RestConfig(host=web.url, token="good"), "/v3"):
            pass


async def test_links_never_leave_the_host() -> None:
    """A link to another host is followed on the configured one, so that the token stays there."""
    async with connected() as client:
        book = await client.create("book", {"name": "a"})
        book["links"] = {"self": "http://evil.example:1/v3/books/a"}
        assert (await client.reload(book))["id"] == "a"


async def test_a_subscription_survives_a_server_that_restarts() -> None:
    """A subscription continues after a broken connection; if events were lost, the client gets resync."""
    first = WebServer(make_server().app)
    await first.start()
    config = RestConfig(host=first.url, token="good")
    async with NormanClient(config, "/v3") as client:
        names = (f"n{number}" for number in itertools.count())

        async def create_until(done: asyncio.Future[Any]) -> None:
            async with asyncio.timeout(30):
                while not done.done():
                    await client.create("book", {"name": next(names)})
                    await asyncio.wait([done], timeout=0.1)

        events = client.subscribe("book")
        reading = asyncio.ensure_future(anext(events))
        await create_until(reading)
        assert reading.result().name == "resource.change"
        await first.aclose()
        async with WebServer(make_server().app, ServeOptions(port=first.port)):
            received = []
            async with asyncio.timeout(30):
                while "resync" not in received:
                    received.append((await anext(events)).name)
            reading = asyncio.ensure_future(anext(events))
            await create_until(reading)
            assert reading.result().name == "resource.change"
        await events.aclose()
