"""Generates webhook configurations, and ``spec.conversion`` of CustomResourceDefinitions, from registrations. Pure.

Upstream: sigs.k8s.io/controller-tools/pkg/webhook (the same task for Go markers)
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from opsdk.apimachinery.meta import LabelSelector
from opsdk.apimachinery.model import to_builtins
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject

__all__ = ["WebhookClientConfig", "WebhookRule", "WebhookService", "conversion_stanza", "webhook_configurations"]

# Range of timeoutSeconds in admissionregistration.k8s.io.
_MIN_TIMEOUT_SECONDS, _MAX_TIMEOUT_SECONDS = 1, 30


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRule:
    """The requests that a webhook is called for, and how the API server calls it.

    Attributes:
        operations: of ``CREATE``, ``UPDATE``, ``DELETE``, ``CONNECT`` and ``*``; empty for those that the webhook
            handles.
        name: fully qualified, with at least three segments; empty for ``validate-<version>.<plural>.<group>``. Two
            webhooks of a kind need different names.
        subresources: ``status`` and so on; they are sent besides the object itself. Those of another kind, such as
            ``scale``, need a raw handler.
        object_selector: only objects with these labels; None for all.
        namespace_selector: only objects in namespaces with these labels; None for all.
        match_conditions: CEL expressions by name; the webhook is called if all of them are true.
        failure_policy: what happens when the call fails: ``Fail`` rejects the request, ``Ignore`` lets it pass.
        timeout_seconds: 1 to 30.
        match_policy: ``Equivalent`` converts objects of other versions for the webhook.
        reinvocation_policy: ``IfNeeded`` calls a mutating webhook again when a later one has changed the object.
        side_effects: ``NoneOnDryRun`` for webhooks that write, unless the request is a dry run.
    """

    operations: Sequence[str] = ()
    name: str = ""
    subresources: Sequence[str] = ()
    object_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    match_conditions: Mapping[str, str] = field(default_factory=dict)
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    timeout_seconds: int = 10
    match_policy: Literal["Equivalent", "Exact"] = "Equivalent"
    reinvocation_policy: Literal["Never", "IfNeeded"] = "Never"
    side_effects: Literal["None", "NoneOnDryRun"] = "None"

    def __post_init__(self) -> None:
        if not _MIN_TIMEOUT_SECONDS <= self.timeout_seconds <= _MAX_TIMEOUT_SECONDS:
            raise UsageError(f"timeout_seconds is {self.timeout_seconds}: the API server accepts 1 to 30")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRegistration:
    """An admission webhook of a kind.

    Attributes:
        name: fully qualified, with at least three segments.
        path: where it is served.
        mutating: whether it may change objects.
        group: API group of the kind.
        version: API version of the kind.
        resource: the plural.
        scope: ``Namespaced``, ``Cluster`` or ``*``.
        operations: the operations that it is called for.
        rule: the other parts of the configuration.
    """

    name: str
    path: str
    mutating: bool
    group: str
    version: str
    resource: str
    scope: str
    operations: Sequence[str]
    rule: WebhookRule


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookService:
    """The Service in front of the webhook server."""

    name: str
    namespace: str
    port: int = 443


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookClientConfig:
    """The address and CAs with which the API server calls the webhook server.

    Attributes:
        service: the Service in front of it; None with `url`.
        url: ``https://host:port`` outside the cluster; empty with `service`.
        ca_bundle: PEM certificates of the CAs that the server's certificate is verified with; empty for the system's,
            or when cert-manager adds them.

    Raises:
        UsageError: both or neither of `service` and `url` are set, or the URL is not an ``https`` URL.
    """

    service: WebhookService | None = None
    url: str = ""
    ca_bundle: bytes = b""

    def __post_init__(self) -> None:
        if (self.service is None) is (not self.url):
            raise UsageError("set either service or url: the API server calls one of them")
        if self.url and not self.url.startswith("https://"):
            raise UsageError(f"{self.url!r}: the API server calls webhooks with https only")

    def tree(self, path: str) -> JsonObject:
        """Return the ``clientConfig`` for a path."""
        bundle = {"caBundle": base64.b64encode(self.ca_bundle).decode()} if self.ca_bundle else {}
        if self.service is None:
            return {"url": self.url.rstrip("/") + path, **bundle}
        s = self.service
        return {"service": {"name": s.name, "namespace": s.namespace, "path": path, "port": s.port}, **bundle}


def webhook_configurations(
    registrations: Iterable[WebhookRegistration], client_config: WebhookClientConfig, *, name: str
) -> list[JsonObject]:
    """Return the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration, to create or apply.

    A configuration without webhooks is left out.

    Args:
        registrations: of a `WebhookServer`.
        client_config: how the API server reaches it.
        name: prefix of the names of both objects.

    >>> webhook_configurations([], WebhookClientConfig(url="https://127.0.0.1:9443"), name="website")
    []
    """
    listed = list(registrations)
    objects: list[JsonObject] = []
    for kind, mutating in (("Mutating", True), ("Validating", False)):
        webhooks = [_webhook(r, client_config) for r in listed if r.mutating is mutating]
        if webhooks:
            objects.append(
                {
                    "apiVersion": "admissionregistration.k8s.io/v1",
                    "kind": f"{kind}WebhookConfiguration",
                    "metadata": {"name": f"{name}-{kind.lower()}"},
                    "webhooks": webhooks,
                }
            )
    return objects


def _webhook(registration: WebhookRegistration, client_config: WebhookClientConfig) -> JsonObject:
    """Return the entry of a webhook configuration."""
    r, rule = registration, registration.rule
    webhook: JsonObject = {
        "name": r.name,
        "clientConfig": client_config.tree(r.path),
        "rules": [
            {
                "operations": list(r.operations),
                "apiGroups": [r.group],
                "apiVersions": [r.version],
                "resources": [r.resource, *(f"{r.resource}/{subresource}" for subresource in rule.subresources)],
                "scope": r.scope,
            }
        ],
        "admissionReviewVersions": ["v1"],
        "sideEffects": rule.side_effects,
        "failurePolicy": rule.failure_policy,
        "matchPolicy": rule.match_policy,
        "timeoutSeconds": rule.timeout_seconds,
    }
    if rule.object_selector is not None:
        webhook["objectSelector"] = to_builtins(rule.object_selector)
    if rule.namespace_selector is not None:
        webhook["namespaceSelector"] = to_builtins(rule.namespace_selector)
    if rule.match_conditions:
        conditions = rule.match_conditions.items()
        webhook["matchConditions"] = [{"name": name, "expression": text} for name, text in conditions]
    return {**webhook, "reinvocationPolicy": rule.reinvocation_policy} if r.mutating else webhook


def conversion_stanza(client_config: WebhookClientConfig, *, path: str = "/convert") -> JsonObject:
    """Return ``spec.conversion`` of a CustomResourceDefinition whose versions a webhook converts.

    >>> conversion_stanza(WebhookClientConfig(url="https://127.0.0.1:9443"))["webhook"]["clientConfig"]
    {'url': 'https://127.0.0.1:9443/convert'}
    """
    return {
        "strategy": "Webhook",
        "webhook": {"clientConfig": client_config.tree(path), "conversionReviewVersions": ["v1"]},
    }
