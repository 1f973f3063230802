"""Finds and patches the ``caBundle`` fields of objects that refer to a webhook server. Pure.

The JSON patch has ``test`` operations with the values that were read. It changes only ``caBundle``, and fails if
another client changed the same ``clientConfig`` concurrently.

Upstream: github.com/cert-manager/cert-manager/pkg/controller/cainjector (the same task)
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from opsdk.apimachinery.kinds import Kind, unstructured_kind
from opsdk.apimachinery.object import Unstructured
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.configurations import WebhookClientConfig

__all__ = ["InjectionKind", "InjectionTarget"]


class InjectionKind(Enum):
    """The kinds with a ``caBundle``, by API version and kind."""

    VALIDATING = ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
    MUTATING = ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
    CONVERSION = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    API_SERVICE = ("apiregistration.k8s.io/v1", "APIService")

    @property
    def kind(self) -> Kind[Unstructured]:
        """The kind, for a client."""
        return unstructured_kind(*self.value)


@dataclass(frozen=True, slots=True)
class InjectionTarget:
    """An object whose ``caBundle`` is kept up to date.

    >>> str(InjectionTarget(InjectionKind.API_SERVICE, "v1.books.example.com"))
    'APIService v1.books.example.com'

    Attributes:
        kind: its kind.
        name: ``metadata.name``; all four kinds are cluster-scoped.
    """

    kind: InjectionKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.value[1]} {self.name}"


def is_called_by(config: JsonObject, client_config: WebhookClientConfig) -> bool:
    """Whether a ``clientConfig`` (or the ``spec`` of an APIService) calls the server that `client_config` names.

    >>> ours = WebhookClientConfig(url="https://10.0.0.1:9443")
    >>> is_called_by({"url": "https://10.0.0.1:9443/mutate"}, ours), is_called_by({"url": "https://10.0.0.1:94"}, ours)
    (True, False)
    """
    if client_config.service is None:
        base = client_config.url.rstrip("/")
        url = str(config.get("url") or "")
        return url == base or url.startswith(f"{base}/")
    service: JsonObject = config.get("service") or {}
    expected = (client_config.service.name, client_config.service.namespace)
    return (service.get("name"), service.get("namespace")) == expected


def client_configs(
    target: InjectionTarget, tree: JsonObject, client_config: WebhookClientConfig
) -> Iterator[tuple[str, JsonObject]]:
    """Return the fields of an object that call our server: the JSON pointer and the value of each.

    Fields that call another server are left out, and so is an APIService with ``insecureSkipTLSVerify``, because the
    API server accepts only one of the two.
    """
    candidates: list[tuple[str, JsonObject | None]]
    spec: JsonObject = tree.get("spec") or {}
    if target.kind is InjectionKind.CONVERSION:
        webhook: JsonObject = (spec.get("conversion") or {}).get("webhook") or {}
        candidates = [("/spec/conversion/webhook/clientConfig", webhook.get("clientConfig"))]
    elif target.kind is InjectionKind.API_SERVICE:
        candidates = [("/spec", None if spec.get("insecureSkipTLSVerify") else spec)]
    else:
        webhooks: list[JsonObject] = tree.get("webhooks") or []
        candidates = [(f"/webhooks/{i}/clientConfig", hook.get("clientConfig")) for i, hook in enumerate(webhooks)]
    for pointer, config in candidates:
        if config and is_called_by(config, client_config):
            yield pointer, config


def trusted_certificates(target: InjectionTarget, tree: JsonObject, client_config: WebhookClientConfig) -> bytes:
    """Return the PEM text in the current ``caBundle`` fields of our server; empty without any."""
    texts = (str(config.get("caBundle") or "") for _, config in client_configs(target, tree, client_config))
    # The API server accepts base64 of PEM only.
    return b"\n".join(base64.b64decode(text) for text in dict.fromkeys(texts) if text)


def injection_patch(
    target: InjectionTarget, tree: JsonObject, client_config: WebhookClientConfig, ca_bundle: bytes
) -> list[JsonObject]:
    """Return the JSON patch that sets `ca_bundle` (PEM) where the object calls our server; empty if it is set.

    >>> server = WebhookClientConfig(url="https://10.0.0.1:9443")
    >>> tree = {"webhooks": [{"clientConfig": {"url": "https://10.0.0.1:9443/mutate"}}]}
    >>> for operation in injection_patch(InjectionTarget(InjectionKind.MUTATING, "a"), tree, server, b"PEM"):
    ...     print(operation)
    {'op': 'test', 'path': '/webhooks/0/clientConfig', 'value': {'url': 'https://10.0.0.1:9443/mutate'}}
    {'op': 'add', 'path': '/webhooks/0/clientConfig/caBundle', 'value': 'UEVN'}
    """
    encoded = base64.b64encode(ca_bundle).decode()
    operations: list[JsonObject] = []
    for pointer, config in client_configs(target, tree, client_config):
        if config.get("caBundle") != encoded:
            # Test the whole value: a JSON patch cannot test that a member is absent.
            operations.append({"op": "test", "path": pointer, "value": config})
            operations.append({"op": "add", "path": f"{pointer}/caBundle", "value": encoded})
    return operations
