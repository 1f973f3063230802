"""All bodies of responses go through one door, where they count for their users."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import opsdk
from opsdk.http.asgi_types import Message
from opsdk.http.server.application import respond
from opsdk.http.server.response import HttpResponse, StreamResponse
from opsdk.http.server.unread import UNREAD, WHOLE_BYTES

ROOT = Path(opsdk.__file__).parents[1]
WRITERS = {
    "opsdk/http/server/application.py": "the door",
    "opsdk/http/server/connection.py": "responses without a body, before an application",
    "opsdk/http/client/in_process_websocket.py": "a transport: messages of WebSockets in this process",
    "opsdk/engine/world/link.py": "the network of simulated runs",
}
"""Modules that write ``http.response.body``."""
COUNTERS = {
    "opsdk/http/server/application.py": "the door",
    "opsdk/http/server/exchange.py": "whole bodies that wait for a full connection",
    "opsdk/apiserver/endpoints/handlers/watch_websocket.py": "messages of watches",
    "opsdk/apiserver/endpoints/protobuf_list.py": "encoded items, before the door has them",
    "opsdk/norman/sessions.py": "messages of subscriptions",
}
"""Modules that count for a user."""
UPGRADES = {
    "opsdk/http/server/websocket.py": "see `WEBSOCKETS`",
    "opsdk/apiserver/aggregator/proxy.py": "forwards one piece at a time",
    "opsdk/apiserver/streams/spdy_upgrade.py": "exec and port-forward: one piece at a time",
}
"""Modules whose responses have no body: another protocol follows."""
WEBSOCKETS = {
    "opsdk/http/server/websocket.py": "the definition",
    "opsdk/apiserver/endpoints/handlers/watch_websocket.py": "counts",
    "opsdk/norman/sessions.py": "counts",
    "envtest/groups/core/rest/pod_exec.py": "exec and port-forward: one piece at a time",
}
"""Modules that accept WebSockets."""


@pytest.mark.parametrize(
    ("pattern", "known"),
    [
        (r'send\(\s*\{"type": "http\.response\.body"', WRITERS),
        (r"\buntil_stalled\(\w|UNREAD\.hold\(", COUNTERS),
        (r"UpgradeResponse\(\n|UpgradeResponse\(\w", UPGRADES),
        (r"accept_websocket\(", WEBSOCKETS),
    ],
    ids=["writers", "counters", "upgrades", "websockets"],
)
def test_every_place_that_writes_a_response_is_known(pattern: str, known: dict[str, str]) -> None:
    """A new one has to use the door, or to count for its user."""
    places = {
        str(path.relative_to(ROOT))
        for package in ("opsdk", "envtest")
        for path in (ROOT / package).rglob("*.py")
        if re.search(pattern, path.read_text())
    }
    definitions = {"opsdk/http/server/unread.py", "opsdk/http/server/response.py"}
    assert places - definitions == known.keys()


async def parts() -> AsyncGenerator[bytes, None]:
    """Two parts."""
    yield b"a" * 10
    yield b"b" * 20


LARGE = bytes(WHOLE_BYTES + 1)


@pytest.mark.parametrize(
    ("response", "held"),
    [
        (HttpResponse(body=LARGE), [WHOLE_BYTES + 1]),
        (HttpResponse(404, body=LARGE), [WHOLE_BYTES + 1]),
        (HttpResponse(body=LARGE[1:]), [0]),
        (StreamResponse(chunks=parts()), [10, 20]),
        (StreamResponse(chunks=parts(), is_patient=True), [10, 20]),
        (StreamResponse(chunks=parts(), ends_when_full=True), [10, 20]),
    ],
    ids=["whole", "error", "small", "stream", "patient", "watch"],
)
async def test_each_part_counts_until_it_is_sent(response: HttpResponse, held: list[int]) -> None:
    """A large body does, and a stream; a small body does not, because its count would cost more than it holds."""
    counted, sent = [], b""
    response.user = "ann"

    async def send(message: Message) -> None:
        nonlocal sent
        sent += message.get("body", b"")
        if message.get("body"):
            counted.append(UNREAD.held.get("ann", 0))

    async def disconnected() -> None:
        await never

    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    request: Any = SimpleNamespace(method="GET", cut=None, disconnected=disconnected)
    await respond(response, request, send)
    assert counted == held
    assert sent == (b"a" * 10 + b"b" * 20 if isinstance(response, StreamResponse) else response.body)
    assert UNREAD.held == {}
