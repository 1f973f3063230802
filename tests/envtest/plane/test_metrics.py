"""Health checks, metrics, and the server's address."""

from __future__ import annotations

import asyncio

import pytest
from server_caller import Caller

import envtest
from envtest.plane.health import CHECKS
from envtest.testing.effects import Delay
from opsdk import Cluster
from opsdk.api.core.v1 import ConfigMap


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
