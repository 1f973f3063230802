"""An aggregated API server: an ASGI application that records the requests which the aggregator forwards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from server_caller import Answer, Caller

from envtest.environment import Environment
from opsdk.http.asgi_types import PEER_CERTIFICATE
from opsdk.structured_merge.value import JsonObject

APISERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
GROUP = "far.example.com"
ROOT = f"/apis/{GROUP}/v1"
RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": f"{GROUP}/v1",
    "resources": [
        {"name": "things", "singularName": "thing", "namespaced": True, "kind": "Thing", "verbs": ["get", "list"]},
        {"name": "things/status", "singularName": "", "namespaced": True, "kind": "Thing", "verbs": ["get"]},
    ],
}
SWAGGER = {
    "swagger": "2.0",
    "paths": {f"{ROOT}/things": {"get": {"schema": {"$ref": "#/definitions/Thing"}}}, "/version/": {"get": {}}},
    "definitions": {"Thing": {"type": "object"}, "Unused": {"type": "object"}},
}


class FarServer:
    """Answers by path; ``up`` off breaks discovery."""

    def __init__(self) -> None:
        self.up = True
        self.asked: list[tuple[str, str, dict[str, list[str]], bytes]] = []
        self.certificates: list[bytes | None] = []
        self.pages: dict[str, JsonObject] = {
            ROOT: RESOURCES,
            "/openapi/v2": SWAGGER,
            "/openapi/v3": {"paths": {ROOT[1:]: {"serverRelativeURL": f"/openapi/v3{ROOT}?hash=ABC"}}},
            f"/openapi/v3{ROOT}": {"openapi": "3.0.0", "paths": {}},
        }

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode(), []).append(value.decode())
        self.asked.append((scope["method"], scope["path"], headers, (await receive()).get("body", b"")))
        self.certificates.append(scope["extensions"].get(PEER_CERTIFICATE))
        page = self.pages.get(scope["path"]) if self.up else None
        status = 500 if not self.up else 404 if page is None else 200
        kinds = [(b"content-type", b"application/json"), (b"audit-id", b"theirs")]
        await send({"type": "http.response.start", "status": status, "headers": kinds})
        await send({"type": "http.response.body", "body": b"" if page is None else json.dumps(page).encode()})

    def last(self, path: str) -> dict[str, list[str]]:
        """The headers of the last request for a path."""
        return next(headers for _, request, headers, _ in reversed(self.asked) if request == path)


def api_service(group: str = GROUP, version: str = "v1", service: str = "far/server", **spec: Any) -> JsonObject:
    """An APIService that names a Service."""
    namespace, _, name = service.partition("/")
    expected = {
        "group": group,
        "version": version,
        "groupPriorityMinimum": 100,
        "versionPriority": 10,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": namespace, "name": name},
        **spec,
    }
    return {"metadata": {"name": f"{version}.{group}"}, "spec": {k: v for k, v in expected.items() if v is not None}}


async def condition(call: Caller, name: str = f"v1.{GROUP}") -> JsonObject:
    """What its condition says."""
    result: Answer = await call("GET", f"{APISERVICES}/{name}")
    conditions = result.json.get("status", {}).get("conditions") or [{}]
    tree: JsonObject = conditions[0]
    return tree


async def until(env: Environment, call: Caller, reason: str) -> JsonObject:
    """Wait for a condition with this reason."""

    def check(found: JsonObject) -> None:
        assert found.get("reason") == reason, found

    return await env.eventually(lambda: condition(call), check, within=120)
