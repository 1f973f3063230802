"""Connections to ports of a Pod, on the local server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pods_on_a_node import pod_environment

from opsdk import Cluster, ClusterOptions
from opsdk.errors import ApiError, ConnectError, ForbiddenError, NotFoundError, UsageError
from opsdk.pods.port_forward import PortForward

pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
pytestmark = pytest.mark.realtime


async def shout(pod: Any, port: int, pipe: Any) -> None:
    """A server in a pod: it returns what it reads in capitals, and fails for the port 1."""
    if port == 1:
        raise ValueError("connection refused")
    while data := await pipe.read():
        await pipe.write(f"{pod['metadata']['name']}:{port}:".encode() + data.upper())


async def echo(forward: PortForward, data: bytes, size: int) -> bytes:
    """The answer to bytes that are sent through the local port."""
    reader, writer = await asyncio.open_connection("127.0.0.1", forward.port)
    writer.write(data)
    async with asyncio.timeout(20):
        answer = await reader.readexactly(size) if size else await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize("sockets", [False, True])
async def test_connections_reach_the_port_of_the_pod(sockets: bool) -> None:
    """Each local connection has one to the pod, at the same time as others, with bytes of any number."""
    async with pod_environment(sockets=sockets) as (env, cluster):
        env.responders.forwarded = shout
        async with cluster.pods.port_forward("default/p", 6060) as forward:
            answers = await asyncio.gather(*(echo(forward, b"abc", 10) for _ in range(5)))
            assert answers == [b"p:6060:ABC"] * 5
            answer = await echo(forward, b"x" * 300_000, 300_000)
            assert answer.count(b"X") > 299_000
            assert forward.last_error is None


@pytest.mark.parametrize("sockets", [False, True])
async def test_a_stream_to_a_port_needs_no_local_port(sockets: bool) -> None:
    """Bytes that are written arrive in the pod, and its bytes are read; the end of the pod's side is empty."""
    async with pod_environment(sockets=sockets) as (env, cluster):

        async def once(pod: Any, port: int, pipe: Any) -> None:
            await pipe.write((await pipe.read()).upper())

        env.responders.forwarded = once
        async with cluster.pods.open_port("default/p", 6060) as stream:
            await stream.write(b"abc")
            assert await stream.read() == b"ABC"
            assert await stream.read() == b""


@pytest.mark.parametrize("sockets", [False, True])
async def test_a_port_that_nothing_listens_on_ends_the_connection(sockets: bool) -> None:
    """The connection is closed, and the error of the pod's side is kept, or raised by a stream."""
    async with pod_environment(sockets=sockets) as (env, cluster):
        env.responders.forwarded = shout
        async with cluster.pods.port_forward("default/p", 1) as forward:
            assert await echo(forward, b"abc", 0) == b""
            assert "connection refused" in str(forward.last_error)
        async with cluster.pods.open_port("default/p", 1) as stream:
            with pytest.raises(ConnectError, match=r"port 1 of Pod default/p: .*connection refused"):
                await stream.read()


@pytest.mark.parametrize("sockets", [False, True])
async def test_a_refusal_has_the_error_of_the_server(sockets: bool) -> None:
    """A pod that is missing, a missing permission, and a kubelet that is away raise typed errors."""
    async with pod_environment(sockets=sockets) as (env, cluster):
        env.responders.forwarded = shout
        with pytest.raises(NotFoundError, match='pods "q" not found'):
            await cluster.pods.port_forward("default/q", 1).start()
        async with Cluster(env.config_for("bad")) as stranger:
            with pytest.raises(ForbiddenError):
                await stranger.pods.port_forward("default/p", 1).start()
        env.responders.forwarded = None
        with pytest.raises(ApiError, match="no preferred addresses found"):
            await cluster.pods.port_forward("default/p", 1).start()
        with pytest.raises(UsageError, match="from 1 to 65535"):
            cluster.pods.open_port("default/p", 0)
        async with Cluster(cluster.config, ClusterOptions(dry_run=True)) as dry:
            with pytest.raises(UsageError, match="dry_run=True"):
                dry.pods.open_port("default/p", 1)
