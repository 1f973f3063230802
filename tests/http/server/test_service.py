"""Requests with large heads."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import pairwise
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
    while service.tasks:
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


async def test_many_requests_begin_and_leave_a_few_in_each_iteration() -> None:
    """Three hundred clients that send or leave at once let others in between; all are served, in their order."""
    begun: list[int] = []
    iterations: list[int] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        begun.append(scope["number"])

    def observe() -> None:
        iterations.append(len(begun))
        if len(begun) < 300:
            asyncio.get_running_loop().call_soon(observe)

    service = Service(app)
    for number in range(300):
        scope = {"number": number, "path": "/", "raw_path": b"/", "query_string": b"", "headers": []}
        exchange: Any = SimpleNamespace(scope=scope, app=app, receive=None, send=None, complete=True)
        service.start(exchange, lambda: None)
    observe()
    while len(begun) < 300:
        await asyncio.sleep(0)
    assert begun == list(range(300))
    assert max(after - before for before, after in pairwise(iterations)) <= 9

    departed: list[int] = []
    for number in range(300):
        service.leave(partial(departed.append, number))
    counts = [len(departed)]
    while len(departed) < 300:
        await asyncio.sleep(0)
        counts.append(len(departed))
    assert departed == list(range(300))
    assert max(after - before for before, after in pairwise(counts)) <= 8


async def test_draining_begins_all_requests() -> None:
    """A server that stops waits for all requests that have arrived."""
    begun: list[str] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        begun.append(scope["path"])

    service = Service(app)
    for number in range(40):
        _start(service, f"/{number}")
    service.drain()
    await asyncio.wait(service.tasks)
    assert len(begun) == 40


async def test_a_probe_begins_before_the_requests_that_wait() -> None:
    """A kubelet must not restart a server because hundreds of requests came at once."""
    begun: list[str] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        begun.append(scope["path"])

    service = Service(app)
    for path in [*("/api",) * 300, "/healthz", "/api"]:
        _start(service, path)
    while service.tasks:
        await asyncio.wait(service.tasks)
    assert begun.index("/healthz") < 10
    assert len(begun) == 302
