"""Debug pages: what they show, and what they never show."""

from __future__ import annotations

import asyncio
import json
import re
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from debug_rows import debug_rows

from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.builder.operator import Operator, OperatorOptions
from opsdk.cluster.cluster import Cluster
from opsdk.controller.options import ControllerOptions
from opsdk.errors import UsageError
from opsdk.event.request import Request
from opsdk.http.server.request import HttpRequest, Query
from opsdk.manager.debug import DebugPages, memory_page
from opsdk.manager.manager import Manager, ManagerOptions

DOCS = Path(__file__).resolve().parents[2] / "docs" / "observability.md"


async def fetch(port: int, path: str, method: str = "GET") -> tuple[int, str, str]:
    """Status, content type and body over a real socket."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    kind = re.search(r"content-type: (.*)", head, re.IGNORECASE)
    return int(head.split()[1]), kind[1].strip() if kind else "", body


def port_of(manager: Manager) -> int:
    """Where the debug pages are."""
    (server,) = manager.http_servers
    return server.port


@asynccontextmanager
async def serving(manager: Manager | None = None) -> AsyncIterator[tuple[Manager, int]]:
    """A running manager with debug pages."""
    manager = manager or Manager(ManagerOptions(debug_bind_address="127.0.0.1:0"))
    running = asyncio.create_task(manager.start())
    await manager.wait_ready()
    yield manager, port_of(manager)
    manager.stop()
    await running


def documented() -> set[str]:
    """The pages in the table of docs/observability.md."""
    rows = re.findall(r"^\| (`/debug/[^|]*) \|", DOCS.read_text(), re.MULTILINE)
    return {path for row in rows for path in re.findall(r"`(/debug/\w+)`", row)}


async def test_the_pages_of_a_running_operator() -> None:
    """Each page is in the documentation, names what runs, fails and waits, and has no secret of the operator."""
    environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra")
    options = OperatorOptions(
        manager=ManagerOptions(debug_bind_address="127.0.0.1:0"),
        controller=ControllerOptions(max_concurrent_reconciles=2),
    )
    operator = Operator("shop", options)
    blocked = asyncio.Event()

    @operator.reconciler(ConfigMap)
    async def reconcile(request: Request) -> None:
        password = "s3cret"
        if request.name == "fails":
            raise ValueError("no luck")
        await operator.client.list(Secret)
        await operator.client.get(ConfigMap, request.key, uncached=True)
        if request.name == "hangs":
            await blocked.wait()
        del password

    async with environment.Environment() as env:
        manager = operator.prepare(env.config)
        running = asyncio.create_task(operator.start_prepared())
        await manager.wait_ready()
        secret = Secret(metadata=ObjectMeta(name="s", namespace="default"), string_data={"password": "s3cret"})
        await operator.client.create(secret)
        for name in ("fails", "hangs"):
            await operator.client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))
        await asyncio.sleep(1)
        pages = {}
        for path in json.loads((await fetch(port_of(manager), "/debug/"))[2])["pages"]:
            status, kind, body = await fetch(port_of(manager), path)
            assert (status, kind) == (200, "application/json")
            assert "s3cret" not in body
            assert env.config.token not in body
            pages[path] = json.loads(body)
        blocked.set()
        manager.stop()
        await running
    assert set(pages) <= documented()
    running_rows = {row["name"]: row for row in pages["/debug/running"]}
    assert re.search(r"test_debug.py:\d+ .*reconcile$", running_rows["hangs"]["place"])
    assert (pages["/debug/retries"][0]["name"], pages["/debug/retries"][0]["attempts"] > 1) == ("fails", True)
    assert "no luck" in pages["/debug/errors"][0]["detail"]
    assert pages["/debug/slowest"][0]["name"] == "fails"
    hanging = next(task for task in pages["/debug/tasks"] if task["name"] == "configmap/reconcile default/hangs")
    assert [frame.rpartition(" ")[2] for frame in hanging["stack"]][-2].endswith("reconcile")
    (queue,) = pages["/debug/queues"]
    assert queue["workers"] == {"active": 1, "limit": 2}
    assert {row["name"]: row["objects"] for row in pages["/debug/informers"]}["secrets"] == 1


async def test_pages_exist_only_where_they_are_on() -> None:
    """Off by default; then tasks have no ages and the loop no factory. Unknown pages are 404, writes are 405."""
    assert not Manager().http_servers
    async with serving() as (_, port):
        assert (await fetch(port, "/debug"))[0] == 200
        assert (await fetch(port, "/debug/none"))[0] == 404
        assert (await fetch(port, "/metrics"))[0] == 404
        assert (await fetch(port, "/debug/tasks", "POST"))[0] == 405
        assert (await fetch(port, "/debug/tasks", "DELETE"))[0] == 405
        ages = [task["age"] for task in json.loads((await fetch(port, "/debug/tasks"))[2])]
        assert any(age is not None for age in ages)
    assert asyncio.get_running_loop().get_task_factory() is None


async def test_an_address_that_others_reach_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    """A debug address beyond loopback logs a warning, because the pages have no authentication."""
    Manager(ManagerOptions(debug_bind_address=":6060"))
    assert "need no authentication" in caplog.text


async def test_text_is_the_same_as_json() -> None:
    """``?format=text`` shows the same values as YAML."""
    async with serving() as (manager, port):
        manager.debug.add("numbers", lambda: {"a": [1, 2.5, None, "x: y"], "b": (True,)}, description="numbers")
        status, kind, body = await fetch(port, "/debug/numbers?format=text")
        assert (status, kind) == (200, "text/plain; charset=utf-8")
        assert yaml.safe_load(body) == json.loads((await fetch(port, "/debug/numbers"))[2])
        assert "/debug/numbers: numbers" in (await fetch(port, "/debug/?format=text"))[2]


async def test_providers_may_be_async_and_may_fail() -> None:
    """An async provider is awaited; one that raises, hangs or returns no JSON is a 500 that says so."""

    async def good() -> Mapping[str, int]:
        await asyncio.sleep(1)
        return {"a": 1}

    def bad() -> None:
        raise RuntimeError("mine")

    async with serving() as (manager, port):
        manager.debug.add("/debug/good", good)
        manager.debug.add("bad", bad)
        manager.debug.add("hangs", lambda: asyncio.sleep(3600))
        manager.debug.add("odd", object)
        assert json.loads((await fetch(port, "/debug/good/"))[2]) == {"a": 1}
        assert (await fetch(port, "/debug/bad"))[::2] == (500, "the page failed: RuntimeError: mine\n")
        assert (await fetch(port, "/debug/hangs"))[0] == 500
        assert (await fetch(port, "/debug/odd"))[0] == 500
        manager.debug.add("bad", good)
        assert (await fetch(port, "/debug/bad"))[0] == 200


async def test_runnables_share_a_page() -> None:
    """Rows of several runnables are one list; a page that was added before is replaced by nothing."""
    pages = DebugPages()
    pages.extend("clusters", lambda: [1])
    pages.extend("/debug/clusters", lambda: iter([2, 3]))
    assert await debug_rows(pages, "clusters") == [1, 2, 3]
    for path in ("", "/debug/", "a/b"):
        with pytest.raises(UsageError, match="/debug/name"):
            pages.add(path, list)


@pytest.mark.slow
async def test_memory_shows_allocations_when_they_are_traced() -> None:
    """The memory page lists the largest allocations first; without tracemalloc it lists none."""
    assert (await memory_page())["tracemalloc"] is None
    tracemalloc.start()
    try:
        allocated = ["x" * 100 + str(number) for number in range(10_000)]
        page: Any = await memory_page()
    finally:
        tracemalloc.stop()
    del allocated
    sizes = [row["bytes"] for row in page["tracemalloc"]]
    assert sizes == sorted(sizes, reverse=True)
    assert "test_debug.py" in page["tracemalloc"][0]["place"]
    assert page["objects"] > 1000


async def test_the_task_factory_is_restored_whatever_ends_the_manager() -> None:
    """The task factory is restored, also after an interrupted stop or a failed runnable."""

    class Failing:
        async def start(self) -> None:
            raise RuntimeError("mine")

    manager = Manager(ManagerOptions(debug_bind_address="127.0.0.1:0"))
    manager.add(Failing())
    with pytest.raises(RuntimeError, match="mine"):
        await manager.start()
    assert asyncio.get_running_loop().get_task_factory() is None
    interrupted = Manager(ManagerOptions(debug_bind_address="127.0.0.1:0"))
    running = asyncio.create_task(interrupted.start())
    await interrupted.wait_ready()
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert asyncio.get_running_loop().get_task_factory() is None


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("host", "status"), [("evil.example:80", 403), ("localhost:80", 200), ("[::1]", 200), ("", 403)]
)
async def test_a_page_of_another_name_cannot_read_debug_pages(host: str, status: int) -> None:
    """A browser that was led to this machine under a foreign name sends that name."""
    async with serving() as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /debug/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        assert int((await reader.read()).split()[1]) == status
        writer.close()


class Queue:
    """A runnable with one controller, whose requests are recorded."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []

    async def start(self) -> None:
        """Do nothing."""

    def enqueue_now(self, controller: str, namespace: str, name: str) -> str:
        """Record a request; refuse one of the name ``standby``."""
        if name == "standby":
            raise UsageError("this replica does not lead")
        if controller != "website":
            return ""
        self.requests.append((namespace, name))
        return "queued"


async def post(port: int, body: str, *headers: str, path: str = "/debug/reconcile") -> tuple[int, str]:
    """Status and body of a POST request. Headers with the name of a default one replace it."""
    defaults = {"host": "127.0.0.1", "content-type": "application/json", "connection": "close"}
    pairs = {**defaults, **{name.lower(): value for name, _, value in (header.partition(": ") for header in headers)}}
    lines = [f"{name}: {value}" for name, value in pairs.items()]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = "\r\n".join([f"POST {path} HTTP/1.1", *lines, f"content-length: {len(body)}"])
    writer.write(f"{head}\r\n\r\n{body}".encode())
    answer, _, text = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(answer.split()[1]), text


SITE = '{"controller": "website", "namespace": "default", "name": "site"}'


@pytest.mark.realtime
async def test_a_request_is_queued_by_hand() -> None:
    """POST /debug/reconcile queues a request; a wrong body, controller or replica has its own status."""
    manager, queue = Manager(ManagerOptions(debug_bind_address="127.0.0.1:0")), Queue()
    manager.add(queue)
    async with serving(manager) as (_, port):
        status, text = await post(port, SITE)
        assert (status, json.loads(text)) == (202, {"outcome": "queued"})
        assert queue.requests == [("default", "site")]
        for body in ("", "[]", '{"controller": 1}', '{"controller": "website"}', '{"x": "y"}', SITE * 100):
            assert (await post(port, body))[0] == 400
        assert (await post(port, SITE.replace("website", "shop")))[0] == 404
        status, text = await post(port, SITE.replace("site", "standby"))
        assert (status, text) == (409, "this replica does not lead\n")
        assert (await post(port, SITE, path="/debug/none"))[0] == 404
        assert (await post(port, SITE, path="/debug/"))[0] == 405
    assert len(queue.requests) == 1


@pytest.mark.realtime
@pytest.mark.parametrize(
    "header",
    [
        "Host: evil.example",
        "Origin: http://127.0.0.1:6060",
        "Origin: null",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-origin",
        "Content-Type: text/plain",
        "Content-Type: application/x-www-form-urlencoded",
    ],
)
async def test_a_web_page_queues_nothing(header: str) -> None:
    """A POST request that a browser may send for a page is refused."""
    manager, queue = Manager(ManagerOptions(debug_bind_address="127.0.0.1:0")), Queue()
    manager.add(queue)
    async with serving(manager) as (_, port):
        assert (await post(port, SITE, header))[0] == 403
    assert not queue.requests


async def test_another_host_queues_nothing() -> None:
    """A POST request of another host is refused, also where the address is not a loopback address."""
    pages = DebugPages()
    pages.add_action("reconcile", lambda arguments: arguments)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}"}

    headers = {"host": "10.0.0.1:6060", "content-type": "application/json"}
    request = HttpRequest("POST", "/debug/reconcile", Query(), headers, receive)
    for client, status in (("10.0.0.2", 403), ("", 403), ("127.0.0.1", 202), ("::1", 202), ("::ffff:127.0.0.1", 202)):
        request.client = client
        response = await pages.handle(request)
        assert response is not None
        assert response.status == status


async def test_leadership_and_pauses_are_shown() -> None:
    """Each replica shows the lease, its holder and its own role; a pause is shown with its ConfigMap."""
    environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra")
    options = OperatorOptions(
        manager=ManagerOptions(debug_bind_address="127.0.0.1:0"), leader_election=True, pause_config_map="pauses"
    )

    async def page(operator: Operator, name: str) -> Any:
        """Return a page."""
        return json.loads((await fetch(port_of(operator.manager), f"/debug/{name}"))[2])

    async with environment.Environment() as env, Cluster(env.config) as outside:
        replicas = [Operator("shop", options) for _ in range(2)]
        running = []
        for operator in replicas:
            operator.reconciler(ConfigMap)(ignore)
            running.append(asyncio.create_task(operator.start(env.config)))
            await asyncio.sleep(5)
        leader, standby = [await page(operator, "leadership") for operator in replicas]
        assert (leader["election"], leader["leading"], standby["leading"]) == (True, True, False)
        assert leader["lease"]["holder"] == standby["lease"]["holder"] == leader["lease"]["identity"]
        assert leader["leading_seconds"] > 5
        assert 0 < standby["lease"]["expires_seconds"] <= 15
        (row,) = await page(replicas[1], "controllers")
        assert (row["standby"], row["paused"]) == (True, "")
        pauses = ConfigMap(metadata=ObjectMeta(name="pauses", namespace="default"), data={"configmap": "true"})
        await outside.uncached.create(pauses)
        await asyncio.sleep(1)
        assert (await page(replicas[0], "controllers"))[0]["paused"] == "paused"
        assert await page(replicas[0], "pauses") == [
            {"namespace": "default", "config_map": "pauses", "data": {"configmap": "true"}}
        ]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def ignore(_request: Request) -> None:
    """Reconcile nothing."""
