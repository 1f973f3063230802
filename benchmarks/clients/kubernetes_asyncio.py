"""kubernetes_asyncio: a generated client with a watch; cache, queue and workers are the user's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kubernetes_asyncio import client as api
from kubernetes_asyncio import config, watch

from benchmarks.clients.loop import ControlLoop
from benchmarks.objects import GROUP, PLURAL, VERSION
from benchmarks.protocol import Meter, Options, Sample, run_client


async def connect(options: Options) -> api.ApiClient:
    """Return a client for the kubeconfig's current context."""
    await config.load_kube_config(config_file=options["kubeconfig"])
    return api.ApiClient()


async def list_custom(custom: api.CustomObjectsApi, namespace: str) -> tuple[list[Any], str]:
    """List in pages; return the objects and the list's resource version."""
    items: list[Any] = []
    token = None
    while True:
        page = await custom.list_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, limit=500, _continue=token)
        items += page["items"]
        token = page["metadata"].get("continue")
        if not token:
            return items, page["metadata"]["resourceVersion"]


async def feed(
    custom: api.CustomObjectsApi, namespace: str, loop: ControlLoop[Any], synced: Callable[[], None]
) -> None:
    """List in pages, then watch from the list's resource version."""
    items, revision = await list_custom(custom, namespace)
    for item in items:
        loop.put(item["metadata"]["name"], item)
    synced()
    async with watch.Watch().stream(
        custom.list_namespaced_custom_object, GROUP, VERSION, namespace, PLURAL, resource_version=revision
    ) as stream:
        async for event in stream:
            item = event["object"]
            if event["type"] == "DELETED":
                loop.forget(item["metadata"]["name"])
            else:
                loop.put(item["metadata"]["name"], item)


async def reconcile_workload(options: Options) -> Sample:
    """Write one status for each of `count` objects."""
    done = asyncio.Event()
    written = 0
    namespace = options["namespace"]

    async def reconcile(widget: Any) -> None:
        nonlocal written
        value = widget["spec"]["value"]
        if widget.get("status", {}).get("observed") == value:
            return
        patch = {"status": {"observed": value}}
        name = widget["metadata"]["name"]
        await custom.patch_namespaced_custom_object_status(
            GROUP, VERSION, namespace, PLURAL, name, patch, _content_type="application/merge-patch+json"
        )
        written += 1
        if written == options["count"]:
            done.set()

    meter = Meter()
    client = await connect(options)
    custom = api.CustomObjectsApi(client)
    loop: ControlLoop[Any] = ControlLoop(reconcile, workers=options["workers"])
    await loop.run(feed(custom, namespace, loop, lambda: None), done)
    sample = meter.stop(written)
    await client.close()
    return sample


WORKLOADS: dict[str, Callable[[Options], Awaitable[Sample]]] = {"reconcile": reconcile_workload}

if __name__ == "__main__":
    run_client(WORKLOADS)
