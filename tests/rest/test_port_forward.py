"""Port-forwards to a pod of a served environment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from opsdk import Cluster, ObjectMeta, Unstructured
from opsdk.api.core.v1 import Node
from opsdk.errors import ApiError, ForbiddenError, NotFoundError, UsageError
from opsdk.rest.config import RestConfig
from opsdk.rest.port_forward import PortForward

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
user = pytest.importorskip("opsdk.apiserver.auth.user")
pytestmark = pytest.mark.realtime
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"},
}


async def shout(pod: Any, port: int, pipe: Any) -> None:
    """A server in a pod: it returns what it reads in capitals, and fails for the port 1."""
    if port == 1:
        raise ValueError("connection refused")
    while data := await pipe.read():
        await pipe.write(f"{pod['metadata']['name']}:{port}:".encode() + data.upper())


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Any, RestConfig]]:
    """A served environment with a pod on a node."""
    tokens = {"good": user.User(name="good", groups=("system:masters",)), "bad": user.User(name="bad")}
    async with environment.Environment(tokens=tokens) as env, Cluster(env.config) as cluster:
        await cluster.uncached.create(Node(metadata=ObjectMeta(name="n")))
        await cluster.uncached.create(Unstructured.from_tree(POD))
        env.responders.forwarded = shout
        url = (await env.serve()).url
        yield env, RestConfig(host=url, token="good", ca_data=env.authority.pair.cert)


async def echo(forward: PortForward, data: bytes, size: int) -> bytes:
    """The answer to bytes that are sent through the local port."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(forward.url.rpartition(":")[2]))
    writer.write(data)
    async with asyncio.timeout(20):
        answer = await reader.readexactly(size) if size else await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_connections_reach_the_port_of_the_pod() -> None:
    """Each local connection has one to the pod, at the same time as others, with bytes of any number."""
    async with served() as (_, config), PortForward(config, namespace="default", pod="p", port=6060) as forward:
        answers = await asyncio.gather(*(echo(forward, b"abc", 10) for _ in range(5)))
        assert answers == [b"p:6060:ABC"] * 5
        answer = await echo(forward, b"x" * 300_000, 300_000)
        assert answer.count(b"X") > 299_000
        assert forward.last_error is None


async def test_a_port_that_nothing_listens_on_ends_the_connection() -> None:
    """The connection is closed, and the error of the pod's side is kept."""
    async with served() as (_, config), PortForward(config, namespace="default", pod="p", port=1) as forward:
        assert await echo(forward, b"abc", 0) == b""
        assert "connection refused" in str(forward.last_error)


async def test_a_refusal_has_the_error_of_the_server() -> None:
    """A pod that is missing, a missing permission, and a kubelet that is away raise typed errors."""
    async with served() as (env, config):
        with pytest.raises(NotFoundError, match='pods "q" not found'):
            await PortForward(config, namespace="default", pod="q", port=1).start()
        with pytest.raises(ForbiddenError):
            await PortForward(replace(config, token="bad"), namespace="default", pod="p", port=1).start()
        env.responders.forwarded = None
        with pytest.raises(ApiError, match="no preferred addresses found"):
            await PortForward(config, namespace="default", pod="p", port=1).start()
        with pytest.raises(UsageError, match="network address"):
            PortForward(env.config, namespace="default", pod="p", port=1)
