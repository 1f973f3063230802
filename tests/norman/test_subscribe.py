"""Subscriptions over real sockets, with another WebSocket implementation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from normankit import V3, NormanKit
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from opsdk.http.server.server import WebServer
from opsdk.norman.access import AllAccess
from opsdk.norman.collections.access_set import VisibleObjects
from opsdk.norman.model import ApiContext, RawResource, Schema
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import Field
from opsdk.norman.server.server import NormanOptions, NormanServer
from opsdk.norman.stores.memory import MemoryStore

pytestmark = pytest.mark.realtime


def secret_format(context: ApiContext, resource: RawResource) -> None:
    """A formatter that leaves a mark."""
    resource.values["formatted"] = True


def schema(schema_id: str, **options: Any) -> Schema:
    """Return a schema with all methods."""
    return Schema(
        id=schema_id,
        version=V3,
        resource_methods=("GET", "PUT", "DELETE"),
        collection_methods=("GET", "POST"),
        resource_fields={"name": Field(type="string"), "text": Field(type="string"), "key": Field(type="password")},
        store=MemoryStore(),
        **options,
    )


_SHOWN = frozenset({"a", "b", "c", *(f"n{number}" for number in range(10_000))})


class NoSecrets(AllAccess):
    """Shows objects of some names, and none named secret."""

    async def visible(self, context: ApiContext, schema: Schema) -> VisibleObjects:
        return VisibleObjects(names={None: _SHOWN})


@asynccontextmanager
async def served(**options: Any) -> AsyncIterator[tuple[NormanKit, str]]:
    """A server of books and films; films cannot be listed."""
    schemas = SchemaRegistry()
    schemas.add(schema("book", formatter=secret_format))
    schemas.add(schema("author"))
    film = schemas.add(schema("film"))
    film.collection_methods = ("POST",)
    server = NormanServer(schemas, access=NoSecrets(), options=NormanOptions(**options))
    async with WebServer(server.app) as web:
        yield NormanKit(server), web.url.replace("http", "ws")


async def frame(socket: ClientConnection) -> dict[str, Any]:
    """Return the next frame that is not a ping."""
    while True:
        message: dict[str, Any] = json.loads(await asyncio.wait_for(socket.recv(), 20))
        if message["name"] != "ping":
            return message


async def test_changes_and_removals_are_seen() -> None:
    """A subscriber sees formatted changes without passwords, and nothing that it may not see."""
    async with served() as (kit, url), connect(f"{url}/v3/subscribe?resourceTypes=book,film") as socket:
        await asyncio.sleep(0.05)
        await kit.post("/v3/books", {"name": "secret", "key": "x"})
        await kit.post("/v3/films", {"name": "hidden"})
        await kit.post("/v3/books", {"name": "a", "text": "1", "key": "x"})
        await kit.call("PUT", "/v3/books/a", {"text": "2"})
        await kit.call("DELETE", "/v3/books/a")
        frames = [await frame(socket) for _ in range(3)]
        names = [(f["name"], f["resourceType"], f["data"]["id"], f["data"]["text"]) for f in frames]
        assert names == [
            ("resource.change", "book", "a", "1"),
            ("resource.change", "book", "a", "2"),
            ("resource.remove", "book", "a", "2"),
        ]
        assert frames[0]["data"]["formatted"]
        assert "key" not in frames[0]["data"]


async def test_a_client_that_comes_again_gets_what_it_missed() -> None:
    """``since`` continues after a revision; if the revision is gone, resync is sent first."""
    async with served() as (kit, url):
        async with connect(f"{url}/v3/subscribe?resourceTypes=book") as socket:
            await asyncio.sleep(0.05)
            await kit.post("/v3/books", {"name": "a"})
            revision = (await frame(socket))["revision"]
        for name in ("b", "c"):
            await kit.post("/v3/books", {"name": name})
        async with connect(f"{url}/v3/subscribe?resourceTypes=book&since={revision}") as socket:
            assert [(await frame(socket))["data"]["id"] for _ in range(2)] == ["b", "c"]
        async with connect(f"{url}/v3/subscribe?resourceTypes=book&since=old-1") as socket:
            assert (await frame(socket))["name"] == "resync"


@pytest.mark.parametrize("types", ["film", "nothing", "book&since=x"])
async def test_a_request_that_is_no_socket_or_names_no_type_is_refused(types: str) -> None:
    """Without a type it is a 404, without a WebSocket a 422."""
    async with served() as (kit, url):
        answer = await kit.get(f"/v3/subscribe?resourceTypes={types}")
        if types.startswith("book"):
            assert answer.error == (422, "InvalidAction", None)
        else:
            assert answer.error == (404, "NotFound", None)
            assert answer.body["message"] == "no resources types matched"
            with pytest.raises(InvalidStatus):
                await connect(f"{url}/v3/subscribe?resourceTypes={types}")


async def test_frames_that_break_the_protocol_end_the_socket_alone() -> None:
    """An invalid frame or a disconnect ends only its own subscription."""
    async with served() as (kit, url), connect(f"{url}/v3/subscribe") as good:
        for raw in (b"\x83\x80\x00\x00\x00\x00", b"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff", b"\x00" * 64):
            bad = await connect(f"{url}/v3/subscribe")
            bad.transport.write(raw)
            with suppress(ConnectionClosed):
                while True:
                    await asyncio.wait_for(bad.recv(), 20)
        await kit.post("/v3/books", {"name": "a"})
        assert (await frame(good))["data"]["id"] == "a"


async def test_a_subscriber_that_does_not_read_is_dropped() -> None:
    """The server keeps a bounded number of events for it, and ends it; the others get everything."""
    async with served() as (kit, url):
        slow = await connect(f"{url}/v3/subscribe?resourceTypes=book", max_queue=1)
        store = kit.server.schemas.schema(V3, "book")
        assert store is not None
        changes = store.store._changes  # type: ignore[union-attr]
        async with asyncio.timeout(20):
            while not changes.subscribers:
                await asyncio.sleep(0.01)
            for number in range(10_000):
                await kit.post("/v3/books", {"name": f"n{number}", "text": "x" * 50_000})
                if not changes.subscribers:
                    break
                await kit.call("DELETE", f"/v3/books/n{number}")
                await asyncio.sleep(0)
        assert changes.subscribers == 0
        assert number >= 50
        slow.transport.abort()


async def test_a_page_of_another_origin_may_not_subscribe() -> None:
    """Browsers send cookies with WebSockets of any page; a trusted proxy may name another host."""
    async with served(trust_forwarded=True) as (_, url):
        host = url.partition("://")[2]
        path = f"{url}/v3/subscribe?resourceTypes=book"
        other_scheme = {"Origin": f"http://{host}", "X-Forwarded-Proto": "https"}
        for headers in ({"Origin": "https://evil.example"}, {"Origin": f"https://evil.example/{host}"}, other_scheme):
            with pytest.raises(InvalidStatus) as raised:
                await connect(path, additional_headers=headers, proxy=None)
            assert raised.value.response.status_code == 403
        proxied = {"Origin": "https://library.example", "X-Forwarded-Host": "library.example"}
        for headers in ({"Origin": f"http://{host}"}, proxied):
            await (await connect(path, additional_headers=headers, proxy=None)).close()


async def test_a_user_has_a_limit_of_open_subscriptions() -> None:
    """A subscription over the limit is a 429; the end of one makes room."""
    async with served(max_subscriptions=1) as (_, url):
        path = f"{url}/v3/subscribe?resourceTypes=book"
        async with connect(path, proxy=None):
            with pytest.raises(InvalidStatus) as refused:
                await connect(path, proxy=None)
            assert refused.value.response.status_code == 429
        async with asyncio.timeout(20):
            while True:
                with suppress(InvalidStatus):
                    await (await connect(path, proxy=None)).close()
                    break
