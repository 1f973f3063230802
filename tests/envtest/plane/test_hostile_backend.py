"""A hostile aggregated server: each response is bounded, ends with an error, and affects no other request."""

from __future__ import annotations

import asyncio
import json
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from http_servers import listening, port_of
from server_caller import MERGE, Caller

from envtest.environment import Environment
from opsdk.http.server.unread import UNREAD
from tests.envtest.aggregated_server import APISERVICES, GROUP, RESOURCES, ROOT, api_service, until

pytestmark = pytest.mark.realtime
THING = f"{ROOT}/namespaces/a/things"
PIECE = b"x" * 65536
_MOST_UNREAD = 16 << 20
"""Bytes of a response that sockets and buffers of both connections may hold for a client that does not read."""
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class HostileBackend:
    """A TLS server with a script for each thing; its discovery documents are valid unless `pages` has others.

    Attributes:
        sent: the bytes of the current endless response that the socket took.
        received: the bytes of the current request body.
        pages: discovery responses by path.
    """

    def __init__(self) -> None:
        self.sent = 0
        self.received = 0
        self.pages: dict[str, bytes] = {ROOT: json.dumps(RESOURCES).encode()}
        self.reading = asyncio.Event()
        self.reading.set()
        self.closed = asyncio.Event()
        self.heads: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve the requests of one connection."""
        with suppress(OSError, asyncio.IncompleteReadError):
            try:
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    self.heads.append(head)
                    path = head.split()[1].decode()
                    if path.startswith(THING):
                        await getattr(self, path.removeprefix(THING).strip("/").replace("-", "_"))(reader, writer)
                        break
                    body = self.pages.get(path, b"{}")
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                    await writer.drain()
            finally:
                self.closed.set()
                writer.transport.abort()

    async def _endless(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, begin: bytes, piece: bytes
    ) -> None:
        self.sent = 0
        writer.write(begin)
        # Over TLS, a write after the peer's reset does not raise.
        while not reader.at_eof() and reader.exception() is None and not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            self.sent += len(piece)
            await asyncio.sleep(0)

    async def endless_body(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send a body without an end."""
        chunk = b"%x\r\n%b\r\n" % (len(PIECE), PIECE)
        await self._endless(reader, writer, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk)

    async def gzip_bomb(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send a small body that inflates to 1 GiB."""
        compressor = zlib.compressobj(wbits=31)
        body = b"".join(compressor.compress(bytes(1 << 20)) for _ in range(1024)) + compressor.flush()
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
        writer.write(head + body)
        await writer.drain()
        self.sent = len(body)
        await reader.read()

    async def huge_head(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send headers without an end."""
        await self._endless(reader, writer, b"HTTP/1.1 200 OK\r\n", b"X-Header: value\r\n" * 4000)

    async def interim_responses(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send 1xx responses without an end."""
        await self._endless(reader, writer, b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")

    async def unrequested_upgrade(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Switch to a protocol that the client did not request."""
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: evil\r\n\r\nGET / HTTP/1.1")
        await writer.drain()
        await reader.read()

    async def two_lengths(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send two lengths that differ."""
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")
        await writer.drain()
        await reader.read()

    async def no_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send bytes that are not HTTP."""
        await self._endless(reader, writer, b"", b"\x00\xff" * 1000)

    async def second_response(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send a response after the response."""
        response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
        writer.write(response + response)
        await writer.drain()
        await reader.read()

    async def slow_body(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send a part of a body and stay silent."""
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nab")
        await writer.drain()
        self.sent = 2
        await reader.read()

    async def upload(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read the request body when `reading` is set, and respond with its size."""
        self.received = 0
        await self.reading.wait()
        head = self.heads[-1].lower()
        if b"transfer-encoding: chunked" in head:
            while size := int(await reader.readline(), 16):
                self.received += len((await reader.readexactly(size + 2))[:-2])
            await reader.readline()
        else:
            length = int(head.partition(b"content-length:")[2].split()[0])
            while self.received < length:
                self.received += len(await reader.read(65536))
        body = json.dumps({"size": self.received}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()

    async def early_refusal(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Refuse a request before its body has arrived."""
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
        await writer.drain()
        await reader.read()


class World:
    """A served API server whose group is served by a `HostileBackend`."""

    def __init__(self, env: Environment, backend: HostileBackend, port: int) -> None:
        self.env, self.backend, self._port = env, backend, port
        self.token = env.config.token

    async def open(self, method: str, path: str, *headers: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Send a request's head."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        head = [f"{method} {path} HTTP/1.1", "Host: a", f"Authorization: Bearer {self.token}", *headers, "", ""]
        writer.write("\r\n".join(head).encode())
        await writer.drain()
        return reader, writer

    async def get(self, path: str, *headers: str) -> bytes:
        """Return the whole response to a GET, until the server closes the connection."""
        reader, writer = await self.open("GET", path, "Connection: close", *headers)
        try:
            return await asyncio.wait_for(reader.read(), 30)
        finally:
            writer.close()

    async def assert_healthy(self) -> None:
        """Other requests are served."""
        assert (await self.get("/healthz")).startswith(b"HTTP/1.1 200 ")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """Everything, with an available APIService."""
    backend = HostileBackend()
    async with Environment() as env:
        cert, key = env.authority.serving("server.far.svc").write(tmp_path, "tls")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        async with listening(backend.serve, tls=context) as server:
            await env.expose("far/server", port=port_of(server))
            call = Caller(env)
            assert (await call("POST", APISERVICES, api_service())).status == 201
            await until(env, call, "Passed")
            web = await env.serve(tls=False)
            yield World(env, backend, web.port)


@pytest.mark.parametrize("attack", ["huge-head", "interim-responses", "unrequested-upgrade", "two-lengths", "no-http"])
async def test_an_invalid_head_is_a_503(world: World, attack: str) -> None:
    """The connection to the backend is closed, and other requests are served."""
    world.backend.closed.clear()
    response = await world.get(f"{THING}/{attack}")
    assert response.startswith(b"HTTP/1.1 503 "), response[:200]
    assert b"error trying to reach service" in response
    await asyncio.wait_for(world.backend.closed.wait(), 10)
    assert world.backend.sent <= _MOST_UNREAD
    await world.assert_healthy()


async def test_a_second_response_is_not_passed_on(world: World) -> None:
    """Only the first response reaches the client."""
    response = await world.get(f"{THING}/second-response")
    assert response.count(b"HTTP/1.1") == 1
    await world.assert_healthy()


async def test_an_endless_body_waits_for_its_client(world: World) -> None:
    """The server reads from the backend only what the client takes, and closes when the client leaves."""
    world.backend.closed.clear()
    _, writer = await world.open("GET", f"{THING}/endless-body")
    while not world.backend.sent:
        await asyncio.sleep(0)
    sent = -1
    while sent != world.backend.sent:
        sent = world.backend.sent
        for _ in range(3):
            await world.assert_healthy()
    assert sent <= _MOST_UNREAD
    assert 0 < UNREAD.held["admin"] <= 1024 * 1024, "one piece counts for the user"
    writer.transport.abort()
    await asyncio.wait_for(world.backend.closed.wait(), 10)
    while UNREAD.held:
        await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_compressed_bodies_are_not_inflated(world: World) -> None:
    """A gigabyte of zeros passes as the megabyte that the backend sent."""
    reader, writer = await world.open("GET", f"{THING}/gzip-bomb", "Accept-Encoding: gzip")
    head = await reader.readuntil(b"\r\n\r\n")
    assert b"content-encoding: gzip" in head
    size = 0
    while (line := await reader.readline()).strip() != b"0":
        size += len(await reader.readexactly(int(line, 16) + 2)) - 2
    assert size == world.backend.sent < 2 << 20
    writer.close()
    await world.assert_healthy()


async def test_a_slow_body_holds_only_its_own_request(world: World) -> None:
    """The client may leave at any time; then the backend's connection is closed."""
    world.backend.closed.clear()
    reader, writer = await world.open("GET", f"{THING}/slow-body")
    assert b"ab" in await reader.readuntil(b"ab")
    await world.assert_healthy()
    writer.transport.abort()
    await asyncio.wait_for(world.backend.closed.wait(), 10)


# ------------------------------------------------------------------ requests
@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_request_bodies_are_streamed(world: World, framing: str) -> None:
    """A client sends no more than the backend reads, and a body of any size arrives."""
    size = 64 << 20
    world.backend.reading.clear()
    header = f"Content-Length: {size}" if framing == "length" else "Transfer-Encoding: chunked"
    reader, writer = await world.open("POST", f"{THING}/upload", header, "Connection: close")
    piece = PIECE if framing == "length" else b"%x\r\n%b\r\n" % (len(PIECE), PIECE)
    taken = 0

    async def upload() -> None:
        nonlocal taken
        for _ in range(size // len(PIECE)):
            writer.write(piece)
            await writer.drain()
            taken += len(PIECE)
        writer.write(b"" if framing == "length" else b"0\r\n\r\n")

    uploading = asyncio.ensure_future(upload())
    while not taken:
        await asyncio.sleep(0)
    before = -1
    while before != taken:
        before = taken
        for _ in range(3):
            await world.assert_healthy()
    assert taken <= _MOST_UNREAD
    world.backend.reading.set()
    await uploading
    assert json.dumps({"size": size}).encode() in await asyncio.wait_for(reader.read(), 60)
    writer.close()


async def test_a_response_before_the_end_of_the_request_is_passed_on(world: World) -> None:
    """A response such as 403 or 413 before the end of the request reaches the client."""
    reader, writer = await world.open("POST", f"{THING}/early-refusal", f"Content-Length: {64 << 20}")
    writer.write(PIECE)
    assert (await asyncio.wait_for(reader.readuntil(b"no"), 10)).startswith(b"HTTP/1.1 403 ")
    writer.close()


@pytest.mark.parametrize("framing", [f"Content-Length: {64 << 20}", "Transfer-Encoding: chunked"])
async def test_a_client_that_leaves_ends_its_upload(world: World, framing: str) -> None:
    """The backend's connection is closed; the APIService stays available."""
    world.backend.closed.clear()
    _, writer = await world.open("POST", f"{THING}/upload", framing)
    writer.write(b"10\r\n" if "chunked" in framing else PIECE)
    while not any(b"/upload" in head for head in world.backend.heads):
        await asyncio.sleep(0)
    writer.transport.abort()
    await asyncio.wait_for(world.backend.closed.wait(), 10)
    await world.assert_healthy()


# ------------------------------------------------------------------ discovery
_PAGES = {
    "a list": b"[]",
    "a number": b"5",
    "no list of items": b'{"resources":5,"items":5,"paths":5,"definitions":5}',
    "numbers for items": b'{"resources":[5],"items":[5],"paths":{"%b":5},"definitions":{"a":5}}' % ROOT[1:].encode(),
    "other types": b'{"resources":[{"name":[],"verbs":5,"kind":{}}],"items":[{"metadata":5}],"paths":{"%b":{"a":5}}}'
    % ROOT.encode(),
    "versions of other types": b'{"items":[{"metadata":{"name":"far.example.com"},"versions":[{"version":"v1",'
    b'"resources":[5]}, 5]}]}',
    "resources of other types": b'{"items":[{"metadata":{"name":"far.example.com"},"versions":[{"version":"v1",'
    b'"resources":5}]}]}',
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"paths":{"%b/x":' % ROOT.encode() + b'{"a":' * 900 + b"5" + b"}" * 902,
    "large": b'"' + b"x" * (40 << 20) + b'"',
}


@pytest.mark.parametrize("page", _PAGES.values(), ids=_PAGES)
async def test_invalid_discovery_documents_disturb_no_other_group(world: World, page: bytes) -> None:
    """Discovery of all groups is served, and the APIService recovers."""
    call, backend = Caller(world.env), world.backend
    valid = dict(backend.pages)
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

    async def check_again(text: str) -> None:
        """A change of the Service causes a check."""
        backend.heads.clear()
        patch = {"metadata": {"annotations": {"check": text}}}
        answer = await call("PATCH", "/api/v1/namespaces/far/services/server", patch, content_type=MERGE)
        assert answer.status == 200
        while not backend.heads:
            await asyncio.sleep(0)

    async def discovered() -> dict[str, list[str]]:
        await asyncio.sleep(0)  # calls in this process do not wait for sockets
        answer = await call("GET", "/apis", accept=aggregated)
        assert answer.status == 200
        groups = {group["metadata"]["name"]: group for group in answer.json["items"]}
        assert "apps" in groups
        resources = groups[GROUP]["versions"][0].get("resources") or []
        assert all(isinstance(resource["verbs"], list) for resource in resources)
        return {GROUP: [resource["resource"] for resource in resources]}

    for path in (ROOT, "/apis", "/openapi/v3", "/openapi/v2"):
        backend.pages[path] = page
        await check_again(f"{path} is invalid")
        while path != ROOT and not any(b"/openapi/v2" in head for head in backend.heads):
            await discovered()
        for _ in range(5):
            await discovered()
        if path == "/openapi/v2":
            assert (await call("GET", path)).status == 200
        backend.pages = dict(valid)
        await check_again(f"{path} is valid")

        def check(groups: dict[str, list[str]]) -> None:
            assert groups == {GROUP: ["things"]}

        await world.env.eventually(discovered, check, within=60)
