"""Logs of containers, on the local server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pods_on_a_node import pod_environment

from opsdk import Cluster
from opsdk.errors import (
    ApiError,
    BadRequestError,
    ConnectionLostError,
    ForbiddenError,
    NotFoundError,
    ResponseLimitError,
    UsageError,
)
from opsdk.pods.log_query import log_query

pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


@pytest.mark.realtime
@pytest.mark.parametrize("sockets", [False, True])
async def test_lines_of_a_container(sockets: bool) -> None:
    """Lines have no newline; the last one needs none; invalid UTF-8 is replaced, or raw bytes are yielded."""
    async with pod_environment(sockets=sockets) as (env, cluster):
        env.responders.logs = lambda pod, container: f"{container}\n\n".encode() + b"\xff\xc3\xa9"
        lines = cluster.pods.logs("default/p", container="c")
        assert [line async for line in lines] == ["c", "", "\ufffdé"]
        raw = cluster.pods.logs("default/p", container="d", raw=True)
        assert [line async for line in raw] == [b"d", b"", b"\xff\xc3\xa9"]
        tail = cluster.pods.logs("default/p", container="d", tail=1)
        assert [line async for line in tail] == ["\ufffdé"]


async def test_a_log_without_end_is_read_as_it_arrives() -> None:
    """A log that is followed yields lines at once; leaving the block ends the log at the server."""
    ended = asyncio.Event()

    async def write() -> AsyncGenerator[bytes, None]:
        try:
            for number in range(1_000_000):
                yield b"%d\n" % number
                await asyncio.sleep(1)
        finally:
            ended.set()

    async with pod_environment(sockets=False) as (env, cluster):
        env.responders.logs = lambda *_: write()
        received = []
        async with aclosing(cluster.pods.logs("default/p", container="c", follow=True)) as lines:
            async for line in lines:
                received.append(line)
                if len(received) == 3:
                    break
        assert received == ["0", "1", "2"]
        async with asyncio.timeout(5):
            await ended.wait()


async def test_cancellation_ends_the_log() -> None:
    """A cancelled reader leaves no request behind."""
    ended = asyncio.Event()

    async def write() -> AsyncGenerator[bytes, None]:
        try:
            yield b"a\n"
            await asyncio.sleep(10_000)
        finally:
            ended.set()

    async with pod_environment(sockets=False) as (env, cluster):
        env.responders.logs = lambda *_: write()
        reading = asyncio.ensure_future(_read(cluster))
        await asyncio.sleep(1)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        async with asyncio.timeout(5):
            await ended.wait()


@pytest.mark.realtime
@pytest.mark.parametrize("sockets", [False, True])
async def test_a_log_that_is_cut_off_is_an_error(sockets: bool) -> None:
    """A server that breaks the connection does not end the log quietly."""

    async def write() -> AsyncGenerator[bytes, None]:
        yield b"a\nb"
        raise OSError("the node is gone")

    async with pod_environment(sockets=sockets) as (env, cluster):
        env.responders.logs = lambda *_: write()
        received: list[str] = []
        with pytest.raises(ConnectionLostError):
            await _read(cluster, received)
        assert received == ["a"]


async def test_a_line_that_is_too_long_is_an_error() -> None:
    """The error names the request and the option."""
    async with pod_environment(sockets=False) as (env, cluster):
        env.responders.logs = lambda *_: "x" * 200
        with pytest.raises(ResponseLimitError, match="max_line_bytes"):
            await _read(cluster, max_line_bytes=100)


async def test_refusals_have_the_error_of_the_server() -> None:
    """A missing Pod, a missing container, no permission and a kubelet that is away are typed errors."""
    async with pod_environment(sockets=False) as (env, cluster):
        with pytest.raises(NotFoundError, match='pods "q" not found'):
            await _read(cluster, pod="default/q")
        with pytest.raises(BadRequestError, match="container x is not valid for pod p"):
            await _read(cluster, container="x")
        with pytest.raises(ApiError, match="no preferred addresses"):
            await _read(cluster)
        with pytest.raises(UsageError, match="namespace/name"):
            await _read(cluster, pod="p")
        async with Cluster(env.config_for("bad")) as stranger:
            with pytest.raises(ForbiddenError, match="pods/log"):
                await _read(stranger)


def test_queries() -> None:
    """Times become sinceSeconds or sinceTime, and values that the server refuses are errors of the caller."""
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert log_query(since=moment, timestamps=True, previous=True, limit_bytes=9) == [
        ("previous", "true"),
        ("timestamps", "true"),
        ("sinceTime", "2026-01-02T03:04:05Z"),
        ("limitBytes", "9"),
    ]
    assert log_query(since=0.1) == log_query(since=timedelta(seconds=1)) == [("sinceSeconds", "1")]
    for wrong in ({"since": 0}, {"since": moment.replace(tzinfo=None)}, {"tail": -1}, {"limit_bytes": 0}):
        with pytest.raises(UsageError):
            log_query(**wrong)  # type: ignore[arg-type] # values of all options


async def _read(cluster: Cluster, received: list[str] | None = None, *, pod: str = "default/p", **options: Any) -> None:
    async for line in cluster.pods.logs(pod, **{"container": "c", "follow": True, **options}):
        if received is not None:
            received.append(line)
