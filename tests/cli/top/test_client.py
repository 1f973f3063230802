"""The client of debug pages, against a server of pages and against others."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from http_servers import Seen, Server, always, answer

from opsdk import ManagerOptions, UsageError
from opsdk.cli.target import TargetCluster
from opsdk.cli.top.actions import Actions
from opsdk.cli.top.client import DebugClient, check_url
from opsdk.cli.top.monitor import Monitor
from opsdk.cli.top.targets import client_of, config_of
from opsdk.errors import ApiError, ConnectError, DecodeError, NotFoundError
from opsdk.manager.manager import Manager

pytestmark = pytest.mark.realtime


class Queue:
    """A runnable with one controller."""

    async def start(self) -> None:
        """Do nothing."""

    def enqueue_now(self, controller: str, namespace: str, name: str) -> str:
        """Queue the requests of the controller ``website``."""
        return f"queued {namespace}/{name}" if controller == "website" else ""


@asynccontextmanager
async def manager_at(port: int = 0) -> AsyncIterator[tuple[Manager, str]]:
    """A running manager with debug pages."""
    manager = Manager(ManagerOptions(debug_bind_address=f"127.0.0.1:{port}"))
    manager.add(Queue())
    running = asyncio.create_task(manager.start())
    await manager.wait_ready()
    (server,) = manager.http_servers
    try:
        yield manager, f"http://127.0.0.1:{server.port}"
    finally:
        manager.stop()
        await running


async def test_pages_are_those_that_the_operator_serves() -> None:
    """All pages, or those of the names that exist; one that fails does not hide the others."""
    async with manager_at() as (manager, url), client_of(f"{url}/") as client:
        manager.debug.add("broken", lambda: 1 / 0)
        assert set(await client.pages(["leadership", "none", "broken"])) == {"leadership"}
        assert {"tasks", "queues", "memory", "leadership"} <= set(await client.pages())


async def test_a_request_is_queued() -> None:
    """The outcome is the operator's; a refusal is an error with its text and status."""
    async with manager_at() as (_, url), client_of(url) as client:
        assert await client.reconcile("website", "default", "a") == "queued default/a"
        with pytest.raises(ApiError, match="this replica has no controller shop") as caught:
            await client.reconcile("shop", "default", "a")
        assert caught.value.code == 404


async def test_the_console_reconnects() -> None:
    """While the operator is away, the monitor knows since when and why; its return is noticed."""
    time = [0.0]
    async with manager_at() as (_, url):
        client = client_of(url)
        monitor = Monitor(client, now=lambda: time[0])
        assert await monitor.refresh()
    for time[0] in (5.0, 9.0):
        assert not await monitor.refresh()
    assert (monitor.lost_since, monitor.lost_seconds) == (5.0, 4.0)
    assert "cannot be reached" in monitor.error
    assert monitor.state is not None
    async with manager_at(int(url.rpartition(":")[2])):
        assert await monitor.refresh()
        assert (monitor.lost_since, monitor.error) == (None, "")
        await client.aclose()


async def test_a_lost_connection_is_opened_once_for_the_next_call() -> None:
    """Pages and actions share one connection; a failure in the middle closes it, and the next call opens another."""
    opened: list[str] = []
    names = [f"/debug/page{number}" for number in range(20)]
    breaks = False

    async def handle(request: Seen, writer: asyncio.StreamWriter) -> None:
        if breaks and request.target != "/debug/":
            writer.close()
        elif request.target == "/debug/":
            writer.write(answer(200, json.dumps({"pages": dict.fromkeys(names, "")}).encode()))
        else:
            writer.write(answer(200, b"[]"))

    async with Server(handle) as server:

        @asynccontextmanager
        async def open_url() -> AsyncIterator[str]:
            opened.append("open")
            yield server.host
            opened.append("close")

        async with DebugClient("test", open_url) as client:
            first, second = await asyncio.gather(client.pages(), client.pages())
            assert len(first) == len(second) == 20
            assert opened == ["open"]
            breaks = True
            with pytest.raises(ConnectError):
                await client.pages()
            assert opened == ["open", "close"]
            breaks = False
            assert len(await client.pages()) == 20
        assert opened == ["open", "close"] * 2


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"<html>", DecodeError),
        (b"[]", DecodeError),
        (b'{"pages": {}}', DecodeError),
        (b'{"pages": {"/debug/../../x": "", "/x": "", "/debug/a b": "", "/debug/": ""}}', DecodeError),
        (b"[" * 100_000, DecodeError),
        (b'{"pages": {"/debug/a": 1' + b" " * (33 << 20) + b"}}", DecodeError),
    ],
)
async def test_another_server_is_not_an_operator(body: bytes, error: type[Exception]) -> None:
    """What is no index of debug pages is an error that says so, whatever its size and depth."""
    async with Server(always(answer(200, body))) as server, client_of(server.host) as client:
        with pytest.raises(error):
            await client.pages()


async def test_what_cannot_be_reached_is_named() -> None:
    """A closed port and a server without debug pages say what to do; a wrong URL is refused before."""
    with pytest.raises(ConnectError, match="--debug-bind-address"):
        await client_of("http://127.0.0.1:1").pages()
    async with Server(always(answer(404))) as server:
        with pytest.raises(NotFoundError, match="Is this the debug address"):
            await client_of(server.host).pages()
    for url in ("ftp://x", "127.0.0.1:6060", "http://", "http://x:99999", "http://[x"):
        with pytest.raises(UsageError, match="http://host:port"):
            check_url(url)


async def test_a_dump_is_a_new_private_file(tmp_path: Path) -> None:
    """The file has all pages, only its owner can read it, and an existing file is not replaced."""
    path = tmp_path / "dump.json"
    async with manager_at() as (_, url), client_of(url) as client:
        actions = Actions(client, config_of(TargetCluster()))
        assert await actions.dump(path) == f"wrote {path}"
        with pytest.raises(UsageError, match="File exists"):
            await actions.dump(path)
    dumped: dict[str, Any] = json.loads(path.read_text())
    assert dumped["address"] == url
    assert "tasks" in dumped["pages"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert isinstance(client, DebugClient)
