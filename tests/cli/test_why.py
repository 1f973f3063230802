"""``opsdk why`` against a running operator, over a real socket."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from http_servers import Server, always, answer

from opsdk import Cluster, ManagerOptions, ObjectMeta, OperatorOptions, Unstructured, crd_for
from opsdk.cli.__main__ import main
from website.api import Website, WebsiteSpec
from website.operator import make_operator

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
pytestmark = pytest.mark.realtime


@asynccontextmanager
async def operator_at_work(*, debug_objects: bool = False) -> AsyncIterator[str]:
    """Run the website operator with debug pages, and return their URL after the first reconciles."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    manager = ManagerOptions(debug_bind_address=f"127.0.0.1:{port}")
    operator = make_operator(OperatorOptions(manager=manager, debug_objects=debug_objects))
    async with environment.Environment() as env, Cluster(env.config) as outside:
        await outside.uncached.create(Unstructured.from_tree(crd_for(Website)))
        task = asyncio.create_task(operator.start(env.config))
        site = Website(metadata=ObjectMeta(name="a", namespace="default"), spec=WebsiteSpec(image="nginx:1"))
        await outside.uncached.create(site)
        while len(operator.journal) < 2:
            await asyncio.sleep(0.05)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def why(*arguments: str) -> int:
    """Run the command in a thread: it blocks."""
    return await asyncio.to_thread(main, ["why", *arguments])


async def test_the_story_of_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    """Text has cause, reads, requests; JSON has the same records; other objects have none."""
    async with operator_at_work() as url:
        assert await why("default/a", "--url", url, "--last", "0") == 0
        text = capsys.readouterr().out
        assert "website default/a: success" in text
        assert "  cause    Website create default/a at " in text
        assert "  request  apply apps/v1, Kind=Deployment default/a: 200 -> " in text
        assert await why("--url", url, "--controller", "website", "--last", "1", "--output", "json") == 0
        (record,) = json.loads(capsys.readouterr().out)
        assert (record["controller"], record["name"]) == ("website", "a")
        assert not any("object" in read for read in record["reads"])
        assert await why("default/b", "--url", url) == 1
        assert "has no reconcile of default/b" in capsys.readouterr().err


async def test_a_test_is_exported_when_the_operator_shows_objects(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Without debug_objects the export is refused with an error; with it, the exported file compiles."""
    path = tmp_path / "test_replay.py"
    arguments = ("default/a", "--export-test", str(path), "--operator", "website.operator:make_operator")
    async with operator_at_work() as url:
        assert await why(*arguments, "--url", url) == 1
        assert "--debug-objects" in capsys.readouterr().err
        assert await why("--export-test", str(path), "--url", url) == 1
        assert "requires --operator" in capsys.readouterr().err
    async with operator_at_work(debug_objects=True) as url:
        assert await why(*arguments, "--url", url) == 0
    compile(path.read_text(), str(path), "exec")


async def test_what_cannot_be_reached_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A closed port, a page that is not a debug page, and a wrong URL end with one line and status 1."""
    assert await why("a", "--url", "http://127.0.0.1:1") == 1
    assert "cannot be reached" in capsys.readouterr().err
    async with Server(always(answer(404))) as server:
        assert await why("a", "--url", server.host) == 1
    assert "Is this the debug address of an operator?" in capsys.readouterr().err
    assert await why("a", "--url", "ftp://x") == 1
    assert "write http://host:port" in capsys.readouterr().err
    assert await why("a", "--last", "-1") == 64
    assert "'--last'" in capsys.readouterr().err


async def test_the_children_that_an_object_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    """A tree of the last reconcile: each child in order, with its state; without a name, the objects that wait."""
    children = [
        {"name": "ConfigMap default/db", "state": "waiting", "message": "is_up returned False", "after": []},
        {"name": "ConfigMap default/web", "state": "pending", "message": "", "after": ["ConfigMap default/db"]},
    ]
    record = {
        "controller": "app",
        "kind": "demo.dev/v1, Kind=App",
        "namespace": "default",
        "name": "a",
        "reconcile_id": "1",
        "started_at": "2026-01-01T00:00:00+00:00",
        "seconds": 0.1,
        "causes": [],
        "reads": [],
        "requests": [],
    }
    ready = record | {"name": "b", "result": "success"}
    records = [record | {"result": "success"}, record | {"result": "waiting", "children": children}, ready]
    async with Server(always(answer(200, json.dumps(records).encode()))) as server:
        url = f"http://127.0.0.1:{server.port}"
        assert await why("--not-ready", "--url", url) == 0
        tree = capsys.readouterr().out
        assert tree.splitlines() == [
            "App default/a: waiting (controller app at 2026-01-01T00:00:00+00:00)",
            "├─ ConfigMap default/db: waiting: is_up returned False",
            "└─ ConfigMap default/web: pending: comes after ConfigMap default/db",
        ]
        assert await why("--not-ready", "--controller", "app", "--url", url) == 0
        assert capsys.readouterr().out == f"{tree}"
        assert await why("default/b", "--not-ready", "--url", url) == 0
        assert capsys.readouterr().out.splitlines()[1:] == ["└─ no ordered children (ready=, after=)"]
        assert await why("--not-ready", "--url", url, "--output", "json") == 0
        (record,) = json.loads(capsys.readouterr().out)
        assert record["children"] == children
    assert await why("--not-ready", "--export-test", "x.py", "--operator", "a:b") == 1
    assert "pass one of them" in capsys.readouterr().err
