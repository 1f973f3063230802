"""``proxy`` subresources of pods, services and nodes.

Upstream: pkg/registry/core/pod/rest/subresources.go (v1.36)
"""

from __future__ import annotations

import inspect

from envtest.groups.core.rest.proxy_location import (
    node_location,
    pod_location,
    service_location,
    target_of,
)
from envtest.groups.core.rest.responders import Responders
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.errors import ServiceUnavailableError
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse
from opsdk.structured_merge.value import JsonObject

# ------------------------------------------------------------------ proxies
_KINDS = {"pods": "Pod", "services": "Service", "nodes": "Node"}


class ProxyRest:
    """``pods/proxy``, ``services/proxy``, ``nodes/proxy``: forwards any method and path."""

    connect_methods = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
    connect_verbs = ("create", "delete", "get", "patch", "update")

    def __init__(self, main: LocalStore, responders: Responders, *, endpoints: LocalStore, pods: LocalStore) -> None:
        self._main = main
        self._responders = responders
        self._endpoints = endpoints
        self._pods = pods

    def connect_options(self, path: str, request: HttpRequest) -> JsonObject:
        options: JsonObject = {"kind": f"{_KINDS[self._main.info.resource]}ProxyOptions", "apiVersion": "v1"}
        target_path = path or request.query.get("path")
        return {**options, "path": target_path} if target_path else options

    async def connect(self, context: Context, name: str, path: str, request: HttpRequest) -> HttpResponse:
        """See `Connecter`; `name` may be ``https:name:port``."""
        target = target_of(name, _KINDS[self._main.info.resource].lower())
        obj = await self._main.get(context, target.name)
        if self._responders.proxied is not None:
            answer = self._responders.proxied(obj, path, request)
            return await answer if inspect.isawaitable(answer) else answer
        match self._main.info.resource:
            case "pods":
                where = pod_location(target, obj)
            case "services":
                points = await self._endpoints.get(context, target.name)
                pods = self._pods.list_now(context.namespace)
                by_name = {pod["metadata"]["name"]: pod for pod in pods}
                where = service_location(target, obj, points, by_name.get)
            case _:
                where = node_location(target, obj)
        raise ServiceUnavailableError(f"error trying to reach service: dial tcp {where}: connect: connection refused")
