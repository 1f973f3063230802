"""Clients that do not read, over real sockets: what the server holds for them, and what it does when they leave."""

from __future__ import annotations

import asyncio
import re
import socket
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from server_caller import Caller

from envtest.environment import Environment
from opsdk.apimachinery.serializer.yaml_documents import parse_yaml
from opsdk.apiserver.endpoints import list_stream
from opsdk.apiserver.endpoints.handlers import watch
from opsdk.apiserver.endpoints.list_stream import WHOLE_BYTES
from opsdk.apiserver.endpoints.shared_frames import EncodedEvent, SharedFrames
from opsdk.http.server.server import WebServer
from opsdk.http.server.unread import UNREAD
from opsdk.structured_merge.value import JsonObject

pytestmark = pytest.mark.realtime
MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
EVENT = 256 * 1024
HELD = 2 * 64 * 1024
"""What a connection may hold: a full write buffer, and the piece that filled it."""


class CountedFrames(SharedFrames):
    """Counts what is encoded."""

    encoded = 0

    def add(self, tree: JsonObject, form: object, data: bytes) -> EncodedEvent:
        """See `SharedFrames`."""
        self.encoded += 1
        return super().add(tree, form, data)


@pytest.fixture(autouse=True)
def frames(monkeypatch: pytest.MonkeyPatch) -> CountedFrames:
    """The frames of this test."""
    counted = CountedFrames()
    monkeypatch.setattr(watch, "FRAMES", counted)
    monkeypatch.setattr(list_stream, "FRAMES", counted)
    return counted


@asynccontextmanager
async def unread(env: Environment, web: WebServer, path: str, count: int) -> AsyncIterator[None]:
    """Clients that send a request, and never read."""
    request = f"GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {env.config.token}\r\n\r\n".encode()
    clients = [socket.create_connection(("127.0.0.1", web.port)) for _ in range(count)]
    try:
        for client in clients:
            client.sendall(request)
        while len(web.service.tasks) < count:
            await asyncio.sleep(0.01)
        yield
    finally:
        for client in clients:
            client.close()
    while web.service.connections:
        await asyncio.sleep(0.01)


def buffered(web: WebServer) -> list[int]:
    """The bytes in the write buffer of each connection."""
    return [connection._transport.get_write_buffer_size() for connection in web.service.connections]  # type: ignore[attr-defined]


async def write(env: Environment, count: int) -> None:
    """Create large objects."""
    for number in range(count):
        tree = {"metadata": {"name": f"m{number:03}"}, "data": {"a": "x" * EVENT}}
        assert (await Caller(env)("POST", MAPS, tree)).status == 201


@pytest.mark.parametrize("count", [40, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.timeout(60)
async def test_watches_that_are_not_read(frames: CountedFrames, count: int) -> None:
    """Each event is encoded once, a connection holds two pieces, and nothing is encoded for clients that left."""
    async with Environment() as env:
        web = await env.serve(tls=False)
        async with unread(env, web, f"{MAPS}?watch=1&resourceVersion=1", count):
            await write(env, 36)
            await asyncio.sleep(0)
            assert 0 < frames.encoded <= 36
            assert len(buffered(web)) == count
            assert max(buffered(web)) <= HELD
            encoded = frames.encoded
        assert frames.encoded == encoded


async def test_lists_that_are_not_read() -> None:
    """A connection holds two pieces of a large list, not its body."""
    async with Environment() as env:
        web = await env.serve(tls=False)
        await write(env, 36)
        async with unread(env, web, MAPS, 20):
            await asyncio.sleep(0.5)
            assert max(buffered(web)) <= HELD


async def test_a_user_whose_clients_do_not_read_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists and watches count until their clients have read them or left; health checks are served."""
    async with Environment() as env:
        web = await env.serve(tls=False)
        await write(env, 36)
        monkeypatch.setattr(UNREAD, "_limit", EVENT)
        for path in (MAPS, f"{MAPS}?watch=1"):
            async with unread(env, web, path, 1):
                await asyncio.sleep(0.3)
                denied = await Caller(env)("GET", "/api/v1/namespaces/default/pods")
                assert (denied.status, denied.json["reason"]) == (429, "TooManyRequests"), path
                assert denied.json["details"] == {"retryAfterSeconds": 1}
                assert (await Caller(env)("GET", "/healthz")).status == 200
            assert (await Caller(env)("GET", "/api/v1/namespaces/default/pods")).status == 200


@pytest.mark.parametrize("kind", ["configmaps", "widgets"])
@pytest.mark.parametrize("accept", ["application/json", METADATA, TABLE, "application/yaml", "indented"])
async def test_a_large_list_equals_its_pages(kind: str, accept: str) -> None:
    """A list that is streamed has the same items and metadata as a list in small pages, with gzip too."""
    query = "pretty=true" if accept == "indented" else ""
    accept = "application/json" if accept == "indented" else accept
    key = "rows" if accept == TABLE else "items"
    async with Environment() as env:
        call, path = Caller(env), MAPS
        if kind == "widgets":
            path = "/apis/example.com/v1/widgets"
            assert (await call("POST", DEFINITIONS, DEFINITION)).status == 201
        for number in range(WHOLE_BYTES // 8000 + 8):
            tree = {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": f"m{number:03}"}}
            note = {"annotations": {"a": "<" + "\u00fc" * (4000 if number else 12000)}}
            tree["metadata"] |= note  # type: ignore[operator]
            core = {} if kind == "widgets" else {"kind": "ConfigMap", "apiVersion": "v1"}
            assert (await call("POST", path, {**tree, **core})).status == 201
        whole = await call("GET", f"{path}?{query}", accept=accept)
        assert len(whole.raw) > WHOLE_BYTES
        assert (b"\\u003c" in whole.raw) == (accept != "application/yaml")
        assert (b"\n  " in whole.raw) == bool(query or accept == "application/yaml")
        pages, token = [], ""
        while True:
            page = parsed((await call("GET", f"{path}?limit=7&continue={token}&{query}", accept=accept)).raw)
            pages += page[key]
            if not (token := page["metadata"].pop("continue", "")):
                break
        read = parsed(whole.raw)
        assert read[key] == pages
        assert {**read, key: 0} == {**page, key: 0, "metadata": read["metadata"], **columns(read)}
        packed = await call("GET", f"{path}?{query}", accept=accept, accept_encoding="gzip")
        assert parsed(zlib.decompress(packed.raw, 31)) == read


def parsed(raw: bytes) -> JsonObject:
    """Return a list as a tree, without the ages in the last cell of a Table: a second may pass between two requests."""
    tree: JsonObject = parse_yaml(raw).tree
    for row in tree.get("rows") or ():
        assert re.fullmatch(r"\d+[sm].*", row["cells"].pop())
    return tree


def columns(table: JsonObject) -> JsonObject:
    """Return the columns of a Table: later pages have none."""
    return {key: table[key] for key in ("columnDefinitions",) if key in table}


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION: JsonObject = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
