"""The real Prometheus scrapes an operator over TLS with a token."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from http_servers import make_ca

from envtest.environment import Environment
from opsdk.api.core.v1 import ConfigMap
from opsdk.api.rbac.v1 import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.builder.operator import Operator, OperatorOptions
from opsdk.cluster.cluster import Cluster
from opsdk.event.request import Request
from opsdk.manager.manager import Manager, ManagerOptions
from opsdk.structured_merge.value import JsonValue

pytestmark = [
    pytest.mark.realtime,
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("prometheus") is None, reason="needs prometheus on PATH (Debian's package prometheus has it)"
    ),
]

CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs:
- job_name: operator
  scheme: https
  authorization: {{credentials: "{token}"}}
  tls_config: {{ca_file: {ca}}}
  static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


async def allow(cluster: Cluster, user: str) -> None:
    """Let a user read metrics."""
    group = "rbac.authorization.k8s.io"
    rule = PolicyRule(non_resource_urls=["/metrics"], verbs=["get"])
    await cluster.uncached.create(ClusterRole(metadata=ObjectMeta(name="metrics"), rules=[rule]))
    await cluster.uncached.create(
        ClusterRoleBinding(
            metadata=ObjectMeta(name="metrics"),
            role_ref=RoleRef(api_group=group, kind="ClusterRole", name="metrics"),
            subjects=[Subject(kind="User", name=user, api_group=group)],
        )
    )


async def ask(port: int, query: str) -> list[dict[str, JsonValue]]:
    """The result of a query, when there is one."""
    url = f"http://127.0.0.1:{port}/api/v1/query?query={quote(query)}"
    for _ in range(300):
        try:
            answer = json.loads(await asyncio.to_thread(lambda: urlopen(url).read()))
        except HTTPError as error:
            error.close()
            answer = {}
        except OSError:
            answer = {}
        if result := answer.get("data", {}).get("result"):
            return list(result)
        await asyncio.sleep(0.1)
    raise AssertionError(f"no result for {query}")


def metrics_port(manager: Manager) -> int:
    """Where the metrics are."""
    (server,) = manager.http_servers
    return server.port


@pytest.mark.behaviour(133, 134)
async def test_prometheus_scrapes_over_tls_with_a_token(tmp_path: Path) -> None:
    """Prometheus scrapes the target over TLS, and gets series of reconciles, requests, informers and the build."""
    ca = make_ca()
    (tmp_path / "ca.crt").write_bytes(ca.cert)
    cert, key = ca.issue("metrics", "127.0.0.1").files(tmp_path, "tls")
    options = ManagerOptions(
        metrics_bind_address="127.0.0.1:0", metrics_secure_serving=True, metrics_cert_file=cert, metrics_key_file=key,
        metrics_authentication=True,
    )  # fmt: skip
    operator = Operator("shop", OperatorOptions(manager=options))
    reconciled = asyncio.Event()

    @operator.reconciler(ConfigMap)
    async def reconcile(request: Request) -> None:
        await operator.client.get(ConfigMap, request.key)
        reconciled.set()

    async with Environment() as env, Cluster(env.config) as cluster:
        user = env.add_user("prometheus")
        await allow(cluster, "prometheus")
        manager = operator.prepare(env.config)
        running = asyncio.create_task(operator.start_prepared())
        await manager.wait_ready()
        await cluster.uncached.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        await reconciled.wait()
        config = tmp_path / "prometheus.yml"
        config.write_text(CONFIG.format(token=user.token, ca=tmp_path / "ca.crt", port=metrics_port(manager)))
        socket = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = socket.sockets[0].getsockname()[1]
        socket.close()
        await socket.wait_closed()
        process = await asyncio.create_subprocess_exec(
            "prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}", stderr=asyncio.subprocess.DEVNULL, env=dict(os.environ),
        )  # fmt: skip
        try:
            assert (await ask(port, "up == 1"))[0]["metric"]["job"] == "operator"
            for query in (
                'controller_runtime_reconcile_total{controller="configmap",result="success"} > 0',
                'rest_client_requests_total{code="200",method="GET"} > 0',
                "histogram_quantile(0.9, rate(rest_client_request_duration_seconds_bucket[1m])) >= 0 or vector(1)",
                'opsdk_informer_ready{informer="configmaps"} == 1',
                "opsdk_build_info == 1",
            ):
                assert await ask(port, query)
        finally:
            process.send_signal(signal.SIGTERM)
            await process.wait()
            manager.stop()
            await running
