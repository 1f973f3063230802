"""kubernetes_asyncio: a generated client with a watch; cache, queue and workers are the user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubernetes_asyncio import client as api
from kubernetes_asyncio import config, watch

from benchmarks.clients.peer import Peer, Put, workloads
from benchmarks.objects import GROUP, PLURAL, VERSION, config_map
from benchmarks.protocol import run_client


class KubernetesAsyncio(Peer):
    """See `Peer`."""

    async def connect(self) -> None:
        """Load the kubeconfig."""
        await config.load_kube_config(config_file=self.kubeconfig)
        self.client = api.ApiClient()
        self.core = api.CoreV1Api(self.client)
        self.custom = api.CustomObjectsApi(self.client)

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()

    async def feed(self, kind: str, put: Put, forget: Callable[[str], None], synced: Callable[[], None]) -> None:
        """List in pages, then watch from the list's resource version."""
        arguments: tuple[str, ...] = (self.namespace,)
        if kind == "widgets":
            list_, arguments = self.custom.list_namespaced_custom_object, (GROUP, VERSION, self.namespace, PLURAL)
        elif kind == "pods":
            list_ = self.core.list_namespaced_pod
        else:
            list_ = self.core.list_namespaced_config_map
        token, revision = None, ""
        while True:
            page = await list_(*arguments, limit=500, _continue=token)
            for item in page["items"] if kind == "widgets" else page.items:
                put(_name(item), item)
            meta = page["metadata"] if kind == "widgets" else page.metadata.to_dict()
            token = meta.get("continue") or meta.get("_continue")
            revision = meta.get("resourceVersion") or meta.get("resource_version")
            if not token:
                break
        synced()
        async with watch.Watch().stream(list_, *arguments, resource_version=revision) as stream:
            async for event in stream:
                item = event["object"]
                if event["type"] == "DELETED":
                    forget(_name(item))
                else:
                    put(_name(item), item)

    def value_of(self, widget: Any) -> int:
        """Return ``spec.value``."""
        value: int = widget["spec"]["value"]
        return value

    def observed_of(self, widget: Any) -> int | None:
        """Return ``status.observed``."""
        observed: int | None = widget.get("status", {}).get("observed")
        return observed

    def generation_of(self, widget: Any) -> int:
        """Return ``metadata.generation``."""
        generation: int = widget["metadata"]["generation"]
        return generation

    def node_of(self, pod: Any) -> str:
        """Return ``spec.nodeName``."""
        node: str = pod.spec.node_name
        return node

    async def write_status(self, widget: Any, value: int) -> None:
        """Merge-patch the status."""
        await self.custom.patch_namespaced_custom_object_status(
            *(GROUP, VERSION, self.namespace, PLURAL, widget["metadata"]["name"]),
            {"status": {"observed": value}},
            _content_type="application/merge-patch+json",
        )

    async def create(self, number: int) -> None:
        """Create a typed ConfigMap."""
        tree = config_map(self.namespace, number)
        meta = api.V1ObjectMeta(**tree["metadata"])
        await self.core.create_namespaced_config_map(self.namespace, api.V1ConfigMap(metadata=meta, data=tree["data"]))

    async def get(self, name: str) -> None:
        """Read a ConfigMap."""
        await self.core.read_namespaced_config_map(name, self.namespace)

    async def patch(self, name: str, value: str) -> None:
        """Merge-patch a ConfigMap."""
        patch = {"data": {"value": value}}
        await self.core.patch_namespaced_config_map(
            name, self.namespace, patch, _content_type="application/merge-patch+json"
        )


def _name(item: Any) -> str:
    name: str = item["metadata"]["name"] if isinstance(item, dict) else item.metadata.name
    return name


if __name__ == "__main__":
    run_client(workloads(KubernetesAsyncio))
