"""TLS and plain connections between opsdk's own client and server in one process.

``python -m benchmarks.runtime tls [CONNECTIONS]`` prints for each: calls of functions and CPU time of one small PUT,
both sides together, and the resident memory of an idle connection, both ends together.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from types import FrameType

from opsdk.http.client.connection import ClientConnection, connect
from opsdk.http.client.pool import ConnectionPool
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, text_response
from opsdk.http.server.server import ServeOptions, WebServer
from opsdk.http.server.serving_certificate import self_signed_context

_REQUEST, _RESPONSE = b"x" * 500, "y" * 800
_COUNTED = 200
# The fastest batch is the one that other processes disturbed least.
_BATCHES, _BATCH = 40, 75


async def _handler(request: HttpRequest) -> HttpResponse:
    await request.body(1 << 20)
    return text_response(_RESPONSE)


def _resident() -> int:
    """Resident memory in KiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


class _Client:
    """Requests to one server, one after another."""

    def __init__(self, port: int, context: ssl.SSLContext | None) -> None:
        self._port, self._context = port, context
        self.pool = ConnectionPool(self.dial)

    async def dial(self) -> ClientConnection:
        """Return a new connection."""
        return await connect("127.0.0.1", self._port, self._context, "", lambda: ClientConnection("server"))

    async def put(self, count: int) -> None:
        """Send so many requests."""
        for _ in range(count):
            exchange = await self.pool.exchange("PUT", "/a", [("Host", "a")], _REQUEST)
            while await exchange.read():
                pass
            await exchange.aclose()


async def _calls(client: _Client) -> tuple[float, float]:
    """Return the calls of Python and of C functions for a request."""
    counts = {"call": 0, "c_call": 0}

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        if event in counts:
            counts[event] += 1

    sys.setprofile(profile)
    await client.put(_COUNTED)
    sys.setprofile(None)
    return counts["call"] / _COUNTED, counts["c_call"] / _COUNTED


async def _microseconds(client: _Client) -> float:
    times = []
    for _ in range(_BATCHES):
        began = time.process_time()
        await client.put(_BATCH)
        times.append((time.process_time() - began) / _BATCH)
    return min(times) * 1e6


async def _memory(client: _Client, connections: int) -> float:
    """Return KiB for an idle connection, after one request each."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(client.pool.aclose)
        before = _resident()
        await asyncio.gather(*(client.put(1) for _ in range(connections)))
        return (_resident() - before) / client.pool.idle


async def run(connections: int) -> None:
    """Print the table."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    print("| connection | Python calls | C calls | CPU us | KiB idle |\n| --- | --- | --- | --- | --- |")
    for name, own in (("TLS", context), ("plain", None)):
        tls = self_signed_context("127.0.0.1") if own is not None else None
        async with WebServer(asgi(_handler), ServeOptions(tls=tls)) as server:
            client = _Client(server.port, own)
            await client.put(_COUNTED)
            python, c = await _calls(client)
            cpu = await _microseconds(client)
            memory = await _memory(client, connections)
        print(f"| {name} | {python:.1f} | {c:.1f} | {cpu:.0f} | {memory:.0f} |")
