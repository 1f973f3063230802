"""The sample operator as a process, the API server as a process, and the real kubectl between them."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from opsdk.structured_merge.value import JsonObject

pytestmark = [pytest.mark.e2e, pytest.mark.realtime]


@pytest.mark.slow
async def test_the_everyday_commands(stage: Any, make_site: Any, wait_until: Any) -> None:
    """apply, get -w, patch, wait, describe, delete --wait: everything settles, and all stop well on SIGTERM."""
    try:
        server = await stage.server()
        operator = await stage.operator()
        await stage.install_kind()
        watching = await stage.follow("get", "websites", "-w", "--output-watch-events")
        await stage.kubectl("apply", "-f", "-", stdin=json.dumps(make_site("hello", replicas=2)))
        await stage.kubectl("wait", "--for=condition=Ready", "website/hello", "--timeout=30s")
        parts = await stage.kubectl("get", "configmap,service,deployment", "hello", "-o", "name")
        assert parts.split() == ["configmap/hello", "service/hello", "deployment.apps/hello"]
        await stage.kubectl("patch", "website", "hello", "--type=merge", "-p", '{"spec":{"image":"nginx:2"}}')
        await stage.kubectl("wait", "--for=jsonpath={.status.image}=nginx:2", "website/hello", "--timeout=30s")
        described = await stage.kubectl("describe", "website", "hello")
        assert "nginx:2" in described
        assert "Available" in described
        table = await stage.kubectl("get", "websites")
        assert table.split()[:4] == ["NAME", "IMAGE", "REPLICAS", "READY"]
        await stage.kubectl("delete", "website", "hello", "--wait", "--timeout=30s")
        await stage.kubectl("wait", "--for=delete", "deployment/hello", "--timeout=30s")
        await wait_until("the watch to tell", lambda: _said(watching, "DELETED"))
        assert "ADDED" in watching.said()
        assert "MODIFIED" in watching.said()
        await operator.stop()
        assert await server.stop() < 2
    finally:
        await stage.close()


@pytest.mark.slow
async def test_a_killed_operator_loses_nothing(stage: Any, make_site: Any, wait_until: Any) -> None:
    """Kill -9 in the middle of the work, again and again: after the last restart every site is Ready."""
    try:
        await stage.server()
        await stage.install_kind()
        sites = [make_site(f"s{n}") for n in range(16)]
        for _ in range(3):
            operator = await stage.operator()
            await wait_until("the operator to work", lambda op=operator: _said(op, "starts its workers"))
            await stage.kubectl("apply", "-f", "-", stdin=_documents(sites))
            await asyncio.sleep(0.15)
            await operator.kill()
            for item in sites:
                item["spec"]["image"] += "1"
            await stage.kubectl("apply", "-f", "-", stdin=_documents(sites))
        operator = await stage.operator()
        await wait_until("all to be ready", lambda: _all_ready(stage, 16, sites[0]["spec"]["image"]))
        await operator.stop()
    finally:
        await stage.close()


@pytest.mark.slow
async def test_a_killed_server_loses_nothing(stage: Any, make_site: Any, wait_until: Any) -> None:
    """Kill -9 of a server with a data folder: what it acknowledged is there, and the operator goes on by itself."""
    try:
        data = ("--data-dir", str(stage.folder / "data"))
        server = await stage.server(*data)
        await stage.install_kind()
        operator = await stage.operator()
        await stage.kubectl("apply", "-f", "-", stdin=json.dumps(make_site("before")))
        await stage.kubectl("wait", "--for=condition=Ready", "website/before", "--timeout=30s")
        revision = await _revision(stage)
        await server.kill()
        await asyncio.sleep(0.5)
        await stage.server(*data)
        assert await _revision(stage) >= revision
        await stage.kubectl("apply", "-f", "-", stdin=json.dumps(make_site("after")))
        await stage.kubectl("wait", "--for=condition=Ready", "website/after", "--timeout=60s")
        await stage.kubectl("delete", "website", "before", "--wait", "--timeout=60s")
        assert operator.process.returncode is None
        await operator.stop()
    finally:
        await stage.close()


@pytest.mark.slow
async def test_one_replica_works_and_the_other_takes_over(stage: Any, make_site: Any, wait_until: Any) -> None:
    """Two replicas with leader election: one has workers; when it is killed, the other gets them."""
    times = ("--lease-duration", "4", "--renew-deadline", "3", "--retry-period", "0.5")
    try:
        await stage.server()
        await stage.install_kind()
        replicas = [
            await stage.operator("--leader-elect", "--leader-election-namespace", "default", *times) for _ in range(2)
        ]

        async def leads() -> bool:
            return any("starts its workers" in r.said() for r in replicas)

        await wait_until("a leader", leads)
        await stage.kubectl("apply", "-f", "-", stdin=json.dumps(make_site("one")))
        await stage.kubectl("wait", "--for=condition=Ready", "website/one", "--timeout=30s")
        await asyncio.sleep(2)
        working = [r for r in replicas if "starts its workers" in r.said()]
        assert len(working) == 1
        [waiting] = [r for r in replicas if r not in working]
        killed_at = time.monotonic()
        await working[0].kill()
        await wait_until("the other to lead", lambda: _said(waiting, "starts its workers"))
        assert time.monotonic() - killed_at > 2  # not before the lease could have run out
        await stage.kubectl("apply", "-f", "-", stdin=json.dumps(make_site("two")))
        await stage.kubectl("wait", "--for=condition=Ready", "website/two", "--timeout=30s")
        await waiting.stop()
        lease = json.loads(await stage.kubectl("get", "lease", "website-operator", "-o", "json"))
        assert lease["spec"]["holderIdentity"] == ""
        assert lease["spec"]["leaseTransitions"] == 1
    finally:
        await stage.close()


def _documents(objects: list[JsonObject]) -> str:
    return "\n".join(json.dumps(o) for o in objects)


async def _said(program: Any, words: str) -> bool:
    return words in program.said()


async def _all_ready(stage: Any, count: int, image: str) -> bool:
    listed = json.loads(await stage.kubectl("get", "websites", "-o", "json"))["items"]
    ready = [
        s
        for s in listed
        if s.get("status", {}).get("image") == image
        and any(c["type"] == "Ready" and c["status"] == "True" for c in s["status"]["conditions"])
    ]
    return len(ready) == count


async def _revision(stage: Any) -> int:
    listed = json.loads(await stage.kubectl("get", "--raw", "/apis/demo.opsdk.dev/v1/websites"))
    return int(listed["metadata"]["resourceVersion"])
