"""The real kubectl against the API server, without an operator."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.realtime]


@pytest.mark.slow
async def test_lists_are_validated_and_applied(stage: Any) -> None:
    """A ``kind: List`` is checked by the v2 document in protobuf, which kubectl must be able to read."""
    try:
        await stage.server()
        items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in "ab"]
        manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        assert await stage.kubectl("apply", "-f", "-", stdin=manifest) == "configmap/a created\nconfigmap/b created\n"
        assert "unchanged" in await stage.kubectl("apply", "-f", "-", stdin=manifest)
    finally:
        await stage.close()


@pytest.mark.slow
async def test_custom_kinds_are_explained_and_patched(stage: Any, make_site: Any) -> None:
    """Explain knows the schema of a kind that was just defined; apply changes its objects by merge patch."""
    try:
        await stage.server()
        await stage.install_kind()
        assert "replicas" in await stage.kubectl("explain", "website.spec")
        for image in ("nginx:1", "nginx:2"):
            await stage.kubectl("apply", "-f", "-", stdin=json.dumps(make_site("a", image)))
        assert await stage.kubectl("get", "site", "a", "-o", "jsonpath={.spec.image}") == "nginx:2"
        refused = await stage.kubectl("apply", "-f", "-", stdin=json.dumps(make_site("b", "")), check=False)
        assert "spec.image" in refused
        strict = {**make_site("c"), "spec": {"image": "x", "imagee": "y"}}
        refused = await stage.kubectl("apply", "-f", "-", stdin=json.dumps(strict), check=False)
        assert 'unknown field "spec.imagee"' in refused
    finally:
        await stage.close()


async def test_watches_go_on_with_one_head(stage: Any, wait_until: Any) -> None:
    """``kubectl get --watch`` prints a row for each change and deletion, below one line of column names."""
    try:
        await stage.server()
        watch = await stage.follow("get", "configmaps", "-w", "-l", "app=x", "--output-watch-events")
        await stage.kubectl("create", "configmap", "a")
        await stage.kubectl("label", "configmap", "a", "app=x")
        await wait_until("the label", _said(watch, "ADDED", "a"))
        await stage.kubectl("patch", "configmap", "a", "-p", '{"data":{"k":"v"}}')
        await wait_until("the change", _said(watch, "MODIFIED", "a", "1"))
        await stage.kubectl("delete", "configmap", "a")
        await wait_until("the end", _said(watch, "DELETED", "a", "1"))
        lines = watch.said().splitlines()
        assert lines[0].split() == ["EVENT", "NAME", "DATA", "AGE"]
        assert [line.split()[0] for line in lines[1:]] == ["ADDED", "MODIFIED", "DELETED"]
    finally:
        await stage.close()


def _said(program: Any, *words: str) -> Any:
    async def look() -> bool:
        return any(line.split()[: len(words)] == list(words) for line in program.said().splitlines())

    return look


@pytest.mark.slow
async def test_others_may_talk_through_a_proxy(stage: Any, wait_until: Any) -> None:
    """``kubectl proxy`` forwards all requests, also watches."""
    try:
        await stage.server()
        proxy = await stage.follow("proxy", "--port=0")

        async def serves() -> bool:
            return "Starting to serve on " in proxy.said()

        await wait_until("the proxy", serves)
        base = f"http://{proxy.said().split('Starting to serve on ')[1].split()[0]}"
        async with httpx.AsyncClient(base_url=base, trust_env=False) as client:
            assert (await client.get("/api/v1/namespaces/default")).json()["metadata"]["name"] == "default"
            tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
            assert (await client.post("/api/v1/namespaces/default/configmaps", json=tree)).status_code == 201
            watch = "/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1&fieldSelector=metadata.name=a"
            events = [json.loads(line) for line in (await client.get(watch)).text.splitlines()]
            assert [event["type"] for event in events] == ["ADDED"]
    finally:
        await stage.close()


@pytest.mark.slow
async def test_a_whole_cluster_is_dumped(stage: Any) -> None:
    """``kubectl cluster-info dump`` finds nodes, events and logs where it looks for them."""
    try:
        await stage.server()
        folder = stage.folder / "dump"
        await stage.kubectl("cluster-info", "dump", f"--output-directory={folder}", "--all-namespaces")
        nodes = json.loads((folder / "nodes.json").read_text())
        assert [node["metadata"]["name"] for node in nodes["items"]] == ["node-1"]
        assert json.loads((folder / "default" / "services.json").read_text())["items"]
    finally:
        await stage.close()
