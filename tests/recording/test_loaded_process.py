"""A recorded operator under load: several informers, timers, time limits, leader election, and a busy CPU beside it."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from processes import until

from opsdk import ObjectMeta
from opsdk.api.core.v1 import Secret
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.engine.replay.run import OperatorReplay
from opsdk.engine.replay.timeline import Timeline
from opsdk.errors import ApiError
from opsdk.recording.reading import load_recording
from opsdk.rest.load import load_config
from tests.recording.recorded_processes import RecordedOperator, load_operator, server

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

OPERATOR = """
import asyncio
from opsdk import Context, ControllerOptions, ObjectMeta, Operator, OperatorOptions, Result
from opsdk.api.core.v1 import ConfigMap, Secret, Service, ServicePort, ServiceSpec

operator = Operator("copier", OperatorOptions(controller=ControllerOptions(max_concurrent_reconciles=8)))

@operator.reconciler(Secret, owns=[ConfigMap, Service])
async def reconcile(secret: Secret, ctx: Context) -> Result | None:
    name = secret.metadata.name
    if name.endswith("-copy"):
        return None
    async with asyncio.TaskGroup() as group:
        for number in range(3):
            data = {"url": str(secret.data["password"])}
            group.create_task(ctx.apply(ConfigMap(metadata=ObjectMeta(name=f"{name}-{number}"), data=data)))
        spec = ServiceSpec(ports=[ServicePort(port=80)])
        group.create_task(ctx.apply(Service(metadata=ObjectMeta(name=name), spec=spec)))
    try:
        async with asyncio.timeout(0.02):
            await ctx.client.list(ConfigMap, namespace="default")
            await asyncio.sleep(0.01)
    except TimeoutError:
        pass
    ctx.event("Copied", f"copied {name}")
    await ctx.apply(Secret(metadata=ObjectMeta(name=f"{name}-copy"), data=secret.data))
    return Result(requeue_after=0.3)

@operator.reconciler(ConfigMap, name="maps")
async def look(config_map: ConfigMap, ctx: Context) -> None:
    if config_map.metadata.owner_references and config_map.metadata.name.endswith("-1"):
        await asyncio.sleep(0.005)
        meta = ObjectMeta(name=f"{config_map.metadata.name}-seen")
        await ctx.apply(type(config_map)(metadata=meta, data=config_map.data))

if __name__ == "__main__":
    operator.main()
"""
ROUNDS = 3
CHANCE = random.Random(1)


@contextmanager
def busy_cpu() -> Iterator[None]:
    """Run a process that computes without end."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait(60)


async def change_secrets(kubeconfig: Path) -> None:
    """Create, change and delete Secrets, four at a time."""
    async with Cluster(load_config(kubeconfig=kubeconfig)) as cluster:
        await asyncio.gather(*(use_secrets(cluster.uncached, number) for number in range(4)))


async def use_secrets(client: Client, number: int) -> None:
    """Create, change and delete some Secrets."""
    for turn in range(ROUNDS):
        meta = ObjectMeta(name=f"s-{number}-{turn}", namespace="default")
        secret = await client.create(Secret(metadata=meta, data={"password": b"correct-horse-%03d" % turn}))
        for user in (b"one", b"two"):
            await asyncio.sleep(CHANCE.random() / 4)
            secret.data["user"] = user
            secret = await client.update(secret)
        await asyncio.sleep(CHANCE.random() / 4)
        with suppress(ApiError):
            await client.delete(secret)


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGKILL])
def test_a_loaded_process_is_replayed(tmp_path: Path, signal_number: signal.Signals) -> None:
    """Each request in its iteration, with another seed of hashes than the recorded process had."""
    with busy_cpu(), server(tmp_path) as kubeconfig, RecordedOperator(tmp_path, kubeconfig, OPERATOR) as recorded:
        until(lambda: "starts its workers" in recorded.log.read_text(), recorded.log)
        asyncio.run(change_secrets(kubeconfig))
        until(lambda: recorded.has_written("s-0-0-copy"), recorded.log)
        recorded.end(signal_number)
    timeline = Timeline(load_recording(recorded.recordings).records)
    with OperatorReplay(timeline, lambda: load_operator(recorded, timeline)) as replay:
        outcome = replay.run()
        # A killed process loses what it had not written yet.
        assert outcome.requests > 50
    assert outcome.is_identical, [
        *((str(each), *each.details) for each in outcome.divergences[:3]),
        *map(str, outcome.unsent[:3]),
    ]
