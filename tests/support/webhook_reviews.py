"""A kind with a webhook, and reviews sent to a webhook server without a socket."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.server import WebhookServer


class SiteSpec(Model):
    """The specification of a site."""

    image: str = ""
    replicas: int | None = None
    tags: list[str] = msgspec.field(default_factory=list)


class Site(Object[SiteSpec, None]):
    """A site; the storage version, and the hub."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Site")


class OldSiteSpec(Model):
    """The specification before it was renamed."""

    picture: str = ""
    count: int | None = None
    tags: list[str] = msgspec.field(default_factory=list)


class OldSite(Object[OldSiteSpec, None]):
    """A site as it was."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1beta1", "Site")


class NewSiteSpec(Model):
    """The specification to come."""

    source: str = ""
    scale: int | None = None
    tags: list[str] = msgspec.field(default_factory=list)


class NewSite(Object[NewSiteSpec, None]):
    """A site as it will be."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v2alpha1", "Site")


def site_tree(name: str = "a", **spec: Any) -> JsonObject:
    """A site as the API server sends it."""
    return {
        "apiVersion": "demo.opsdk.dev/v1",
        "kind": "Site",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"image": "nginx", **spec},
    }


def review(operation: str = "CREATE", *, version: str = "v1", uid: str = "u1", **request: Any) -> bytes:
    """An AdmissionReview of a site."""
    body: JsonObject = {
        "apiVersion": f"admission.k8s.io/{version}",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": {"group": "demo.opsdk.dev", "version": "v1", "kind": "Site"},
            "resource": {"group": "demo.opsdk.dev", "version": "v1", "resource": "sites"},
            "operation": operation,
            "userInfo": {"username": "ann", "groups": ["devs"]},
            **request,
        },
    }
    return json.dumps(body).encode()


async def post(
    server: WebhookServer, path: str, body: bytes, content_type: str = "application/json"
) -> tuple[int, Any]:
    """HTTP status and body of an answer: JSON, or text."""
    sent: list[Any] = []

    async def receive() -> JsonObject:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", content_type.encode())]
    scope: JsonObject = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    await server.app(scope, receive, send)
    raw = b"".join(message.get("body", b"") for message in sent)
    try:
        return sent[0]["status"], json.loads(raw)
    except ValueError:
        return sent[0]["status"], raw.decode()


def operations(response: JsonObject) -> list[JsonObject]:
    """The JSON patch of an admission response."""
    patch: list[JsonObject] = json.loads(base64.b64decode(response["patch"]))
    return patch
