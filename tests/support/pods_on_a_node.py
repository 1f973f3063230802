"""An environment with a Pod on a node, and a cluster that reaches it in process or over sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from opsdk import Cluster, ObjectMeta, RestConfig, Unstructured
from opsdk.api.core.v1 import Node

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}], "nodeName": "n"},
}


@asynccontextmanager
async def pod_environment(*, sockets: bool) -> AsyncIterator[tuple[Any, Cluster]]:
    """An environment whose token ``good`` belongs to an admin, and ``bad`` to a user without permissions."""
    from envtest.environment import Environment  # an extra: tests without it are skipped
    from opsdk.apiserver.auth.user import User

    tokens = {"good": User(name="good", groups=("system:masters",)), "bad": User(name="bad")}
    async with Environment(tokens=tokens) as env:
        async with Cluster(env.config) as admin:
            await admin.uncached.create(Node(metadata=ObjectMeta(name="n")))
            await admin.uncached.create(Unstructured.from_tree(POD))
        config = env.config
        if sockets:
            config = RestConfig(host=(await env.serve()).url, token="good", ca_data=env.authority.pair.cert)
        async with Cluster(config) as cluster:
            yield env, cluster
