"""A simulated cluster for tests: requests as admin, and waiting in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from envtest.environment import Environment
from opsdk.errors import api_error_from_status
from opsdk.http.server.request import HttpRequest, Query
from opsdk.structured_merge.value import JsonObject

APPS = "/apis/apps/v1/namespaces/default"
CORE = "/api/v1/namespaces/default"


class Kubectl:
    """Requests to an environment."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        self._token = env.config.token

    async def send(
        self, method: str, path: str, body: JsonObject | None = None, *, media: str = "application/json"
    ) -> JsonObject:
        """The answer, or the error it is."""
        raw = b"" if body is None else msgspec.json.encode(body)

        async def receive() -> JsonObject:
            return {"type": "http.request", "body": raw, "more_body": False}

        path, _, query = path.partition("?")
        headers = {"authorization": f"Bearer {self._token}", "content-type": media, "user-agent": "tests/1"}
        response = await self.env.server.respond(HttpRequest(method, path, Query(query), headers, receive))
        answer: JsonObject = msgspec.json.decode(response.body)
        if response.status >= 400:
            raise api_error_from_status(answer, code=response.status)
        return answer

    async def get(self, path: str) -> JsonObject:
        """GET."""
        return await self.send("GET", path)

    async def items(self, path: str) -> list[JsonObject]:
        """The items of a list, with their kind."""
        result = await self.get(path)
        of_item = {"apiVersion": result["apiVersion"], "kind": result["kind"].removesuffix("List")}
        return [{**of_item, **item} for item in result["items"]]

    async def names(self, path: str) -> list[str]:
        """Their names, in order."""
        return sorted(o["metadata"]["name"] for o in await self.items(path))

    async def create(self, path: str, obj: JsonObject) -> JsonObject:
        """POST."""
        return await self.send("POST", path, obj)

    async def merge(self, path: str, patch: JsonObject) -> JsonObject:
        """A merge patch."""
        return await self.send("PATCH", path, patch, media="application/merge-patch+json")

    async def delete(self, path: str, **options: Any) -> JsonObject:
        """DELETE."""
        return await self.send("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **options})


async def settle(seconds: float = 1.0) -> None:
    """Let the controllers work until nothing is left to do, and this much virtual time pass."""
    await asyncio.sleep(seconds)


def deployment(name: str, *, replicas: int = 1, image: str = "nginx:1", **spec: Any) -> JsonObject:
    """A Deployment."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, image=image),
            **spec,
        },
    }


def template(app: str, *, image: str = "nginx:1", **spec: Any) -> JsonObject:
    """A pod template."""
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": image}], **spec}}


def config_map(name: str, *owners: JsonObject, **meta: Any) -> JsonObject:
    """A ConfigMap with owners."""
    tree: JsonObject = {"name": name, **meta}
    if owners:
        tree["ownerReferences"] = [reference(o) for o in owners]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree}


def reference(owner: JsonObject, *, block: bool = True) -> JsonObject:
    """A reference to an owner."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": block,
    }


def condition(obj: JsonObject, kind: str) -> JsonObject:
    """A condition of its status, else an empty one."""
    result = (obj.get("status") or {}).get("conditions") or []
    return next((c for c in result if c["type"] == kind), {})
