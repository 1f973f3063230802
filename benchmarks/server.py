"""The server under the clients: `envtest serve` in a process of its own, or the cluster of a kubeconfig."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.objects import Tree, widget_definition
from opsdk import AlreadyExistsError, Cluster, RestConfig, Unstructured, load_config
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import to_dict

WRITES_AT_ONCE = 32
_SERVE = ("--exit-with-parent",)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A server with a connection to it.

    Attributes:
        kubeconfig: path of the file that clients get.
        cluster: the orchestrator's own connection.
        pid: the server's process; None for a cluster that this run did not start.
        ready_after: seconds from the start of the server's process to its first line; 0 for a foreign cluster.
    """

    kubeconfig: Path
    cluster: Cluster
    pid: int | None
    ready_after: float

    async def create(self, trees: Iterable[Tree]) -> None:
        """Create objects, many at once; objects that exist are left as they are."""

        async def create(tree: Tree) -> None:
            try:
                await self.cluster.uncached.create(Unstructured.from_tree(tree))
            except AlreadyExistsError:
                return

        await for_each(trees, create)

    async def create_namespace(self, name: str) -> None:
        """Create a namespace unless it exists."""
        await self.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])

    async def trees(self, api_version: str, kind: str, namespace: str) -> list[Tree]:
        """Return all objects of a kind in a namespace."""
        items = await self.cluster.uncached.list(unstructured_kind(api_version, kind), namespace=namespace)
        return [to_dict(item) for item in items]

    async def count(self, api_version: str, kind: str, namespace: str) -> int:
        """Return the number of objects of a kind in a namespace."""
        page = await self.cluster.uncached.list(unstructured_kind(api_version, kind), namespace=namespace, limit=1)
        return len(list(page)) + (page.metadata.remaining_item_count or 0)

    async def delete_all(self, api_version: str, kind: str, namespace: str) -> None:
        """Delete all objects of a kind in a namespace with one request."""
        await self.cluster.uncached.delete_all_of(unstructured_kind(api_version, kind), namespace=namespace)


async def for_each(items: Iterable[Tree], work: Callable[[Tree], Awaitable[None]]) -> None:
    """Call `work` for each item, `WRITES_AT_ONCE` at a time."""
    remaining = iter(items)

    async def lane() -> None:
        for item in remaining:
            await work(item)

    lanes = [asyncio.ensure_future(lane()) for _ in range(WRITES_AT_ONCE)]
    try:
        await asyncio.gather(*lanes)  # a plain error of the server, where a task group would raise a group
    finally:
        for task in lanes:
            task.cancel()


@asynccontextmanager
async def server_process(*arguments: str) -> AsyncIterator[tuple[Path, int, float]]:
    """Start a server with TLS; yield its kubeconfig, its process id and the seconds until it was ready."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "envtest",
                "serve",
                "--port",
                "0",
                "--kubeconfig",
                str(kubeconfig),
                *_SERVE,
                *arguments,
            ),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            await process.stdout.readline()
            yield kubeconfig, process.pid, time.perf_counter() - began
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


@asynccontextmanager
async def open_world(kubeconfig: Path | None) -> AsyncIterator[World]:
    """Yield a server with the definition of Widget: a new one, or the cluster of `kubeconfig`."""
    if kubeconfig is not None:
        async with _connected(kubeconfig, None, 0.0) as world:
            yield world
        return
    async with server_process() as (path, pid, seconds), _connected(path, pid, seconds) as world:
        yield world


@asynccontextmanager
async def _connected(kubeconfig: Path, pid: int | None, seconds: float) -> AsyncIterator[World]:
    config: RestConfig = load_config(kubeconfig=kubeconfig)
    async with Cluster(config) as cluster:
        world = World(kubeconfig=kubeconfig, cluster=cluster, pid=pid, ready_after=seconds)
        await world.create([widget_definition()])
        yield world
