"""The logs of all containers of a Pod."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pods_on_a_node import pod_environment

from opsdk import BlockingContext, Cluster, Operator
from opsdk.api.core.v1 import Pod
from opsdk.apimachinery.codec import decode_tree
from opsdk.apimachinery.kinds import kind_of
from opsdk.apimachinery.object import key_of
from opsdk.errors import ConnectionLostError, ForbiddenError, NotFoundError, ResponseLimitError, UsageError
from opsdk.pods.all_logs import containers_with_log, merged
from opsdk.testing.running import running

pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


async def _lines(name: str, waits: list[int]) -> AsyncGenerator[str, None]:
    for number, turns in enumerate(waits):
        for _ in range(turns):
            await asyncio.sleep(0)
        yield f"{name}{number}"


@given(st.dictionaries(st.sampled_from("abcd"), st.lists(st.integers(0, 2), max_size=5)))
def test_each_line_arrives_once_and_in_order(waits: dict[str, list[int]]) -> None:
    """Whatever the logs wait for, each line has its container, and the lines of a container are in order."""

    async def read() -> list[tuple[str, str]]:
        return [pair async for pair in merged({name: _lines(name, each) for name, each in waits.items()})]

    received = asyncio.run(read())
    for name, each in waits.items():
        assert [line for log, line in received if log == name] == [f"{name}{number}" for number in range(len(each))]
    assert len(received) == sum(map(len, waits.values()))


async def test_a_log_with_many_lines_holds_up_no_other() -> None:
    """Logs that always have lines take turns, and none is read ahead of the caller by more than one line."""
    read = dict.fromkeys("ab", 0)

    async def endless(name: str) -> AsyncGenerator[str, None]:
        while True:
            read[name] += 1
            yield name

    async with aclosing(merged({name: endless(name) for name in "ab"})) as lines:
        names = [(await anext(lines))[0] for _ in range(100)]
    assert names.count("a") == 50
    assert max(read.values()) <= 52


def test_containers_that_have_a_log() -> None:
    """Init and ephemeral containers count; those that wait for their first start do not."""
    waiting, ran = {"waiting": {"reason": "PodInitializing"}}, {"terminated": {"exitCode": 1}}
    tree: Any = {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {
            "initContainers": [{"name": "init"}],
            "containers": [{"name": "new"}, {"name": "loops"}, {"name": "runs"}, {"name": "unknown"}],
            "ephemeralContainers": [{"name": "debug"}],
        },
        "status": {
            "initContainerStatuses": [{"name": "init", "state": ran}],
            "containerStatuses": [
                {"name": "new", "state": waiting},
                {"name": "loops", "state": waiting, "lastState": ran},
                {"name": "runs", "state": {"running": {}}},
            ],
            "ephemeralContainerStatuses": [{"name": "debug", "state": {"running": {}}}],
        },
    }
    pod = decode_tree(tree, kind_of(Pod))
    assert containers_with_log(pod, previous=False) == ["init", "loops", "runs", "unknown", "debug"]
    assert containers_with_log(pod, previous=True) == ["loops", "unknown"]
    assert containers_with_log(Pod(), previous=False) == []


@pytest.mark.realtime
@pytest.mark.parametrize("sockets", [False, True])
async def test_the_lines_of_all_containers(sockets: bool) -> None:
    """Options count for each container, and refusals are those of the server."""
    async with pod_environment(sockets=sockets) as (env, cluster):
        env.responders.logs = lambda pod, container: f"1{container}\n2{container}\n"
        lines = [pair async for pair in cluster.pods.all_logs("default/p")]
        assert sorted(lines) == [("c", "1c"), ("c", "2c"), ("d", "1d"), ("d", "2d")]
        lines = [pair async for pair in cluster.pods.all_logs("default/p", tail=1)]
        assert sorted(lines) == [("c", "2c"), ("d", "2d")]
        with pytest.raises(UsageError, match="leave out container"):
            await anext(cluster.pods.all_logs("default/p", container="c"))
        with pytest.raises(NotFoundError, match='pods "q" not found'):
            await anext(cluster.pods.all_logs("default/q"))
        with pytest.raises(ResponseLimitError, match="max_line_bytes"):
            await anext(cluster.pods.all_logs("default/p", max_line_bytes=1))
        async with Cluster(env.config_for("bad")) as stranger:
            with pytest.raises(ForbiddenError, match="pods"):
                await anext(stranger.pods.all_logs("default/p"))


@pytest.mark.parametrize("end", ["break", "cancel", "error"])
async def test_an_end_closes_all_logs(end: str) -> None:
    """The end of the iteration, a cancellation and the failure of one log close the other logs at the server."""
    written = 0

    async def write(container: str) -> AsyncGenerator[bytes, None]:
        nonlocal written
        written += 1
        try:
            yield b"a\n"
            await asyncio.sleep(5)
            if end == "error" and container == "d":
                raise OSError("the node is gone")
            await asyncio.sleep(100_000)
        finally:
            written -= 1

    async def read(cluster: Cluster) -> None:
        async with aclosing(cluster.pods.all_logs("default/p", follow=True)) as lines:
            async for _ in lines:
                if end == "break":
                    return

    async with pod_environment(sockets=False) as (env, cluster):
        env.responders.logs = lambda _, container: write(container)
        reading = asyncio.ensure_future(read(cluster))
        if end == "cancel":
            await asyncio.sleep(10)
            assert written == 2
            reading.cancel()
        (ended,) = await asyncio.gather(reading, return_exceptions=True)
        assert isinstance(ended, {"error": ConnectionLostError, "cancel": asyncio.CancelledError}.get(end, type(None)))
        await asyncio.sleep(1)
        assert written == 0


async def test_a_plain_reconciler_reads_all_logs() -> None:
    """A function in a thread gets the lines of all containers."""
    operator, results = Operator("reader"), list[Any]()

    @operator.reconciler(Pod)
    def reconcile(pod: Pod, ctx: BlockingContext) -> None:
        async def read() -> list[tuple[str, str]]:
            return [pair async for pair in ctx.target.cluster.pods.all_logs(key_of(pod))]

        results.append(sorted(ctx.run(read())))

    async with pod_environment(sockets=False) as (env, _), running(operator, env):
        env.responders.logs = lambda _, container: container
        await env.eventually(lambda: results)
    assert results[0] == [("c", "c"), ("d", "d")]
