"""kr8s: a client with objects like kubectl's; cache, queue and workers are the user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kr8s.asyncio
from kr8s.asyncio.objects import ConfigMap, Pod, new_class

from benchmarks.clients.peer import Peer, Put, workloads
from benchmarks.objects import GROUP, KIND, PLURAL, VERSION, config_map
from benchmarks.protocol import run_client

Widget = new_class(kind=KIND, version=f"{GROUP}/{VERSION}", namespaced=True, plural=PLURAL, asyncio=True)
KINDS = {"configmaps": ConfigMap, "pods": Pod, "widgets": Widget}


class Kr8s(Peer):
    """See `Peer`."""

    async def connect(self) -> None:
        """Load the kubeconfig."""
        self.api = await kr8s.asyncio.api(kubeconfig=self.kubeconfig, namespace=self.namespace)

    async def feed(self, kind: str, put: Put, forget: Callable[[str], None], synced: Callable[[], None]) -> None:
        """List, then watch: kr8s hides the list's resource version, so the watch begins with all objects again."""
        async for item in self.api.async_get(KINDS[kind]):
            put(item.name, item)
        synced()
        async for event, item in self.api.async_watch(KINDS[kind]):
            if event == "DELETED":
                forget(item.name)
            else:
                put(item.name, item)

    def value_of(self, widget: Any) -> int:
        """Return ``spec.value``."""
        value: int = widget.spec.value
        return value

    def observed_of(self, widget: Any) -> int | None:
        """Return ``status.observed``."""
        observed: int | None = widget.raw.get("status", {}).get("observed")
        return observed

    async def write_status(self, widget: Any, value: int) -> None:
        """Merge-patch the status."""
        await widget.async_patch({"status": {"observed": value}}, subresource="status")

    async def create(self, number: int) -> None:
        """Create a ConfigMap."""
        await (await ConfigMap(config_map(self.namespace, number), api=self.api)).async_create()

    async def get(self, name: str) -> None:
        """Read a ConfigMap."""
        await ConfigMap.async_get(name, namespace=self.namespace, api=self.api)

    async def patch(self, name: str, value: str) -> None:
        """Merge-patch a ConfigMap without reading it first."""
        tree = {"metadata": {"name": name, "namespace": self.namespace}}
        await (await ConfigMap(tree, api=self.api)).async_patch({"data": {"value": value}})


if __name__ == "__main__":
    run_client(workloads(Kr8s))
