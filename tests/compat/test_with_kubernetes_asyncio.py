"""The official client's asyncio sibling."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.api_client import ApiClient
from kubernetes_asyncio.dynamic import DynamicClient

pytestmark = [pytest.mark.e2e, pytest.mark.realtime]


async def connected(kubeconfig: str) -> ApiClient:
    """A client of the server."""
    return await config.new_client_from_config(kubeconfig)


async def test_objects_patches_and_watches(kubeconfig: str, namespace: str) -> None:
    """Patches from dicts, and a watch that tells what there is."""
    async with await connected(kubeconfig) as api:
        v1 = client.CoreV1Api(api)
        await v1.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        patched = await v1.patch_namespaced_config_map("a", namespace, {"data": {"z": "1"}})
        assert patched.data == {"k": "v", "z": "1"}
        async with watch.Watch().stream(v1.list_namespaced_config_map, namespace, timeout_seconds=1) as stream:
            seen = [(event["type"], event["object"].metadata.name) async for event in stream]
        assert ("ADDED", "a") in seen
        raw = await v1.list_namespaced_config_map(namespace, _preload_content=False)
        assert json.loads(await raw.read())["kind"] == "ConfigMapList"


async def test_the_dynamic_client(kubeconfig: str, namespace: str, definition: Any) -> None:
    """Kinds that were defined a moment ago are found and patched."""
    async with await connected(kubeconfig) as api:
        await client.ApiextensionsV1Api(api).create_custom_resource_definition(definition("asyncio.test"))
        found = await (await DynamicClient(api)).resources.get(api_version="v1", kind="ConfigMap")
        await found.create(body={"metadata": {"name": "a"}}, namespace=namespace)
        assert "a" in [item.metadata.name for item in (await found.get(namespace=namespace)).items]
        toys = client.CustomObjectsApi(api)
        where = ("asyncio.test", "v1", namespace, "toys")
        body = {"apiVersion": "asyncio.test/v1", "kind": "Toy", "metadata": {"name": "t"}, "spec": {"replicas": 1}}
        await toys.create_namespaced_custom_object(*where, body)
        change = {"spec": {"replicas": 3}}
        merge = "application/merge-patch+json"
        patched = await toys.patch_namespaced_custom_object(*where, "t", change, _content_type=merge)
        assert patched["spec"] == {"replicas": 3}
