"""Laws of `opsdk.http.client.in_process`, through the transport."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import Any

import pytest

from opsdk.aio.clock import monotonic
from opsdk.errors import ConnectionLostError, DeadlineError, InternalServerError, NotFoundError, UsageError
from opsdk.rest.config import Impersonate, RestConfig
from opsdk.rest.request import RestRequest
from opsdk.rest.response import raise_for_status
from opsdk.rest.transport import Transport
from opsdk.structured_merge.value import JsonObject

GET = RestRequest("GET", "/a", verb="get", resource="things")
POST = RestRequest("POST", "/a", body=b"x")


def _start(status: int = 200, *headers: tuple[bytes, bytes]) -> JsonObject:
    return {"type": "http.response.start", "status": status, "headers": headers}


def _body(data: bytes, *, more: bool = False) -> JsonObject:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def test_the_application_sees_the_request() -> None:
    """Path, query, headers, credentials and body reach the application as from a socket."""
    scope_seen: JsonObject = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope_seen.update(scope, message=await receive())
        await send(_start(201, (b"X-A", b"1"), (b"x-a", b"2")))
        await send(_body(b"made"))

    config = RestConfig(host="https://h/base", app=app, token="t", impersonate=Impersonate(user="jane"))
    async with Transport(config) as transport:
        request = RestRequest("POST", "/a%2Fb", query=[("q", "1 2")], headers={"Accept": "x"}, body=b"{}")
        response = await transport.send(request)
    assert (response.status, response.body, response.headers) == (201, b"made", {"x-a": "1, 2"})
    assert (scope_seen["path"], scope_seen["raw_path"], scope_seen["query_string"]) == (
        "/base/a/b",
        b"/base/a%2Fb",
        b"q=1+2",
    )
    assert scope_seen["message"] == {"type": "http.request", "body": b"{}", "more_body": False}
    headers = dict(scope_seen["headers"])
    assert headers[b"authorization"] == b"Bearer t"
    assert (headers[b"impersonate-user"], headers[b"content-length"], headers[b"accept"]) == (b"jane", b"2", b"x")


async def test_the_application_has_its_own_context() -> None:
    """Context variables of the caller are not the server's."""
    variable = contextvars.ContextVar("variable", default="server")
    variable.set("client")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(_start())
        await send(_body(variable.get().encode()))

    async with Transport(RestConfig(app=app)) as transport:
        assert (await transport.send(GET)).body == b"server"


async def test_a_watch_streams() -> None:
    """Each piece is readable when it is sent, not when the answer is whole."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(_start())
        for number in range(3):
            await send(_body(b"%d" % number, more=True))
            await asyncio.sleep(10)
        await send(_body(b""))

    async with Transport(RestConfig(app=app)) as transport, transport.stream(GET) as stream:
        assert [(monotonic(), piece) async for piece in stream] == [(0, b"0"), (10, b"1"), (20, b"2")]


class _Watcher:
    """Waits for ``http.disconnect``, or forever."""

    def __init__(self, *, listens: bool) -> None:
        self.ended: list[str] = []
        self._listens = listens

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await receive()
            await send(_start())
            await send(_body(b"first", more=True))
            if not self._listens:
                await asyncio.sleep(3600)
            self.ended.append((await receive())["type"])
            await send(_body(b"nobody reads this"))
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise


@pytest.mark.parametrize(("listens", "ended"), [(True, "http.disconnect"), (False, "cancelled")])
async def test_leaving_a_stream_ends_the_application(listens: bool, ended: str) -> None:
    """An application that receives gets the disconnect; another one is cancelled and has ended when the block ends."""
    app = _Watcher(listens=listens)
    async with Transport(RestConfig(app=app)) as transport:
        async with transport.stream(GET) as stream:
            assert await anext(stream) == b"first"
        assert app.ended == [ended]
        assert "0 open" in repr(transport)


async def test_cancelling_at_every_iteration_ends_the_application() -> None:
    """Wherever a call is cancelled, the application is not running any more when the cancellation arrives."""
    running = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal running
        running += 1
        try:
            for _ in range(5):
                await asyncio.sleep(0)
            await send(_start())
            for _ in range(5):
                await asyncio.sleep(0)
                await send(_body(b"x", more=True))
            await send(_body(b""))
        finally:
            running -= 1

    async with Transport(RestConfig(app=app)) as transport:
        for turn in range(100):
            task = asyncio.create_task(transport.send(POST))
            for _ in range(turn):
                await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                assert running == 0
                continue
            assert turn > 10
            return
        pytest.fail("never whole")


async def test_closing_ends_everything() -> None:
    """Closing the transport ends its applications, calls in flight are lost, and none may follow."""
    app = _Watcher(listens=False)
    transport = Transport(RestConfig(app=app))
    task = asyncio.create_task(transport.send(POST))
    await asyncio.sleep(1)
    await transport.aclose()
    await transport.aclose()
    with pytest.raises(ConnectionLostError):
        await task
    assert app.ended == ["cancelled"]
    with pytest.raises(UsageError, match="closed"):
        await transport.send(POST)


async def test_a_failure_before_the_head_is_a_500(caplog: pytest.LogCaptureFixture) -> None:
    """An application that raises, or answers nothing, answers 500 as on a real server, and its traceback is logged."""

    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise LookupError("boom")

    async def silent(scope: Any, receive: Any, send: Any) -> None:
        return

    for app in (broken, silent):
        async with Transport(RestConfig(app=app)) as transport:
            response = await transport.send(GET)
            with pytest.raises(InternalServerError):
                raise_for_status(response, GET)
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [LookupError]
    assert caplog.records[0].levelno == logging.ERROR


async def test_a_failure_in_the_middle_is_a_cut() -> None:
    """An application that fails after the head closes the connection, and its error is the cause."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(_start())
        await send(_body(b"first", more=True))
        raise LookupError("boom")

    async with Transport(RestConfig(app=app)) as transport:
        with pytest.raises(ConnectionLostError) as caught:
            await transport.send(POST)
        assert isinstance(caught.value.__cause__, LookupError)


async def test_a_slow_reader_stops_the_application() -> None:
    """Unread bytes are bounded: the application waits."""
    sent = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send(_start())
        for _ in range(100):
            await send(_body(b"x" * 100_000, more=True))
            sent += 100_000
        await send(_body(b""))

    async with Transport(RestConfig(app=app)) as transport, transport.stream(GET) as stream:
        await asyncio.sleep(1)
        assert sent < 2_000_000
        assert sum([len(piece) async for piece in stream]) == 10_000_000


async def test_error_statuses_and_deadlines() -> None:
    """Errors and deadlines are the same as over sockets."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/slow":
            await asyncio.sleep(3600)
        await send(_start(404))
        await send(_body(b""))

    async with Transport(RestConfig(app=app)) as transport:
        with pytest.raises(NotFoundError):
            async with transport.stream(GET):
                pytest.fail("entered")
        with pytest.raises(DeadlineError):
            await transport.send(RestRequest("GET", "/slow"), timeout=5)
        assert "0 open" in repr(transport)


async def test_the_application_continues_after_a_complete_response() -> None:
    """An ASGI application may work on after its response until the transport closes."""
    steps: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(_start())
        await send(_body(b"x"))
        await asyncio.sleep(5)
        steps.append("worked on")
        await asyncio.sleep(3600)
        steps.append("never")

    async with Transport(RestConfig(app=app)) as transport:
        await transport.send(GET)
        await asyncio.sleep(10)
    assert steps == ["worked on"]
