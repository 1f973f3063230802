"""Health checks, metrics, and the server's address."""

from __future__ import annotations

import asyncio

import pytest
from inprocess_webhooks import Hooks, configure, hook
from server_caller import Caller

import envtest
from envtest.plane.health import CHECKS
from envtest.testing.effects import Delay
from opsdk import Cluster
from opsdk.api.core.v1 import ConfigMap
from opsdk.structured_merge.value import JsonObject


async def page(env: envtest.Environment, path: str, *, status: int = 200, token: str | None = None) -> str:
    """The text of a page."""
    answer = await Caller(env, token)("GET", path)
    assert answer.status == status
    return answer.raw.decode()


@pytest.mark.parametrize("kind", CHECKS)
async def test_every_health_check_has_a_path(kind: str) -> None:
    """Each listed health check has a path of its own, and can be excluded."""
    async with envtest.Environment() as env:
        lines = (await page(env, f"/{kind}?verbose")).splitlines()
        assert lines == [*(f"[+]{name} ok" for name in CHECKS[kind]), f"{kind} check passed"]
        assert await page(env, f"/{kind}/poststarthook/rbac/bootstrap-roles") == "ok"
        await page(env, f"/{kind}/poststarthook", status=404)
        page_text = await page(env, f"/{kind}?verbose&exclude=log&exclude=none")
        assert "[+]log excluded: ok" in page_text
        assert 'warn: some health checks cannot be excluded: no matches for "none"\n' in page_text


async def test_answers_and_objects_are_counted() -> None:
    """Requests are counted by resource, verb and code, and objects by resource."""
    async with envtest.Environment() as env:
        call = Caller(env)
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        for _ in range(2):
            await call("POST", "/api/v1/namespaces/default/configmaps", tree)
        await call("GET", "/api/v1/pods?limit=5")
        page_text = await page(env, "/metrics")
        about = 'component="apiserver",dry_run="",group="",resource="configmaps",scope="namespace"'
        assert f'apiserver_request_total{{code="201",{about},subresource="",verb="POST",version="v1"}} 1.0' in page_text
        assert f'apiserver_request_total{{code="409",{about},subresource="",verb="POST",version="v1"}} 1.0' in page_text
        assert 'resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"} 1.0' in page_text
        assert 'apiserver_resource_objects{group="",resource="namespaces"} 4.0' in page_text
        assert "kubernetes_build_info{" in page_text
        assert 'kubernetes_healthcheck{name="etcd",type="healthz"} 1.0' in await page(env, "/metrics/slis")
        assert "/metrics" in await page(env, "/")
        await page(env, "/metrics", status=403, token="")


async def test_odd_paths_are_counted_together_once_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown paths share one metric, so clients cannot make the server's memory grow."""
    monkeypatch.setattr("envtest.plane.metrics._MOST", 3)
    async with envtest.Environment() as env:
        call = Caller(env)
        for number in range(10):
            await call("GET", f"/apis/none.io/v{number}/things")
        page_text = await page(env, "/metrics")
        assert page_text.count("\napiserver_request_total{") <= 4
        assert 'verb="OTHER"' in page_text


async def test_durations_are_those_of_the_clock_of_the_test() -> None:
    """A delayed request stands in the bucket of its delay; all status codes of a request share a histogram."""
    async with envtest.Environment() as env:
        call = Caller(env)
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        await call("POST", "/api/v1/namespaces/default/configmaps", tree)
        with env.faults.add(Delay(0.3)):
            await call("POST", "/api/v1/namespaces/default/configmaps", tree)
        lines = (await page(env, "/metrics")).splitlines()
    name, resource = "apiserver_request_duration_seconds", 'resource="configmaps",scope="namespace"'
    counts = {
        line.partition('le="')[2].partition('"')[0]: float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith(f"{name}_bucket") and resource in line and 'verb="POST"' in line
    }
    assert (counts["0.2"], counts["0.4"], counts["+Inf"]) == (1, 2, 2)


def counts(page_text: str, name: str, *labels: str) -> dict[str, float]:
    """The buckets of a histogram whose labels have these texts, by upper bound."""
    lines = (line for line in page_text.splitlines() if line.startswith(f"{name}_bucket{{"))
    return {
        line.partition('le="')[2].partition('"')[0]: float(line.rpartition(" ")[2])
        for line in lines
        if all(label in line for label in labels)
    }


async def test_admission_is_measured_by_step_and_plugin() -> None:
    """A rejection counts for the plugin that rejects, and for its step; later plugins are not called."""
    async with envtest.Environment() as env:
        call = Caller(env)
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        await call("POST", "/api/v1/namespaces/default/configmaps", tree)
        before = await page(env, "/metrics")
        assert (await call("POST", "/api/v1/namespaces/none/configmaps", tree)).status == 404
        after = await page(env, "/metrics")
    step, plugin = (f"apiserver_admission_{name}_admission_duration_seconds" for name in ("step", "controller"))
    rejected = ('operation="CREATE"', 'rejected="true"', 'type="admit"')
    assert not counts(before, step, *rejected)
    assert counts(after, step, *rejected)["+Inf"] == 1
    assert counts(after, plugin, 'name="NamespaceLifecycle"', *rejected)["+Inf"] == 1
    quota = ('name="ResourceQuota"', 'operation="CREATE"', 'rejected="false"', 'type="validate"')
    assert counts(after, plugin, *quota) == counts(before, plugin, *quota)
    assert list(counts(after, plugin, *quota)) == ["0.005", "0.025", "0.1", "0.5", "1.0", "2.5", "+Inf"]


async def test_webhooks_are_measured_by_name() -> None:
    """The time of a call is that of the clock of the test. A failure that is ignored rejects nothing."""

    async def answer(path: str, _: object) -> JsonObject | bytes:
        await asyncio.sleep(0.3)
        return b"broken" if path == "/broken" else {"allowed": path == "/yes"}

    results = {"yes": "false", "no": "true", "broken": "false"}
    async with envtest.Environment() as env:
        call = Caller(env)
        Hooks(answer).join(env)
        await configure(call, *(hook(name, f"/{name}", failurePolicy="Ignore") for name in results))
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        assert (await call("POST", "/api/v1/namespaces/default/configmaps", tree)).status == 400
        text = await page(env, "/metrics")
    for name, rejected in results.items():
        labels = (f'name="{name}.hooks.example.com"', 'operation="CREATE"', f'rejected="{rejected}"')
        buckets = counts(text, "apiserver_admission_webhook_admission_duration_seconds", 'type="validating"', *labels)
        assert (buckets["0.1"], buckets["0.5"], buckets["25.0"]) == (0, 1, 1), name


async def test_requests_to_the_storage_are_measured() -> None:
    """By operation and resource; the group of core kinds is empty."""
    async with envtest.Environment() as env:
        call = Caller(env)
        path = "/apis/node.k8s.io/v1/runtimeclasses"
        tree = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "a"}, "handler": "a"}
        created = (await call("POST", path, tree)).json
        await call("GET", f"{path}/a")
        await call("GET", path)
        await call("PUT", f"{path}/a", {**created, "metadata": {**created["metadata"], "labels": {"b": "c"}}})
        await call("DELETE", f"{path}/a")
        text = await page(env, "/metrics")
    name = "etcd_request_duration_seconds"
    for operation in ("create", "get", "list", "update", "delete"):
        labels = ('group="node.k8s.io"', f'operation="{operation}"', 'resource="runtimeclasses"')
        assert counts(text, name, *labels)["+Inf"] == 1, operation
    assert counts(text, name, 'group=""', 'operation="create"', 'resource="namespaces"')["+Inf"] == 4


async def test_open_watches_are_counted() -> None:
    """A watch counts until it ends, by its resource."""
    async with envtest.Environment() as env, Cluster(env.config) as cluster:
        async with cluster.uncached.watch(ConfigMap, namespace="default"):
            text = await page(env, "/metrics")
            line = 'scope="namespace",subresource="",verb="WATCH",version="v1"} 1.0'
            assert (
                f'apiserver_longrunning_requests{{component="apiserver",group="",resource="configmaps",{line}' in text
            )
        await asyncio.sleep(1)
        assert "\napiserver_longrunning_requests{" not in await page(env, "/metrics")


@pytest.mark.realtime
async def test_the_kubernetes_service_leads_to_the_server() -> None:
    """Target port and endpoints of the Service ``kubernetes`` are the server's address."""
    async with envtest.Environment() as env:
        call = Caller(env)
        web = await env.serve()
        service = (await call("GET", "/api/v1/namespaces/default/services/kubernetes")).json
        assert service["spec"]["ports"] == [
            {"name": "https", "port": 443, "protocol": "TCP", "targetPort": web.port},
        ]
        assert service["metadata"]["creationTimestamp"]
        points = (await call("GET", "/api/v1/namespaces/default/endpoints/kubernetes")).json
        assert points["subsets"][0]["ports"][0]["port"] == web.port
        parts = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
        part = (await call("GET", parts)).json
        assert part["ports"][0]["port"] == web.port
        assert part["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}
        await call("DELETE", parts)
        await env.serve()
        assert (await call("GET", parts)).status == 404
