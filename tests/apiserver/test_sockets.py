"""A whole server over real sockets: clients that disconnect, vanish or do not read, and the stop."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from server_caller import Caller

from envtest.environment import Environment
from opsdk.http.server.server import WebServer

pytestmark = pytest.mark.realtime
MAPS = "/api/v1/namespaces/default/configmaps"


class Line:
    """One connection of the admin's."""

    def __init__(self, env: Environment, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._token = env.config.token

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The bytes of a request."""
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self._token}\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return head.encode() + b"\r\n" + body

    async def head(self) -> bytes:
        """Status line and headers of an answer."""
        return await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 5)

    async def rest(self) -> bytes:
        """Everything until the end."""
        return await asyncio.wait_for(self.reader.read(), 10)

    async def chunk(self) -> bytes:
        """One piece of a stream; empty at its end."""
        size = int(await asyncio.wait_for(self.reader.readline(), 5), 16)
        return (await self.reader.readexactly(size + 2))[:-2]


@asynccontextmanager
async def lines(env: Environment, web: WebServer, *, limit: int = 1 << 16) -> AsyncIterator[Line]:
    """A connection, in TLS where the server wants that."""
    context = None
    if web.url.startswith("https"):
        context = ssl.create_default_context(cadata=env.authority.pair.cert.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", web.port, ssl=context, limit=limit)
    try:
        yield Line(env, reader, writer)
    finally:
        writer.transport.abort()
        with suppress(OSError, ssl.SSLError):
            await writer.wait_closed()


async def settled(web: WebServer) -> bool:
    """Whether nothing is left of what clients did, after a while at most."""
    service = web.service
    for _ in range(200):
        if not service.connections and not service.tasks:
            return True
        await asyncio.sleep(0.01)
    return False


async def test_a_write_cut_at_every_byte_is_done_or_not() -> None:
    """A complete write is executed; a write that was cut at any byte leaves nothing."""
    async with Environment() as env:
        web, call = await env.serve(tls=False), Caller(env)
        async with lines(env, web) as line:
            whole = line.request("POST", MAPS, b'{"metadata":{"name":"name"},"data":{"a":"b"}}')
        for cut in range(0, len(whole), 3):
            async with lines(env, web) as line:
                line.writer.write(whole[:cut])
                await line.writer.drain()
            assert (await call("GET", f"{MAPS}/name")).status == 404, cut
        async with lines(env, web) as line:
            line.writer.write(whole)
            assert b" 201 " in await line.head()
        assert (await call("GET", f"{MAPS}/name")).json["data"] == {"a": "b"}
        assert await settled(web)


async def test_clients_that_vanish_leave_nothing() -> None:
    """Clients that vanish during a watch, a long list or the handshake leave nothing behind."""
    async with Environment() as env:
        web, call = await env.serve(), Caller(env)
        for number in range(20):
            await call("POST", MAPS, {"metadata": {"name": f"m{number}"}, "data": {"a": "x" * 200_000}})
        for path in (f"{MAPS}?watch=1", MAPS, f"{MAPS}?watch=1&resourceVersion=0", "/openapi/v2"):
            async with lines(env, web, limit=1024) as line:
                line.writer.write(line.request("GET", path))
                assert b" 200 " in await line.head()
        _, silent = await asyncio.open_connection("127.0.0.1", web.port)
        silent.transport.abort()
        assert await settled(web)


async def test_a_slow_watcher_delays_no_other() -> None:
    """A watcher that does not read delays neither writes nor other watchers."""
    async with Environment() as env:
        web, call = await env.serve(), Caller(env)
        async with lines(env, web, limit=1024) as sleeper, lines(env, web, limit=1 << 22) as reader:
            sleeper.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for line in (sleeper, reader):
                line.writer.write(line.request("GET", f"{MAPS}?watch=1&resourceVersion=1"))
            assert b" 200 " in await reader.head()
            for number in range(60):
                response = await call("POST", MAPS, {"metadata": {"name": f"m{number}"}, "data": {"a": "x" * 200_000}})
                assert response.status == 201
                event = json.loads(await reader.chunk())
                assert event["object"]["metadata"]["name"] == f"m{number}"
            assert env.plane.storage.current_rv >= 60
        assert await settled(web)


async def test_bad_requests_do_not_harm_their_neighbours() -> None:
    """After each bad request, another connection still gets a response."""
    async with Environment() as env:
        web = await env.serve(tls=False)
        for bad in (
            b"\x00\xff",
            b"GET",
            b"GET / HTTP/1.1\r\n\r\n",
            b"POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
        ):
            async with lines(env, web) as first, lines(env, web) as second:
                first.writer.write(bad)
                second.writer.write(second.request("GET", "/version"))
                assert b" 200 " in await second.head()
        assert await settled(web)


async def test_pipelined_writes_happen_in_order() -> None:
    """Each pipelined write sees the result of the previous one."""
    async with Environment() as env:
        web = await env.serve(tls=False)
        async with lines(env, web, limit=1 << 22) as line:
            message = line.request("POST", MAPS, b'{"metadata":{"name":"a"}}')
            for number in range(50):
                body = b'{"metadata":{"name":"a"},"data":{"n":"%d"}}' % number
                message += line.request("PUT", f"{MAPS}/a", body)
            message += line.request("DELETE", f"{MAPS}/a") + line.request("GET", f"{MAPS}/a")
            line.writer.write(message)
            codes = []
            for _ in range(53):
                head = await line.head()
                codes.append(int(head.split(b" ", 2)[1]))
                length = next(h for h in head.split(b"\r\n") if h.startswith(b"content-length: "))
                await line.reader.readexactly(int(length.rpartition(b" ")[2]))
            assert codes == [201, *([200] * 51), 404]


async def test_a_server_that_stops_says_so_first() -> None:
    """At the stop, readiness fails first, then watches end cleanly and new connections are rejected."""
    async with Environment() as env:
        web = await env.serve()
        port = web.port
        async with lines(env, web) as asking, lines(env, web) as watching:
            watching.writer.write(watching.request("GET", f"{MAPS}?watch=1"))
            assert b" 200 " in await watching.head()
            asking.writer.write(asking.request("GET", "/readyz"))
            assert b" 200 " in await asking.head()
            await asking.reader.readexactly(2)
            stopping = asyncio.ensure_future(env.aclose())
            await asyncio.sleep(0)
            assert env.server.well_known.stopping
            assert (await watching.rest()).endswith(b"0\r\n\r\n")
            await asyncio.wait_for(stopping, 10)
            with pytest.raises(OSError, match=r"refused|Connect call failed"):
                await asyncio.open_connection("127.0.0.1", port)


async def test_bodies_over_the_limit_are_refused_while_they_come() -> None:
    """A too large body gets a Status while it arrives, with or without declared length."""
    async with Environment() as env:
        web = await env.serve()
        for has_length in (True, False):
            async with lines(env, web) as line:
                head = line.request("POST", MAPS).removesuffix(b"\r\n") + b"Content-Type: application/json\r\n"
                size = 4 << 20
                head += b"Content-Length: %d\r\n\r\n" % size if has_length else b"Transfer-Encoding: chunked\r\n\r\n"
                line.writer.write(head)
                piece = b" " * 65536

                async def say(line: Line = line, piece: bytes = piece, *, told: bool = has_length) -> None:
                    with suppress(OSError, ssl.SSLError):
                        for _ in range(64):
                            line.writer.write(piece if told else b"10000\r\n" + piece + b"\r\n")
                            await line.writer.drain()

                saying = asyncio.ensure_future(say())
                answer = await line.head()
                assert b" 413 " in answer
                assert b"connection: close" in answer
                body = await line.rest()
                assert json.loads(body)["message"] == "Request entity too large: limit is 3145728"
                saying.cancel()
        assert await settled(web)
