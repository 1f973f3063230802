"""Health checks and the endpoints they answer at."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from opsdk.errors import CacheError, ConfigError, UsageError
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse
from opsdk.manager.address import is_enabled, parse_address
from opsdk.manager.health import Checks
from opsdk.manager.http import HttpServer
from opsdk.manager.manager import Manager, ManagerOptions
from opsdk.structured_merge.value import JsonObject


def asked(target: str, method: str = "GET") -> HttpRequest:
    """A request for a path with its query."""
    path, _, query = target.partition("?")
    scope: JsonObject = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [],
    }

    async def receive() -> JsonObject:
        return {"type": "http.request", "body": b"", "more_body": False}

    return HttpRequest.from_scope(scope, receive)


async def answer(checks: Checks, target: str) -> tuple[int, str] | None:
    """Status and text."""
    response = await checks.handle(asked(target))
    if response is None:
        return None
    headers = dict(response.headers)
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-type"].startswith("text/plain")
    assert isinstance(response.body, bytes)
    return response.status, response.body.decode()


async def good() -> None:
    """All is well."""


async def bad() -> None:
    """Nothing is."""
    raise RuntimeError("the disk is full")


def checks(**named: Any) -> Checks:
    """Checks behind /healthz."""
    health = Checks("/healthz")
    for name, check in named.items():
        health.add(name, check)
    return health


@pytest.mark.behaviour(132)
async def test_passing_checks_are_200() -> None:
    """The body is ok; without checks there is ping, and ``?verbose`` has a line for each check."""
    assert await answer(checks(), "/healthz") == (200, "ok")
    assert await answer(checks(), "/healthz/ping") == (200, "ok")
    assert await answer(checks(a=good), "/healthz/") == (200, "ok")
    assert await answer(checks(a=good, b=good), "/healthz?verbose") == (200, "[+]a ok\n[+]b ok\nhealthz check passed\n")
    assert await answer(checks(), "/healthz?verbose=true") == (200, "[+]ping ok\nhealthz check passed\n")


@pytest.mark.behaviour(132)
async def test_not_well() -> None:
    """500; the reason is withheld at the root and shown at the check's own path."""
    health = checks(a=good, b=bad)
    text = "[+]a ok\n[-]b failed: reason withheld\nhealthz check failed\n"
    assert await answer(health, "/healthz") == (500, text)
    assert await answer(health, "/healthz/b") == (500, "internal server error: the disk is full")
    assert await answer(health, "/healthz/a") == (200, "ok")


@pytest.mark.behaviour(132)
async def test_excluded_checks_are_not_called() -> None:
    """Several checks may be excluded; a name without a check is noted."""
    health = checks(a=good, b=bad, c=bad)
    assert await answer(health, "/healthz?exclude=b&exclude=c") == (200, "ok")
    assert await answer(health, "/healthz?exclude=b&exclude=c&exclude=x&verbose") == (
        200,
        (
            "[+]a ok\n[+]b excluded: ok\n[+]c excluded: ok\n"
            'warn: some health checks cannot be excluded: no matches for "x"\nhealthz check passed\n'
        ),
    )


async def test_only_its_own_paths() -> None:
    """Other paths and unknown checks are 404; with checks of its own the endpoint has no ping."""
    health = checks(a=good)
    for target in ("/readyz", "/healthzz", "/healthz/x", "/healthz/a/b", "/", "/healthz/ping"):
        assert await answer(health, target) is None


async def test_a_check_of_the_same_name_is_replaced() -> None:
    """The check that was added last is called."""
    health = checks(a=bad)
    health.add("a", good)
    assert await answer(health, "/healthz") == (200, "ok")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":8080", ("", 8080)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:443", ("::1", 443)),
        ("localhost:65535", ("localhost", 65535)),
    ],
)
def test_an_address_is_host_and_port(text: str, expected: tuple[str, int]) -> None:
    """An address without a host is the port on every interface."""
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["8080", "host:", "host:x", ":65536", ":-1", "", "host:\uff18\uff10"])
def test_what_is_no_address(text: str) -> None:
    """A ConfigError that says what to write."""
    with pytest.raises(ConfigError, match="write host:port"):
        parse_address(text)


def test_half_brackets() -> None:
    """An IPv6 host needs both brackets."""
    with pytest.raises((UsageError, ConfigError)):
        parse_address("[::1:443")


@pytest.mark.behaviour(110)
def test_zero_and_empty_switch_off() -> None:
    """The addresses "0" and "" switch an endpoint off, as in controller-runtime."""
    assert [is_enabled(a) for a in ("", "0", ":0", ":8081")] == [False, False, True, True]
    assert not Manager(ManagerOptions(health_probe_bind_address="0", metrics_bind_address="")).http_servers


async def fetch(port: int, path: str, method: str = "GET") -> tuple[int, str, bytes]:
    """Status, content type and body over a real socket."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    data = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    return int(lines[0].split()[1]), headers.get("content-type", ""), body


@pytest.mark.behaviour(110)
async def test_endpoints_exist_only_where_they_are_on() -> None:
    """Health and readiness on one port, metrics alone on the other; unknown paths are 404, other methods 405."""
    manager = Manager(ManagerOptions(health_probe_bind_address="127.0.0.1:0", metrics_bind_address="127.0.0.1:0"))
    manager.add_readyz_check("never", bad)
    running = asyncio.create_task(manager.start())
    await manager.wait_ready()
    health, metrics = (server.port for server in manager.http_servers)
    assert await fetch(health, "/healthz") == (200, "text/plain; charset=utf-8", b"ok")
    assert (await fetch(health, "/readyz"))[0] == 500
    assert (await fetch(health, "/metrics"))[0] == 404
    status, kind, body = await fetch(metrics, "/metrics")
    assert (status, kind.partition(";")[0]) == (200, "text/plain")
    assert b"# TYPE controller_runtime_reconcile_total counter" in body
    assert (await fetch(metrics, "/healthz"))[0] == 404
    assert (await fetch(health, "/healthz", "POST"))[0] == 405
    manager.stop()
    await running
    with pytest.raises(ConnectionRefusedError):
        await fetch(health, "/healthz")


@pytest.mark.behaviour(110)
async def test_a_busy_port_is_named() -> None:
    """`start` raises a ConfigError with the address; nothing else has started."""
    first = HttpServer("a", "127.0.0.1:0", [])
    holding = asyncio.create_task(first.start())
    await first.wait_ready()
    manager = Manager(ManagerOptions(health_probe_bind_address=f"127.0.0.1:{first.port}"))
    with pytest.raises(ConfigError, match=str(first.port)):
        await manager.start()
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)


@pytest.mark.parametrize("step", range(12))
async def test_a_server_cancelled_while_binding_frees_its_port(step: int) -> None:
    """Whenever it is cancelled, the port can be bound again and no task is left."""
    server = HttpServer("a", "127.0.0.1:0", [])
    task = asyncio.create_task(server.start())
    for _ in range(step):
        await asyncio.sleep(0)
    port = server.port
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    if port:
        again = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
        again.close()
        await again.wait_closed()


async def test_extra_endpoints_come_after_nothing() -> None:
    """The first endpoint that answers counts."""

    async def mine(request: HttpRequest) -> HttpResponse | None:
        return HttpResponse(200, [("content-type", "application/json")], json.dumps({"path": request.path}).encode())

    server = HttpServer("a", "127.0.0.1:0", [checks(a=good).handle, mine])
    task = asyncio.create_task(server.start())
    await server.wait_ready()
    assert (await fetch(server.port, "/healthz"))[2] == b"ok"
    assert json.loads((await fetch(server.port, "/x"))[2]) == {"path": "/x"}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_check_is_a_warning_only_after_it_passed(caplog: pytest.LogCaptureFixture) -> None:
    """Caches are not filled at the start: a check that never passed is logged at INFO, later failures at WARNING."""
    caplog.set_level(logging.INFO, "opsdk.manager.health")
    results = iter([False, True, False])

    async def cache() -> None:
        if not next(results):
            raise CacheError("services: has not synced")

    readyz = checks(cache=cache)
    statuses = [(await answer(readyz, "/healthz") or (0, ""))[0] for _ in range(3)]
    assert statuses == [500, 200, 500]
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
