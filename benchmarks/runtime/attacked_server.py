"""The servers that `benchmarks.runtime.attacks` attacks: ``python -m benchmarks.runtime.attacked_server``.

It prints one line of JSON, and serves until it is ended.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Final

from envtest.environment import Environment
from opsdk import Cluster
from opsdk.aio.garbage import tune_garbage_collector
from opsdk.http.server.server import ServeOptions, WebServer
from opsdk.norman.cluster_api import cluster_api
from opsdk.rest.request import RestRequest
from opsdk.rest.response import raise_for_status
from opsdk.rest.transport import Transport
from opsdk.structured_merge.value import JsonObject

PODS: Final = "/api/v1/namespaces/default/pods"
MAPS: Final = "/api/v1/namespaces/default/configmaps"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS: Final = "/apis/example.com/v1/namespaces/default/widgets"
_SPEC: Final = {
    "type": "object",
    "properties": {
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "integer", "default": 1}},
            },
        },
    },
}


def definition(kind: str, spec: JsonObject) -> JsonObject:
    """Return the CustomResourceDefinition of a kind in ``example.com``."""
    singular = kind.lower()
    names = {"plural": f"{singular}s", "singular": singular, "kind": kind, "listKind": f"{kind}List"}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "metadata": {"name": f"{singular}s.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


VICTIMS: Final = (
    (PODS, {"metadata": {"name": "victim"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    (MAPS, {"metadata": {"name": "victim"}, "data": {"a": "b"}}),
    (DEFINITIONS, definition("Widget", _SPEC)),
)
"""The objects that are attacked, and the collections in which they are created."""


@dataclass(frozen=True)
class AttackedServer:
    """Two servers of one process.

    Attributes:
        port: of the API server.
        norman_port: of norman's ``/v3`` over it.
        token: of an administrator, for both.
    """

    port: int
    norman_port: int
    token: str


@asynccontextmanager
async def attacked_server() -> AsyncIterator[AttackedServer]:
    """Serve an API server with `VICTIMS`, and norman over it."""
    async with Environment() as env, Transport(env.config) as transport:
        for path, tree in VICTIMS:
            request = RestRequest("POST", path, body=json.dumps(tree).encode())
            raise_for_status(await transport.send(request), request)
        user = env.add_user("attacker", groups=["system:masters"])
        async with Cluster(env.config) as cluster:
            running = asyncio.create_task(cluster.start())
            await cluster.wait_ready()
            async with cluster_api(cluster) as norman:
                web = await env.serve(tls=False)
                async with WebServer(norman.app, ServeOptions(port=0, host="127.0.0.1")) as norman_web:
                    yield AttackedServer(web.port, norman_web.port, user.token)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def _serve() -> None:
    logging.disable(logging.CRITICAL)
    async with attacked_server() as server:
        tune_garbage_collector()  # as python -m envtest serve
        print(json.dumps(asdict(server)), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve())
