"""Requests with large heads."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from opsdk.http.asgi_types import Receive, Scope, Send
from opsdk.http.server import service as service_module
from opsdk.http.server.service import Service


def _start(service: Service, path: str, query: bytes = b"", cookie: bytes = b"") -> None:
    headers = [(b"cookie", cookie)] if cookie else []
    scope = {"path": path, "raw_path": b"/", "query_string": query, "headers": headers}
    exchange: Any = SimpleNamespace(scope=scope, app=service.app, receive=None, send=None, complete=True)
    service.start(exchange, lambda: None)


async def test_large_heads_begin_one_after_another() -> None:
    """A hundred requests that are slow to read leave turns for others, which begin at once."""
    loop = asyncio.get_running_loop()
    begun: dict[str, list[float]] = {"/large": [], "/small": []}
    start = loop.time()

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        begun[scope["path"]].append(loop.time() - start)

    service = Service(app)
    for size, path in ((20_000, "/large"), (100, "/small")):
        for _ in range(50):
            _start(service, path, cookie=b"a" * size)
            _start(service, path, query=b"a" * size)
    await asyncio.wait(service.tasks)
    assert begun["/small"] == [0.0] * 100
    assert [round(time, 3) for time in sorted(begun["/large"])] == [round(number / 100, 3) for number in range(100)]


async def test_the_loop_rests_as_long_as_a_large_head_kept_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow they are, large heads take half of the loop's time at most."""
    loop, busy, begun = asyncio.get_running_loop(), [0.0], list[float]()
    monkeypatch.setattr(service_module, "monotonic", lambda: loop.time() + busy[0])

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        begun.append(round(loop.time(), 3))
        busy[0] += 0.05  # a step of 50 ms, without a turn for the loop

    service = Service(app)
    for _ in range(3):
        _start(service, "/large", cookie=b"a" * 20_000)
    await asyncio.wait(service.tasks)
    assert begun == [0.0, 0.05, 0.1]
