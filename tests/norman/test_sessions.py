"""Limits of subscriptions: the number per user, and the wait for a client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from normankit import V3, api_context

from opsdk.http.server.response import StreamResponse
from opsdk.norman.errors import NormanError
from opsdk.norman.model import Schema
from opsdk.norman.schema_parts import Field
from opsdk.norman.server.subscribe import serve
from opsdk.norman.sessions import MAX_WAITING, SEND_SECONDS, Session, SessionLimit
from opsdk.norman.stores.memory import MemoryStore


def stream(released: list[str] | None = None) -> StreamResponse:
    """Return a response that is never sent."""

    async def chunks() -> AsyncGenerator[bytes, None]:
        yield b""

    return StreamResponse(chunks=chunks(), release=None if released is None else lambda: released.append("released"))


def test_each_user_has_a_limit_of_their_own() -> None:
    """Each user has a limit; a finished response makes room, and one over the limit is released at once."""
    limit, released = SessionLimit(2), list[str]()
    responses = [stream(released), stream()]
    for response in responses:
        limit.count(response, "ada")
    refused: list[str] = []
    with pytest.raises(NormanError) as raised:
        limit.count(stream(refused), "ada")
    assert (raised.value.status, raised.value.code, refused) == (429, "TooManyRequests", ["released"])
    limit.count(stream(), "bob")
    for response in responses:
        assert response.release is not None
        response.release()
    assert released == ["released"]
    assert repr(limit) == "<SessionLimit: 1 open>"
    for _ in range(2):
        limit.count(stream(), "ada")


async def test_a_subscription_ends_when_its_client_reads_nothing() -> None:
    """If a frame cannot be sent for a minute, the subscription ends without a close frame."""
    closed = False

    class Socket:
        async def send(self, text: str) -> None:
            await asyncio.Event().wait()

        async def receive(self) -> None:
            await asyncio.Event().wait()

        async def close(self) -> None:
            nonlocal closed
            closed = True

    schema = Schema(id="book", version=V3, resource_fields={"name": Field(type="string")}, store=MemoryStore())
    socket: Any = Socket()
    running = asyncio.create_task(serve(api_context(), [schema], socket))
    await asyncio.sleep(SEND_SECONDS)
    assert not running.done()
    await asyncio.sleep(10)
    assert (running.done(), closed) == (True, False)


async def test_a_watch_waits_for_a_client_that_does_not_read() -> None:
    """The messages for a client that does not read are bounded, and its session ends after a minute."""
    sent = 0

    async def block(_: object = None) -> None:
        await asyncio.Event().wait()

    async def watch() -> None:
        nonlocal sent
        while True:
            await session.put({"data": "x" * 8000})
            sent += 1

    session = Session(block, ping={"name": "ping"}, ping_seconds=5.0)
    running = asyncio.create_task(session.run(block, watch()))
    await asyncio.sleep(30)
    assert MAX_WAITING < session.waiting <= MAX_WAITING + 9000
    assert sent < 200
    await asyncio.sleep(40)
    assert running.done()
    assert await running is False


async def test_a_client_gets_a_ping_where_nothing_else_was_sent() -> None:
    """An idle connection gets a ping; its end ends the session."""
    sent: list[str] = []
    closing = asyncio.Event()

    async def send(message: str) -> None:
        sent.append(message)

    async def receive() -> None:
        await closing.wait()

    running = asyncio.create_task(Session(send, ping={"name": "ping"}, ping_seconds=5.0).run(receive))
    await asyncio.sleep(11)
    closing.set()
    assert await running is True
    assert sent == ['{"name":"ping"}'] * 2
