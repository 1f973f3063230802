"""A reconcile of the journal, exported as a test that replays it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from opsdk import Cluster, MergeFrom, ObjectMeta, Unstructured, UsageError, crd_for
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import Secret
from opsdk.apimachinery.codec import encode
from opsdk.apimachinery.object import deep_copy
from opsdk.client.activity import ObjectRead
from opsdk.controller.journal import ReconcileRecord
from opsdk.controller.journal_format import record_to_json
from opsdk.testing.replay import differences, export_test, load_record, replay
from website.api import Website, WebsiteSpec
from website.operator import make_operator

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


LESS = """
from website import operator as sample


async def reconcile(site: sample.Website, ctx: sample.Context) -> None:
    await ctx.apply(sample.config_map(site))


def make() -> sample.Operator:
    operator = sample.Operator("website-operator")
    operator.reconciler(sample.Website)(reconcile)
    return operator
"""


async def recorded(*, delete: bool = False) -> list[ReconcileRecord]:
    """Return the journal of the website sample after a life of one site."""
    async with environment.Environment(controllers="cluster") as env, Cluster(env.config) as outside:
        client = outside.uncached
        await client.create(Unstructured.from_tree(crd_for(Website)))
        operator = make_operator()
        task = asyncio.create_task(operator.start(env.config))
        site = Website(metadata=ObjectMeta(name="a", namespace="default"), spec=WebsiteSpec(image="nginx:1"))
        await client.create(site)
        await asyncio.sleep(30)
        live = await client.get(Deployment, "default/a")
        before = deep_copy(live)
        live.spec.replicas = 7
        await client.patch(live, MergeFrom(before))
        await asyncio.sleep(30)
        if delete:
            await client.delete(site)
            await asyncio.sleep(30)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return list(operator.journal.find())


async def test_reconciles_replay_to_the_same_requests(tmp_path: Path) -> None:
    """A first reconcile, a repair of drift, one without a write, and a finalizer, each on a new server."""
    records = await recorded(delete=True)
    drift = next(r for r in records[5:] if any(q.verb == "apply" and "Deployment" in q.gvk for q in r.requests))
    idle = next(r for r in records if r.result == "success" and not r.requests)
    final = next(r for r in records if any(q.verb == "delete" for q in r.requests))
    for record in (records[0], drift, idle, final):
        loaded = load_record(json.dumps(record_to_json(record, objects=True)))
        async with environment.Environment() as env:
            assert differences(record, await replay(loaded, make_operator(), env.config)) == []


@pytest.mark.slow
@pytest.mark.realtime
async def test_an_exported_test_runs_and_fails_when_the_operator_changes(tmp_path: Path) -> None:
    """Pytest runs the file; with a reconciler that does less, it fails and names the missing request."""
    record = await asyncio.to_thread(asyncio.run, recorded_first())
    text = export_test(record, operator="website.operator:make_operator")
    (tmp_path / "test_replayed.py").write_text(text)
    (tmp_path / "other.py").write_text(LESS)
    (tmp_path / "test_changed.py").write_text(export_test(record, operator="other:make"))
    run = await asyncio.to_thread(pytest_in, tmp_path)
    assert "1 failed, 1 passed" in run
    assert "not sent: " in run


async def recorded_first() -> ReconcileRecord:
    """Return the first reconcile, in real time: only the create matters."""
    async with environment.Environment(controllers="cluster") as env, Cluster(env.config) as outside:
        client = outside.uncached
        await client.create(Unstructured.from_tree(crd_for(Website)))
        operator = make_operator()
        task = asyncio.create_task(operator.start(env.config))
        site = Website(metadata=ObjectMeta(name="a", namespace="default"), spec=WebsiteSpec(image="nginx:1"))
        await client.create(site)
        while not len(operator.journal):
            await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return next(operator.journal.find())


def pytest_in(folder: Path) -> str:
    """Run pytest in a folder and return its output."""
    command = [sys.executable, "-m", "pytest", "-p", "opsdk.testing.plugin", "-q", "-p", "no:cacheprovider", "."]
    sample = Path(__file__).resolve().parents[2] / "samples/website"
    environ = {"PYTHONPATH": f"{sample}:{folder}", "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=120, check=False
    ).stdout


def test_secrets_and_lost_objects_are_not_exported() -> None:
    """Values of Secrets are replaced; a record whose objects the journal dropped is refused."""
    secret = encode(
        Secret(metadata=ObjectMeta(name="s", namespace="default", resource_version="1"), data={"k": b"top"})
    )
    read = ObjectRead("v1, Kind=Secret", "default/s", "1", cached=True, data=secret)
    base: dict[str, Any] = {
        "controller": "c",
        "kind": "",
        "namespace": "default",
        "name": "s",
        "reconcile_id": "1",
        "started_at": datetime(2026, 1, 1, tzinfo=UTC),
        "seconds": 0.0,
    }
    tree = record_to_json(ReconcileRecord(**base, reads=(read,)), objects=True)
    assert "dG9w" not in str(tree)
    assert b"dG9w" in secret
    assert "object" not in record_to_json(ReconcileRecord(**base, reads=(read,)))["reads"][0]
    assert msgspec.json.decode(secret)["data"] == {"k": "dG9w"}
    with pytest.raises(UsageError, match="objects that reconcile 1 read are missing"):
        export_test(ReconcileRecord(**base, reads=(msgspec.structs.replace(read, data=None),)), operator="a:b")
    with pytest.raises(UsageError, match="write MODULE:NAME"):
        export_test(ReconcileRecord(**base), operator="a b")
