"""Debug pages of Pods, through port-forwards of a served environment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from opsdk import Cluster, ManagerOptions, NotFoundError, ObjectMeta, Unstructured, UsageError
from opsdk.api.core.v1 import Node, Pod
from opsdk.cli.top.targets import ForwardedClient
from opsdk.client.patch import merge_patch
from opsdk.errors import ConnectError
from opsdk.manager.manager import Manager
from opsdk.rest.config import RestConfig

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
user = pytest.importorskip("opsdk.apiserver.auth.user")
pytestmark = pytest.mark.realtime
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "site", "namespace": "default"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "site"}},
        "template": {"metadata": {"labels": {"app": "site"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}


class Standby:
    """An election that this replica does not win."""

    async def run(self) -> None:
        """Take part."""
        await asyncio.Event().wait()

    async def wait_elected(self) -> None:
        """Wait for ever."""
        await asyncio.Event().wait()

    async def release(self) -> None:
        """Release nothing."""


class World:
    """A served environment whose Pods are managers of this process."""

    def __init__(self, env: Any, client: Any, config: RestConfig) -> None:
        self.env, self.client, self.config = env, client, config
        self.ports: dict[str, int] = {}
        self._stack = AsyncExitStack()

    async def pod(self, name: str, *, leads: bool = True, ready: bool = True) -> None:
        """Create a Pod with debug pages; their page ``pod`` has its name."""
        manager = Manager(ManagerOptions(debug_bind_address="127.0.0.1:0"), election=None if leads else Standby())
        manager.debug.add("pod", lambda: name)
        running = asyncio.create_task(manager.start())
        await manager.wait_ready()
        self._stack.push_async_callback(self._stop, manager, running)
        (server,) = manager.http_servers
        self.ports[name] = server.port
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
        metadata = {"name": name, "namespace": "default", "labels": {"app": "site"}}
        tree = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        await self.client.create(Unstructured.from_tree(tree))
        status = {"status": {"conditions": [{"type": "Ready", "status": str(ready)}]}}
        pod = Pod(metadata=ObjectMeta(name=name, namespace="default"))
        await self.client.status().patch(pod, merge_patch(status))

    async def relay(self, pod: Any, port: int, pipe: Any) -> None:
        """Carry a connection to the manager of a Pod; only its port 6060 is open."""
        if port != 6060:
            raise OSError("connection refused")
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[pod["metadata"]["name"]])

        async def send() -> None:
            while data := await pipe.read():
                writer.write(data)

        sending = asyncio.ensure_future(send())
        try:
            while data := await reader.read(65536):
                await pipe.write(data)
        finally:
            sending.cancel()
            writer.close()

    @staticmethod
    async def _stop(manager: Manager, running: asyncio.Task[None]) -> None:
        manager.stop()
        await running

    async def aclose(self) -> None:
        """Stop the managers."""
        await self._stack.aclose()


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """A served environment with a node."""
    tokens = {"good": user.User(name="good", groups=("system:masters",))}
    async with environment.Environment(tokens=tokens) as env, Cluster(env.config) as cluster:
        await cluster.uncached.create(Node(metadata=ObjectMeta(name="n")))
        url = (await env.serve()).url
        created = World(env, cluster.uncached, RestConfig(host=url, token="good", ca_data=env.authority.pair.cert))
        env.responders.forwarded = created.relay
        try:
            yield created
        finally:
            await created.aclose()


async def test_a_pod_is_reached_through_the_api_server() -> None:
    """The pages of a Pod are read, and its actions answer: its server sees a client on its own host."""
    async with world() as w:
        await w.pod("a")
        async with ForwardedClient(lambda: w.config, 6060).pod("default/a") as client:
            assert (await client.pages(["pod"])) == {"pod": "a"}
        async with ForwardedClient(lambda: w.config, 6061).pod("default/a") as client:
            with pytest.raises(ConnectError, match="connection refused"):
                await client.pages(["pod"])
        async with ForwardedClient(lambda: w.config, 6060).pod("default/b") as client:
            with pytest.raises(NotFoundError, match='pods "b" not found'):
                await client.pages(["pod"])


async def test_the_leader_of_a_deployment_is_chosen() -> None:
    """Of the ready Pods the one that leads is read; after it is gone, the next call chooses again."""
    async with world() as w:
        await w.client.create(Unstructured.from_tree(DEPLOYMENT))
        async with ForwardedClient(lambda: w.config, 6060).deployment("default/site") as client:
            with pytest.raises(NotFoundError, match="no Pod that is ready: name one of its 0 Pods with --pod"):
                await client.pages(["pod"])
            await w.pod("a", leads=False)
            assert (await client.pages(["pod"])) == {"pod": "a"}
        await w.pod("b")
        await w.pod("c", ready=False)
        async with ForwardedClient(lambda: w.config, 6060).deployment("default/site") as client:
            assert (await client.pages(["pod"])) == {"pod": "b"}


def test_a_pod_needs_its_namespace() -> None:
    """A name without a namespace is refused before anything is opened."""
    forwarded = ForwardedClient(RestConfig, 6060)
    for key in ("a", "/a", "a/", "a/b/c"):
        with pytest.raises(UsageError, match="write NAMESPACE/NAME"):
            forwarded.pod(key)
        with pytest.raises(UsageError, match="write NAMESPACE/NAME"):
            forwarded.deployment(key)
