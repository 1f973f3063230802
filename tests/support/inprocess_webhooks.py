"""Webhooks inside the process: an ASGI application that answers reviews, and configurations that name it."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from server_caller import Answer, Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

AUTHORITY = "hooks.test:443"
URL = f"https://{AUTHORITY}"
HOOKS = "/apis/admissionregistration.k8s.io/v1"

Review = Callable[[str, JsonObject], "JsonObject | bytes | Awaitable[JsonObject | bytes]"]
"""From a path and a request to the ``response`` part, or to the raw body of the answer."""


class Hooks:
    """Remembers what it was asked; `answer` says what it answers."""

    def __init__(self, answer: Review) -> None:
        self.asked: list[tuple[str, JsonObject]] = []
        self._answer = answer

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        body = json.loads((await receive())["body"])
        path, request = scope["path"], body["request"]
        self.asked.append((path, request))
        result: Any = self._answer(path, request)
        if hasattr(result, "__await__"):
            result = await result
        if isinstance(result, dict):
            response = {"uid": request["uid"], **result}
            result = json.dumps({"kind": body["kind"], "apiVersion": body["apiVersion"], "response": response}).encode()
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": result})

    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]

    def join(self, env: Environment) -> None:
        """Be called by this environment."""
        env.plane.webhook_client.apps[AUTHORITY] = self


def patch(*operations: JsonObject) -> JsonObject:
    """An answer that changes the object."""
    raw = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": raw}


def hook(name: str = "x", path: str = "/x", **more: Any) -> JsonObject:
    """A webhook for creates and updates of configmaps."""
    rule = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    return {
        "name": f"{name}.hooks.example.com",
        "clientConfig": {"url": URL + path},
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        **more,
    }


async def configure(call: Caller, *hooks: JsonObject, kind: str = "Validating", name: str = "conf") -> Answer:
    """Write a configuration."""
    obj = {"metadata": {"name": name}, "webhooks": list(hooks)}
    return await call("POST", f"{HOOKS}/{kind.lower()}webhookconfigurations", obj)
