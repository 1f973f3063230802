"""kr8s: a client with objects like kubectl's; cache, queue and workers are the user's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import kr8s.asyncio
from kr8s.asyncio.objects import new_class

from benchmarks.clients.loop import ControlLoop
from benchmarks.objects import GROUP, KIND, PLURAL, VERSION
from benchmarks.protocol import Meter, Options, Sample, run_client

Widget = new_class(kind=KIND, version=f"{GROUP}/{VERSION}", namespaced=True, plural=PLURAL, asyncio=True)


async def connect(options: Options) -> Any:
    """Return the API of the kubeconfig's current context."""
    return await kr8s.asyncio.api(kubeconfig=options["kubeconfig"], namespace=options["namespace"])


async def feed(api: Any, kind: Any, loop: ControlLoop[Any], synced: Callable[[], None]) -> None:
    """List, then watch: kr8s does not give the list's resource version, so the watch begins with all objects again."""
    async for item in api.async_get(kind):
        loop.put(item.name, item)
    synced()
    async for event, item in api.async_watch(kind):
        if event == "DELETED":
            loop.forget(item.name)
        else:
            loop.put(item.name, item)


async def reconcile_workload(options: Options) -> Sample:
    """Write one status for each of `count` objects."""
    done = asyncio.Event()
    names: set[str] = set()

    async def reconcile(widget: Any) -> None:
        value = widget.spec.value
        if widget.raw.get("status", {}).get("observed") == value:
            return
        await widget.async_patch({"status": {"observed": value}}, subresource="status")
        names.add(widget.name)
        if len(names) == options["count"]:
            done.set()

    meter = Meter()
    api = await connect(options)
    loop: ControlLoop[Any] = ControlLoop(reconcile, workers=options["workers"])
    await loop.run(feed(api, Widget, loop, lambda: None), done)
    return meter.stop(len(names))


WORKLOADS: dict[str, Callable[[Options], Awaitable[Sample]]] = {"reconcile": reconcile_workload}

if __name__ == "__main__":
    run_client(WORKLOADS)
