"""The permissions of requests into Pods."""

from __future__ import annotations

from typing import Any

import pytest
from pods_on_a_node import pod_environment
from rbac_operator import install, service_account

from opsdk import Cluster
from opsdk.api.core.v1 import Pod
from opsdk.errors import ForbiddenError
from opsdk.rbac.manifests import RbacNames
from opsdk.rbac.permissions import RuleSet
from opsdk.rbac.rules import attaches, executes, forwards_ports, reads_logs

pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


async def _logs(cluster: Cluster) -> None:
    _ = [line async for line in cluster.pods.logs("default/p", container="c")]


async def _exec(cluster: Cluster) -> None:
    await cluster.pods.exec("default/p", ["true"], container="c")


async def _attach(cluster: Cluster) -> None:
    async with cluster.pods.attach("default/p", container="c"):
        pass


async def _port(cluster: Cluster) -> None:
    async with cluster.pods.open_port("default/p", 80):
        pass


CALLS = {
    "log": (reads_logs, _logs),
    "exec": (executes, _exec),
    "attach": (attaches, _attach),
    "portforward": (forwards_ports, _port),
}


@pytest.mark.parametrize("subresource", CALLS)
async def test_a_rule_allows_its_call_and_no_other(subresource: str) -> None:
    """A service account with one rule makes one of the calls; the others are forbidden."""

    async def nothing(*_: Any) -> None:
        """Serve no bytes."""

    rule, names = CALLS[subresource][0](Pod, namespaces=["default"]), RbacNames(name="prober")
    async with pod_environment(sockets=False) as (env, admin):
        env.responders.logs = lambda *_: ""
        env.responders.run = env.responders.forwarded = nothing
        await install(admin.uncached, RuleSet(rule.permissions()), names)
        async with Cluster(await service_account(env, admin.uncached, names)) as cluster:
            for name, (_, call) in CALLS.items():
                if name == subresource:
                    await call(cluster)
                else:
                    with pytest.raises(ForbiddenError, match=f"pods/{name}"):
                        await call(cluster)
