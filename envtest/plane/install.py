"""Install CRDs and webhook configurations before a test, as Go's envtest does.

Upstream: sigs.k8s.io/controller-runtime/pkg/envtest
"""

from __future__ import annotations

import base64
import socket
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from envtest.plane.pki import CertificateAuthority
from opsdk.apimachinery.serializer.documents import SyntaxProblemError
from opsdk.apiserver.webhook_client.client import WebhookClient
from opsdk.errors import ConfigError, NotFoundError
from opsdk.http.asgi_types import App
from opsdk.structured_merge.value import JsonObject

__all__ = ["WebhookServing", "Webhooks"]

CRD = "CustomResourceDefinition"
_PATHS = {
    CRD: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}
_ENDINGS = frozenset({".yaml", ".yml", ".json"})


class Webhooks(msgspec.Struct, frozen=True, kw_only=True):
    """Webhooks to install; configurations and CRD conversions that name a Service are redirected to the test.

    Attributes:
        objects: webhook configurations.
        paths: files and directories with configurations; other kinds in them are ignored.
        app: the ASGI application that serves the webhooks in this process; None if a server listens.
        host: the address of that server.
        port: the port of that server; 0 selects a free port.
        cert_dir: the directory for ``tls.crt`` and ``tls.key``; None creates a temporary directory for the lifetime of
            the environment.
    """

    objects: Sequence[JsonObject] = ()
    paths: Sequence[Path | str] = ()
    app: App | None = None
    host: str = "127.0.0.1"
    port: int = 0
    cert_dir: Path | None = None


class WebhookServing(msgspec.Struct, frozen=True, kw_only=True):
    """Host, port and certificate directory of the test's webhook server."""

    host: str
    port: int
    cert_dir: Path | None = None
    ca: bytes = b""

    @property
    def authority(self) -> str:
        """Return ``host:port``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def redirect(self, config: JsonObject) -> JsonObject:
        """Return the ``clientConfig`` of a Service changed to call this server."""
        service = config.get("service")
        if not service:
            return config
        redirected: JsonObject = {"url": f"https://{self.authority}/{(service.get('path') or '').lstrip('/')}"}
        return {**redirected, "caBundle": base64.b64encode(self.ca).decode()} if self.ca else redirected


# ------------------------------------------------------------------ reading
def read_objects(paths: Sequence[Path | str], kinds: Sequence[str]) -> list[JsonObject]:
    """Return the objects of these kinds in files (one or more documents) and in directories."""
    return [
        document
        for path in paths
        for file in _files(Path(path))
        for document in _documents(file)
        if document.get("kind") in kinds
    ]


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(file for file in path.iterdir() if file.is_file() and file.suffix in _ENDINGS)
    elif path.exists():
        yield path
    else:
        raise ConfigError(f"{path}: no such file or directory: say where the manifests are")


def _documents(file: Path) -> Iterator[JsonObject]:
    # Start-up time: PyYAML takes 25 ms.
    from opsdk.apimachinery.serializer.yaml_documents import read_documents  # noqa: PLC0415

    try:
        documents = read_documents(file.read_bytes())
    except (SyntaxProblemError, OSError) as error:
        raise ConfigError(f"{file}: cannot be read as YAML or JSON: {error}") from error
    for document in documents:
        if isinstance(document, dict):
            items = document.get("items") if str(document.get("kind", "")).endswith("List") else None
            yield from (items or [document]) if isinstance(items, list) else [document]


# ------------------------------------------------------------------ installing
class Installer:
    """Installs CRDs and webhook configurations.

    Args:
        send: sends one request (method, path, body) as admin; returns the response body, or raises its `ApiError`.
    """

    def __init__(self, send: Callable[[str, str, JsonObject | None], Awaitable[JsonObject]]) -> None:
        self._send = send

    def __repr__(self) -> str:
        return "<Installer>"

    async def put(self, obj: JsonObject) -> JsonObject:
        """Create an object, or replace the existing one."""
        kind, name = obj.get("kind", ""), (obj.get("metadata") or {}).get("name", "")
        path = _PATHS.get(kind)
        if path is None:
            raise ConfigError(f"{kind or 'an object without kind'}: only {', '.join(_PATHS)} can be installed")
        try:
            existing = await self._send("GET", f"{path}/{name}", None)
        except NotFoundError:
            return await self._send("POST", path, obj)
        version = existing["metadata"]["resourceVersion"]
        return await self._send(
            "PUT", f"{path}/{name}", {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}
        )

    async def definitions(self, objects: Sequence[JsonObject], serving: WebhookServing | None = None) -> None:
        """Install CRDs and wait until each is served."""
        for obj in objects:
            definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": CRD, **obj}
            written = await self.put(definition if serving is None else _converted_by(definition, serving))
            stored = await self._send("GET", f"{_PATHS[CRD]}/{written['metadata']['name']}", None)
            conditions = (stored.get("status") or {}).get("conditions") or ()
            if not any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                reason = "; ".join(str(c.get("message", "")) for c in conditions if c["status"] != "True")
                raise ConfigError(f"CustomResourceDefinition {stored['metadata']['name']} is not served: {reason}")

    async def webhooks(self, objects: Sequence[JsonObject], serving: WebhookServing) -> None:
        """Install webhook configurations."""
        for obj in objects:
            hooks = [
                {**hook, "clientConfig": serving.redirect(hook.get("clientConfig") or {})}
                for hook in obj.get("webhooks") or ()
            ]
            await self.put({**obj, "webhooks": hooks})


def _converted_by(obj: JsonObject, serving: WebhookServing) -> JsonObject:
    """Return the definition with its conversion webhook redirected to the test's server."""
    spec = obj.get("spec") or {}
    conversion = spec.get("conversion") or {}
    webhook = conversion.get("webhook") or {}
    if conversion.get("strategy") != "Webhook" or not webhook.get("clientConfig"):
        return obj
    webhook = {**webhook, "clientConfig": serving.redirect(webhook["clientConfig"])}
    return {**obj, "spec": {**spec, "conversion": {**conversion, "webhook": webhook}}}


def prepare(
    options: Webhooks, client: WebhookClient, stack: AsyncExitStack, authority: Callable[[], CertificateAuthority]
) -> WebhookServing:
    """Return the address of the webhooks; create certificates if it is a socket."""
    if options.app is not None:
        serving = WebhookServing(host=options.host, port=options.port or 443)
        client.apps[serving.authority] = options.app
        return serving
    directory = options.cert_dir or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="envtest-hooks-")))
    directory.mkdir(parents=True, exist_ok=True)
    authority().serving(options.host).write(directory, "tls")
    port = options.port or _free_port(options.host)
    return WebhookServing(host=options.host, port=port, cert_dir=directory, ca=authority().pair.cert)


def _free_port(host: str) -> int:
    """Return a port that is free now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        listener.bind((host, 0))
        return int(listener.getsockname()[1])
