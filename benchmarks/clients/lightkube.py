"""lightkube: a client with a watch; cache, queue and workers are the user's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from lightkube import AsyncClient, KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.types import PatchType

from benchmarks.clients.loop import ControlLoop
from benchmarks.objects import GROUP, KIND, PLURAL, VERSION
from benchmarks.protocol import Meter, Options, Sample, run_client

Widget = create_namespaced_resource(GROUP, VERSION, KIND, PLURAL)


def connect(options: Options) -> AsyncClient:
    """Return a client for the kubeconfig's current context."""
    return AsyncClient(config=KubeConfig.from_file(options["kubeconfig"]), namespace=options["namespace"])


async def feed(client: AsyncClient, kind: Any, loop: ControlLoop[Any], synced: Callable[[], None]) -> None:
    """List in pages, then watch from the list's resource version."""
    items = client.list(kind, chunk_size=500)
    async for item in items:
        loop.put(item.metadata.name, item)
    synced()
    async for event, item in client.watch(kind, resource_version=items.resourceVersion):
        if event == "DELETED":
            loop.forget(item.metadata.name)
        else:
            loop.put(item.metadata.name, item)


async def reconcile_workload(options: Options) -> Sample:
    """Write one status for each of `count` objects."""
    done = asyncio.Event()
    written = 0

    async def reconcile(widget: Any) -> None:
        nonlocal written
        value = widget.spec["value"]
        if (widget.status or {}).get("observed") == value:
            return
        patch = {"status": {"observed": value}}
        await client.patch(Widget.Status, widget.metadata.name, patch, patch_type=PatchType.MERGE)
        written += 1
        if written == options["count"]:
            done.set()

    meter = Meter()
    client = connect(options)
    loop: ControlLoop[Any] = ControlLoop(reconcile, workers=options["workers"])
    await loop.run(feed(client, Widget, loop, lambda: None), done)
    sample = meter.stop(written)
    await client.close()
    return sample


WORKLOADS: dict[str, Callable[[Options], Awaitable[Sample]]] = {"reconcile": reconcile_workload}

if __name__ == "__main__":
    run_client(WORKLOADS)
