"""The official client's asyncio sibling."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.api_client import ApiClient
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.dynamic import DynamicClient

pytestmark = [pytest.mark.e2e, pytest.mark.realtime]
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"


@asynccontextmanager
async def connected(kubeconfig: str) -> AsyncIterator[ApiClient]:
    """A client of the server."""
    async with await config.new_client_from_config(kubeconfig) as api:
        yield api


async def eventually(look: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(15):
        while not await look():
            await asyncio.sleep(0.02)


async def test_objects_patches_and_watches(kubeconfig: str, namespace: str) -> None:
    """Patches from dicts, and a watch that tells what there is."""
    async with connected(kubeconfig) as api:
        v1 = client.CoreV1Api(api)
        await v1.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        patched = await v1.patch_namespaced_config_map("a", namespace, {"data": {"z": "1"}})
        assert patched.data == {"k": "v", "z": "1"}
        gone = {"data": {"z": None}}
        assert (await v1.patch_namespaced_config_map("a", namespace, gone, _content_type=MERGE)).data == {"k": "v"}
        async with watch.Watch().stream(v1.list_namespaced_config_map, namespace, timeout_seconds=1) as stream:
            events = [(event["type"], event["object"].metadata.name) async for event in stream]
        assert ("ADDED", "a") in events
        raw = await v1.list_namespaced_config_map(namespace, _preload_content=False)
        assert json.loads(await raw.read())["kind"] == "ConfigMapList"


async def test_fields_are_applied_and_defended(kubeconfig: str, namespace: str) -> None:
    """Server-side apply: a second manager conflicts until it insists."""
    async with connected(kubeconfig) as api:
        v1 = client.CoreV1Api(api)

        async def apply(value: str, manager: str, **more: Any) -> Any:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": value}}
            return await v1.patch_namespaced_config_map(
                "a", namespace, body, field_manager=manager, _content_type=APPLY, **more
            )

        await apply("1", "one")
        with pytest.raises(ApiException) as refused:
            await apply("2", "two")
        assert refused.value.status == 409
        assert (await apply("2", "two", force=True)).data == {"k": "2"}


async def test_watches_resume_and_expire(kubeconfig: str, namespace: str, served: Any) -> None:
    """A watch resumes at its version; one from before the history gets 410."""
    async with connected(kubeconfig) as api:
        v1 = client.CoreV1Api(api)
        first = (await v1.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}})).metadata
        await v1.create_namespaced_config_map(namespace, {"metadata": {"name": "b"}})
        many = v1.list_namespaced_config_map
        async with watch.Watch().stream(many, namespace, resource_version=first.resource_version) as stream:
            event = await anext(aiter(stream))
            assert (event["type"], event["object"].metadata.name) == ("ADDED", "b")
        served.call(lambda env: env.faults.compact())
        old = {"resource_version": first.resource_version, "timeout_seconds": 2}
        async with watch.Watch().stream(many, namespace, **old) as stream:
            with pytest.raises(ApiException) as gone:
                await anext(aiter(stream))
        assert gone.value.status == 410


async def test_many_at_once(kubeconfig: str, namespace: str) -> None:
    """A hundred requests side by side; pages add up to all of it."""
    async with connected(kubeconfig) as api:
        v1 = client.CoreV1Api(api)
        bodies = ({"metadata": {"name": f"m{n:02}", "labels": {"many": "yes"}}} for n in range(100))
        await asyncio.gather(*(v1.create_namespaced_config_map(namespace, body) for body in bodies))
        names, more = [], ""
        while more is not None:
            page = await v1.list_namespaced_config_map(namespace, limit=33, _continue=more, label_selector="many")
            names += [item.metadata.name for item in page.items]
            more = page.metadata._continue or None
        assert names == [f"m{n:02}" for n in range(100)]
        await v1.delete_collection_namespaced_config_map(namespace, label_selector="many=yes")
        assert not (await v1.list_namespaced_config_map(namespace, label_selector="many")).items


async def test_workloads_scale_and_log(kubeconfig: str, namespace: str) -> None:
    """A Deployment is scaled, and the logs of a pod are streamed."""
    async with connected(kubeconfig) as api:
        apps, v1 = client.AppsV1Api(api), client.CoreV1Api(api)
        labels = {"app": "d"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"selector": {"matchLabels": labels}, "template": template}
        await apps.create_namespaced_deployment(namespace, {"metadata": {"name": "d"}, "spec": spec})
        await apps.patch_namespaced_deployment_scale("d", namespace, {"spec": {"replicas": 2}})

        async def ready() -> bool:
            return (await apps.read_namespaced_deployment_status("d", namespace)).status.ready_replicas == 2

        await eventually(ready)
        pod = (await v1.list_namespaced_pod(namespace, label_selector="app=d")).items[0].metadata.name
        assert await v1.read_namespaced_pod_log(pod, namespace) == f"{pod}\nc\n"
        follow = v1.read_namespaced_pod_log
        async with watch.Watch().stream(follow, pod, namespace) as lines:
            assert [line.strip() async for line in lines] == [pod, "c"]


async def test_the_dynamic_client(kubeconfig: str, namespace: str, definition: Any) -> None:
    """Kinds that were defined a moment ago are found and patched."""
    async with connected(kubeconfig) as api:
        await client.ApiextensionsV1Api(api).create_custom_resource_definition(definition("asyncio.test"))
        result = await (await DynamicClient(api)).resources.get(api_version="v1", kind="ConfigMap")
        await result.create(body={"metadata": {"name": "a"}}, namespace=namespace)
        assert "a" in [item.metadata.name for item in (await result.get(namespace=namespace)).items]
        toys = client.CustomObjectsApi(api)
        where = ("asyncio.test", "v1", namespace, "toys")
        body = {"apiVersion": "asyncio.test/v1", "kind": "Toy", "metadata": {"name": "t"}, "spec": {"replicas": 1}}
        await toys.create_namespaced_custom_object(*where, body)
        change = {"spec": {"replicas": 3}}
        patched = await toys.patch_namespaced_custom_object(*where, "t", change, _content_type=MERGE)
        assert patched["spec"] == {"replicas": 3}
        async with watch.Watch().stream(toys.list_namespaced_custom_object, *where, timeout_seconds=1) as stream:
            assert [event["object"]["metadata"]["name"] async for event in stream] == ["t"]
