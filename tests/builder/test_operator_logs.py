"""What an operator logs, under the log setup of a program and with broken handlers."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import pytest

from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.builder.operator import Operator
from opsdk.event.request import Request
from opsdk.telemetry.context import setup_logging

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
effects = pytest.importorskip("envtest.testing.effects")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Root handlers, levels and record factory are restored."""
    root, factory = logging.getLogger(), logging.getLogRecordFactory()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("opsdk.reconcile", "opsdk.requests"):
        logging.getLogger(name).setLevel(logging.NOTSET)
    logging.setLogRecordFactory(factory)


async def fail_once() -> int:
    """Run an operator whose first write fails with 500. Returns how often it reconciled."""
    operator, count = Operator("shop"), 0

    @operator.reconciler(ConfigMap)
    async def reconcile(request: Request) -> None:
        nonlocal count
        if request.name == "site":
            count += 1
            config_map = await operator.client.get(ConfigMap, request.key)
            config_map.data["x"] = "s3cret"
            await operator.client.update(config_map)

    async with environment.Environment() as env:
        manager = operator.prepare(env.config)
        running = asyncio.create_task(operator.start_prepared())
        await manager.wait_ready()
        with env.faults.add(effects.Fail(500), verb="update", resource="configmaps", times=1):
            await operator.cluster.uncached.create(ConfigMap(metadata=ObjectMeta(name="site", namespace="default")))
            await asyncio.sleep(5)
        manager.stop()
        await running
    return count


async def test_another_log_setup_shows_request_controller_and_key() -> None:
    """With foreign log handlers, one line has the failure, the object and the retry, without opsdk's traceback."""
    stream = io.StringIO()
    logging.getLogger().handlers.clear()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s", stream=stream)
    assert await fail_once() >= 2
    (line,) = [line for line in stream.getvalue().splitlines() if line.startswith("ERROR")]
    assert line.startswith(
        "ERROR opsdk.reconcile reconcile failed, retry in 0.005 s: update configmaps default/site: 500 InternalError: "
        "Internal error occurred: injected controller=configmap controllerKind=ConfigMap namespace=default name=site "
    )
    assert "Traceback" not in stream.getvalue()


async def test_json_lines_follow_one_reconcile() -> None:
    """Start, requests and result of a reconcile share its id; no line has the content of an object."""
    stream = io.StringIO()
    logging.getLogger().handlers.clear()
    setup_logging("INFO", "json", levels={"opsdk.reconcile": "DEBUG", "opsdk.requests": "DEBUG"}, stream=stream)
    await fail_once()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    failed = next(line for line in lines if line["level"] == "error")
    same = [line for line in lines if line.get("reconcileID") == failed["reconcileID"]]
    assert [line["logger"] for line in same] == ["opsdk.reconcile", "opsdk.requests", "opsdk.reconcile"]
    start, request, _ = same
    assert start["msg"].startswith("reconcile starts: ")
    assert (request["verb"], request["resource"], request["key"], request["status"]) == (
        "update", "configmaps", "default/site", 500,
    )  # fmt: skip
    assert failed["ConfigMap"] == {"name": "site", "namespace": "default"}
    assert failed["error"].startswith("update configmaps default/site: 500 InternalError")
    assert "s3cret" not in stream.getvalue()


class BrokenHandler(logging.Handler):
    """A handler whose disk is full."""

    records = 0

    def emit(self, record: logging.LogRecord) -> None:
        # The API server of the test runs in this process too: it is not what is tested.
        if not record.name.startswith(("opsdk.apiserver", "opsdk.http", "envtest")):
            self.records += 1
            raise OSError("no space left on device")


async def test_a_broken_handler_fails_no_reconcile() -> None:
    """The operator starts, fails, retries, succeeds and stops as if the log worked."""
    broken = BrokenHandler()
    logging.getLogger().handlers.clear()
    logging.getLogger().addHandler(broken)
    logging.getLogger().setLevel(logging.DEBUG)
    assert await fail_once() >= 2
    assert broken.records > 5
