"""Logs and commands of Pods in recorded runs: a replay gets the same messages in the same iterations."""

from __future__ import annotations

import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from pods_on_a_node import POD
from replayed_runs import operator_of

from opsdk import ApiError, Context, ObjectMeta, Operator, Unstructured
from opsdk.api.core.v1 import ConfigMap, Node, Pod
from opsdk.engine.replay.run import OperatorReplay
from opsdk.engine.replay.timeline import Timeline
from opsdk.testing.simulate import Simulation, World

envtest = pytest.importorskip("envtest", reason="needs the envtest extra: pip install opsdk[envtest]")
RESULTS: list[str] = []


def make_operator() -> Operator:
    """An operator that runs a command and reads a log for each ConfigMap."""
    operator = Operator("prober")

    @operator.reconciler(ConfigMap)
    async def reconcile(obj: ConfigMap, ctx: Context) -> None:
        for pod in ("default/p", "default/q"):
            try:
                done = await ctx.cluster.pods.exec(pod, ["say", obj.metadata.name], container="c", stdin=b"x" * 100_000)
                lines = [line async for line in ctx.cluster.pods.logs(pod, container="c")]
                RESULTS.append(f"{done.status} {done.stdout!r} {lines}")
                await copy_both_ways(ctx, pod)
            except ApiError as error:
                RESULTS.append(str(error))

    return operator


async def copy_both_ways(ctx: Context, pod: str) -> None:
    """Copy a file to a Pod and back."""
    with TemporaryDirectory() as folder:
        source, copy = Path(folder) / "source", Path(folder) / "copy"
        _ = source.write_bytes(b"x" * 100_000)
        await ctx.cluster.pods.copy_to(pod, source, "/data", container="c")
        await ctx.cluster.pods.copy_from(pod, "/data", copy, container="c")
        RESULTS.append(f"copied {copy.read_bytes() == source.read_bytes()}")


async def answer(command: Any, pipe: Any) -> int:
    """A container that reads all input, and writes one message for each word; its files are 100,000 bytes."""
    if command.argv[:2] == ("tar", "cf"):
        header = tarfile.TarInfo("./data")
        header.size = 100_000
        await pipe.write(header.tobuf() + b"x" * 100_000 + bytes(1024 + 352))
        return 0
    size = len(await pipe.read_all()) if command.stdin else 0
    if command.argv[0] in {"tar", "mv", "rm"}:
        return 0
    for word in command.argv:
        await pipe.write(word)
    await pipe.write_error(str(size))
    return 3


def environment() -> Any:
    """An environment whose containers answer."""
    env = envtest.Environment()
    env.responders.run = answer
    env.responders.logs = lambda *_: "a\nb\n"
    return env


async def create(world: World) -> None:
    """Create the Pod, and an object for the operator."""
    await world.client.get_or_none(Node, "n") or await world.client.create(Node(metadata=ObjectMeta(name="n")))
    if await world.client.get_or_none(Pod, "default/p") is None:
        await world.client.create(Unstructured.from_tree(POD))
    name = f"c{world.rng.randrange(10**6)}"
    await world.client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))


async def nothing(world: World) -> None:
    """Check nothing."""


def test_a_replay_gets_the_messages_of_the_recording() -> None:
    """Output, exit status and refusals are those of the recorded run, and the operator handles them as before."""
    simulation = Simulation(
        operator=make_operator, environment=environment, actions=[create], check=nothing, faults=[], max_seconds=5.0
    )
    RESULTS.clear()
    _, starts = simulation.record(1)
    recorded = list(RESULTS)
    assert any("3 b'sayc" in text and "['a', 'b']" in text for text in recorded), recorded
    assert "copied True" in recorded
    assert any('pods "q" not found' in text for text in recorded), recorded
    RESULTS.clear()
    for start in starts:
        with OperatorReplay(Timeline(start.records), operator_of(simulation)) as replay:
            outcome = replay.run()
        assert outcome.is_identical, (list(map(str, outcome.divergences[:3])), outcome.unsent[:3])
    assert recorded == RESULTS
