"""lightkube: a client with a watch; cache, queue and workers are the user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lightkube import AsyncClient, KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Pod
from lightkube.types import PatchType

from benchmarks.clients.peer import Peer, Put, workloads
from benchmarks.objects import GROUP, KIND, PLURAL, VERSION, config_map
from benchmarks.protocol import run_client

Widget = create_namespaced_resource(GROUP, VERSION, KIND, PLURAL)
KINDS = {"configmaps": ConfigMap, "pods": Pod, "widgets": Widget}


class Lightkube(Peer):
    """See `Peer`."""

    async def connect(self) -> None:
        """Load the kubeconfig."""
        config = KubeConfig.from_file(self.kubeconfig)
        self.client = AsyncClient(config=config, namespace=self.namespace, field_manager="bench")

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()

    async def feed(self, kind: str, put: Put, forget: Callable[[str], None], synced: Callable[[], None]) -> None:
        """List in pages, then watch from the list's resource version."""
        items = self.client.list(KINDS[kind], chunk_size=500)
        async for item in items:
            put(item.metadata.name, item)
        synced()
        async for event, item in self.client.watch(KINDS[kind], resource_version=items.resourceVersion):
            if event == "DELETED":
                forget(item.metadata.name)
            else:
                put(item.metadata.name, item)

    def value_of(self, widget: Any) -> int:
        """Return ``spec.value``."""
        value: int = widget.spec["value"]
        return value

    def observed_of(self, widget: Any) -> int | None:
        """Return ``status.observed``."""
        observed: int | None = (widget.status or {}).get("observed")
        return observed

    async def write_status(self, widget: Any, value: int) -> None:
        """Merge-patch the status."""
        patch = {"status": {"observed": value}}
        await self.client.patch(Widget.Status, widget.metadata.name, patch, patch_type=PatchType.MERGE)

    async def create(self, number: int) -> None:
        """Create a typed ConfigMap."""
        tree = config_map(self.namespace, number)
        await self.client.create(ConfigMap(metadata=ObjectMeta(**tree["metadata"]), data=tree["data"]))

    async def get(self, name: str) -> None:
        """Read a ConfigMap."""
        await self.client.get(ConfigMap, name)

    async def patch(self, name: str, value: str) -> None:
        """Merge-patch a ConfigMap."""
        await self.client.patch(ConfigMap, name, {"data": {"value": value}}, patch_type=PatchType.MERGE)


if __name__ == "__main__":
    run_client(workloads(Lightkube))
