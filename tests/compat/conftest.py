"""One server for the tests of other Python clients, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import pytest

import envtest
from envtest.data.versions import VERSIONS, chosen_version
from opsdk import Cluster
from opsdk.api.core.v1 import Namespace
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.structured_merge.value import JsonObject

T = TypeVar("T")
CLIENTS = ("kopf", "kr8s", "kubernetes", "kubernetes_asyncio", "lightkube")
MISSING = [name for name in CLIENTS if find_spec(name) is None]
collect_ignore_glob = ["toys_operator.py", "kopf_operators", *(["test_with_*.py"] if MISSING else [])]


class Served:
    """An environment that serves from its own thread: most clients block."""

    def __init__(self, folder: Path, *, kubernetes: str | None = None) -> None:
        self.kubeconfig, self.kubernetes = folder / "kubeconfig", chosen_version(kubernetes)
        self._loop = asyncio.new_event_loop()
        self._ready, self._stop = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)
        self._thread.start()
        assert self._ready.wait(30)

    async def _serve(self) -> None:
        async with envtest.Environment(controllers="cluster", kubernetes=self.kubernetes) as self.env:
            web = await self.env.serve(port=0)
            self.kubeconfig.write_text(self.env.kubeconfig(web))
            self.env.responders.logs = lambda pod, container: f"{pod['metadata']['name']}\n{container}\n"
            self._ready.set()
            await self._stop.wait()

    def call(self, act: Callable[[envtest.Environment], T]) -> T:
        """What `act` makes of the environment, in its thread."""

        async def run() -> T:
            return act(self.env)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(30)

    def make_namespace(self, name: str) -> None:
        """Create it."""

        async def make() -> None:
            async with Cluster(self.env.config) as cluster:
                await cluster.uncached.create(Namespace(metadata=ObjectMeta(name=name)))

        asyncio.run_coroutine_threadsafe(make(), self._loop).result(30)

    def stop(self) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        self._loop.close()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The server."""
    created = Served(tmp_path_factory.mktemp("served"))
    yield created
    created.stop()


@pytest.fixture(scope="session")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of the newest version of Kubernetes, which is not the default one."""
    created = Served(tmp_path_factory.mktemp("newest"), kubernetes=list(VERSIONS)[-1])
    yield created
    created.stop()


@pytest.fixture
def kubeconfig(served: Served, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of its kubeconfig, which clients find by themselves, too."""
    monkeypatch.setenv("KUBECONFIG", str(served.kubeconfig))
    return str(served.kubeconfig)


@pytest.fixture
def namespace(served: Served, request: pytest.FixtureRequest) -> str:
    """A namespace for this test."""
    words = f"{request.node.path.stem.removeprefix('test_with_')}-{request.node.name.removeprefix('test_')}"
    name = words.replace("_", "-")[:63].rstrip("-")
    served.make_namespace(name)
    return name


@pytest.fixture
def definition() -> Callable[[str], JsonObject]:
    """Makes definitions of namespaced kinds with a status and a scale, in groups of their own."""

    def make(group: str) -> JsonObject:
        counted = {"type": "object", "properties": {"replicas": {"type": "integer"}}}
        schema = {
            "type": "object",
            "properties": {"spec": counted, "status": {**counted, "x-kubernetes-preserve-unknown-fields": True}},
        }
        scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        version = {
            "name": "v1",
            "served": True,
            "storage": True,
            "subresources": {"status": {}, "scale": scale},
            "schema": {"openAPIV3Schema": schema},
        }
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"toys.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": "toys", "singular": "toy", "kind": "Toy", "listKind": "ToyList"},
                "versions": [version],
            },
        }

    return make
