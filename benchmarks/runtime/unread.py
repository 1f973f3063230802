"""Clients that do not read: what they cost the server while events are written, and when they leave."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.runtime.attacked_server import MAPS, AttackedServer
from benchmarks.runtime.health import HealthProbe

EVENT_BYTES: Final = 30 * 1024
EVENTS: Final = 600
"""18 MB in all."""
COUNTS: Final = (40, 300)
_REQUESTS: Final = 32
"""Requests on one connection: more bytes than the kernel holds for it."""


@dataclass(frozen=True, slots=True)
class UnreadRow:
    """One row: resident memory of the server in MiB, and the latest response of ``/healthz`` in seconds."""

    name: str
    before: float
    during: float
    after: float
    latest: float


def resident(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    rss = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(rss[1]) / 1024 if rss else 0.0


def _open(port: int, request: bytes) -> socket.socket:
    """Send a request on a socket that is never read."""
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(request)
    return client


def get(path: str, token: str, accept: str = "application/json") -> bytes:
    """Return the bytes of a GET request."""
    return f"GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nAccept: {accept}\r\n\r\n".encode()


Send = Callable[[int, bytes], Awaitable[bytes]]
"""Sends a request to a port, and returns the response."""


async def _write_events(server: AttackedServer, send: Send) -> None:
    """Replace one ConfigMap again and again."""
    for number in range(EVENTS):
        body = json.dumps({"data": {"a": f"{number:04d}" + "x" * EVENT_BYTES}}).encode()
        head = (
            f"PATCH {MAPS}/victim HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {server.token}\r\n"
            f"Content-Type: application/merge-patch+json\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        response = await send(server.port, head.encode() + body)
        assert b" 200 " in response[:20], response[:300]


async def _create(server: AttackedServer, send: Send, name: str, size: int) -> None:
    """Create a ConfigMap of so many bytes."""
    body = json.dumps({"metadata": {"name": name}, "data": {"a": "x" * size}}).encode()
    head = (
        f"POST {MAPS} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {server.token}\r\n"
        f"Content-Type: application/json\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    await send(server.port, head.encode() + body)


async def _unread(
    name: str,
    server: AttackedServer,
    pid: int,
    path: str,
    *,
    count: int,
    meanwhile: Callable[[], Awaitable[object]],
    accept: str = "application/json",
    requests: int = 1,
) -> UnreadRow:
    """Send GET requests whose responses are not read, wait for `meanwhile`, and close the connections."""
    before = resident(pid)
    async with HealthProbe(server.port) as probe:
        request = get(path, server.token, accept) * requests
        clients = [await asyncio.to_thread(_open, server.port, request) for _ in range(count)]
        await meanwhile()
        during = resident(pid)
        for client in clients:
            client.close()
        await asyncio.sleep(3)
        after = resident(pid)
    return UnreadRow(f"{count} {name} that are not read", before, during, after, probe.latest)


async def unread_watches(server: AttackedServer, pid: int, count: int, send: Send) -> UnreadRow:
    """Open watches that are not read, write events, and close the watches."""

    async def meanwhile() -> None:
        await asyncio.sleep(1)
        await _write_events(server, send)
        await asyncio.sleep(2)

    return await _unread("watches", server, pid, f"{MAPS}?watch=1&timeoutSeconds=600", count=count, meanwhile=meanwhile)


async def unread_lists(
    server: AttackedServer, pid: int, count: int, send: Send, *, name: str = "lists", accept: str = "application/json"
) -> UnreadRow:
    """Send LIST requests whose responses are not read, and close the connections."""
    for number in range(16):
        await _create(server, send, f"large-{number}", 512 * 1024)
    return await _unread(name, server, pid, MAPS, count=count, meanwhile=lambda: asyncio.sleep(5), accept=accept)


async def unread_bodies(server: AttackedServer, pid: int, count: int, send: Send) -> UnreadRow:
    """Send several GET requests for an object of 200 KiB on each connection, and read no response."""
    await _create(server, send, "small-body", 200 * 1024)
    path = f"{MAPS}/small-body"
    return await _unread(
        "small bodies", server, pid, path, count=count, meanwhile=lambda: asyncio.sleep(5), requests=_REQUESTS
    )


async def unread_protobuf_lists(server: AttackedServer, pid: int, count: int, send: Send) -> UnreadRow:
    """Send the same LIST requests for protobuf."""
    accept = "application/vnd.kubernetes.protobuf"
    return await unread_lists(server, pid, count, send, name="protobuf lists", accept=accept)
