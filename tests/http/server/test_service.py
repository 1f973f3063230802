"""Requests with large heads."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from opsdk.http.asgi_types import Receive, Scope, Send
from opsdk.http.server.service import Service


async def test_large_heads_begin_one_after_another() -> None:
    """A hundred requests that are slow to read leave turns for others, which begin at once."""
    loop = asyncio.get_running_loop()
    begun: dict[str, list[float]] = {"/large": [], "/small": []}
    start = loop.time()

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        begun[scope["path"]].append(loop.time() - start)

    service = Service(app)
    for size, path in ((20_000, "/large"), (100, "/small")):
        for header in (True, False) * 50:
            scope = {
                "path": path,
                "raw_path": b"/",
                "query_string": b"" if header else b"a" * size,
                "headers": [(b"cookie", b"a" * size)] if header else [],
            }
            exchange: Any = SimpleNamespace(scope=scope, app=app, receive=None, send=None, complete=True)
            service.start(exchange, lambda: None)
    await asyncio.wait(service.tasks)
    assert begun["/small"] == [0.0] * 100
    assert [round(time, 3) for time in sorted(begun["/large"])] == [round(number / 100, 3) for number in range(100)]
