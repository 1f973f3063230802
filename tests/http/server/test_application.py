"""Requests, answers, serving."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from opsdk.errors import TooLargeError
from opsdk.http.body_stream import BodyStream
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest, Query
from opsdk.http.server.response import HttpResponse, StreamResponse, text_response
from opsdk.http.server.server import ServeOptions, WebServer


def request(*parts: bytes, headers: dict[str, str] | None = None) -> HttpRequest:
    """A request whose body comes in parts."""
    messages = [{"type": "http.request", "body": p, "more_body": i < len(parts) - 1} for i, p in enumerate(parts)]

    async def receive() -> Any:
        return messages.pop(0)

    return HttpRequest(method="POST", path="/", query=Query(), headers=headers or {}, receive=receive)


def test_the_first_of_several_values_counts() -> None:
    """A query parameter that is there twice has its first value."""
    query = Query("a=1&a=2&b=")
    assert (query.get("a"), query.all("a"), query.get("b", "x"), query.get("c", "x")) == ("1", ["1", "2"], "", "x")


async def test_a_body_is_read_once_and_kept() -> None:
    """The parts are joined; asking twice gives the same bytes."""
    result = request(b"ab", b"cd")
    assert (await result.body(10), await result.body(10)) == (b"abcd", b"abcd")


@pytest.mark.parametrize("headers", [{}, {"content-length": "11"}])
async def test_a_body_too_large_is_refused(headers: dict[str, str]) -> None:
    """A body is rejected by its declared length, or as soon as it is too long."""
    with pytest.raises(TooLargeError):
        await request(b"abcdef", b"ghijk", headers=headers).body(10)


@pytest.mark.parametrize(
    ("method", "headers", "length"),
    [
        ("POST", {"content-length": "70000"}, 70_000),
        ("PUT", {"transfer-encoding": "chunked"}, None),
        ("DELETE", {"transfer-encoding": "chunked", "content-length": "4"}, None),
        ("PATCH", {}, None),  # HTTP/2 needs neither header
    ],
)
async def test_a_long_body_is_forwarded_as_it_arrives(method: str, headers: dict[str, str], length: int | None) -> None:
    """A body whose length is unknown may be long."""
    forwarded = await dataclasses.replace(request(b"ab", b"cd", headers=headers), method=method).body_to_forward()
    assert isinstance(forwarded, BodyStream)
    assert (forwarded.length, forwarded.started) == (length, False)


@pytest.mark.parametrize(
    ("method", "headers"), [("POST", {"content-length": "4"}), ("GET", {}), ("DELETE", {"content-length": "4"})]
)
async def test_a_short_body_is_forwarded_whole(method: str, headers: dict[str, str]) -> None:
    """A short body is forwarded in one piece, so that it can be sent again on another connection."""
    forwarded = await dataclasses.replace(request(b"ab", b"cd", headers=headers), method=method).body_to_forward()
    assert forwarded == b"abcd"


async def test_a_stream_ends_when_the_client_disconnects() -> None:
    """The generator is closed, so that it releases its resources."""
    closed = asyncio.Event()

    async def endless() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"x"
                await asyncio.sleep(1)
        finally:
            closed.set()

    async def handler(_: HttpRequest) -> HttpResponse:
        return StreamResponse(chunks=endless())

    sent: list[bytes] = []

    async def receive() -> Any:
        await asyncio.sleep(4.5)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    await asgi(handler)({"type": "http", "method": "GET", "path": "/"}, receive, send)
    assert closed.is_set()
    assert b"".join(sent) == b"xxxxx"


@pytest.mark.realtime
async def test_stopping_ends_open_streams() -> None:
    """A stream that never ends by itself does not keep the server from stopping."""

    async def endless() -> AsyncGenerator[bytes, None]:
        while True:
            yield b"x"
            await asyncio.sleep(0.01)

    async def handler(found: HttpRequest) -> HttpResponse:
        return StreamResponse(chunks=endless()) if found.path == "/stream" else text_response("ok")

    server = WebServer(asgi(handler), ServeOptions(shutdown_timeout=0.1))
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"200" in await reader.readline()
    await asyncio.wait_for(server.aclose(), 2)
    await asyncio.wait_for(reader.read(), 1)
    writer.close()
    await writer.wait_closed()
    await server.aclose()


@pytest.mark.realtime
async def test_small_responses_are_sent_without_delay() -> None:
    """Small responses on one connection do not wait for the client's acknowledgements."""

    async def handler(_: HttpRequest) -> HttpResponse:
        return text_response("ok")

    async with WebServer(asgi(handler)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        began = asyncio.get_running_loop().time()
        for _ in range(20):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"ok")
        # Twenty waits of 40 ms would be 800.
        assert asyncio.get_running_loop().time() - began < 0.5
        writer.close()
        await writer.wait_closed()


async def test_a_stream_is_released_however_often_its_task_is_cancelled() -> None:
    """A server that stops cancels a task that is ending already."""
    released = []

    async def chunks() -> AsyncGenerator[bytes, None]:
        try:
            yield b"a"
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)

    async def handler(_: HttpRequest) -> HttpResponse:
        return StreamResponse(200, [], chunks=chunks(), release=lambda: released.append(True))

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(_: Any) -> None:
        """Send nothing."""

    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
    serving = asyncio.ensure_future(asgi(handler)(scope, receive, send))
    await asyncio.sleep(1)
    for _ in range(2):
        serving.cancel()
        await asyncio.sleep(0.1)
    await asyncio.gather(serving, return_exceptions=True)
    assert released == [True]
