"""An environment with a Pod on a node, and a cluster that reaches it in process or over sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from opsdk import Cluster, ObjectMeta, RestConfig, Unstructured
from opsdk.api.core.v1 import Node
from opsdk.http.asgi_types import CUT, App, Receive, Scope, Send

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}], "nodeName": "n"},
}


class CuttableApp:
    """An application whose open connections a test can cut, as a server that dies does."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._cuts: dict[Callable[[], None], None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        cut = scope["extensions"][CUT]
        self._cuts[cut] = None
        try:
            await self._app(scope, receive, send)
        finally:
            del self._cuts[cut]

    def cut(self) -> None:
        """Cut all connections that are open now."""
        for cut in list(self._cuts):
            cut()


def cut_connections(cluster: Cluster) -> None:
    """Cut the connections of a cluster of `pod_environment`, which has no sockets."""
    app: Any = cluster.transport.config.app
    app.cut()


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
        config = replace(env.config, app=CuttableApp(env.config.app))
        if sockets:
            config = RestConfig(host=(await env.serve()).url, token="good", ca_data=env.authority.pair.cert)
        async with Cluster(config) as cluster:
            yield env, cluster
