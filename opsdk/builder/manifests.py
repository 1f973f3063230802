"""Generates the CRDs and webhook configurations of an operator from its declarations. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.gvk import GroupKind
from opsdk.apimachinery.object import TypedObject
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.builder import WebhookBuilder
from opsdk.webhook.certificates.injection import InjectionTarget, declared_targets
from opsdk.webhook.configurations import WebhookClientConfig, conversion_stanza, webhook_configurations
from opsdk.webhook.conversion import HubSpokeConverter
from opsdk.webhook.server import WebhookServer


def field_manager(operator: str) -> str:
    """Return the field manager of the deployments of an operator. Undeploy removes only what it applied.

    >>> field_manager("website")
    'opsdk-deploy/website'
    """
    return f"opsdk-deploy/{operator}"


def operator_definitions(
    kinds: Sequence[type[TypedObject]],
    webhooks: Iterable[WebhookBuilder[Any]],
    client_config: WebhookClientConfig | None,
) -> list[JsonObject]:
    """Return one CustomResourceDefinition for each kind, with the versions and the conversion of its converter.

    Args:
        kinds: the reconciled classes.
        webhooks: of the operator.
        client_config: how the API server reaches the webhook server.

    Raises:
        UsageError: a kind has a converter, and `client_config` is None.
    """
    versions: dict[GroupKind, list[type[TypedObject]]] = {}
    for kind in kinds:
        versions.setdefault(kind.gvk.group_kind, []).append(kind)
    converted = set()
    for builder in webhooks:
        if isinstance(converter := builder.converter, HubSpokeConverter):
            classes = versions.setdefault(converter.group_kind, [])
            classes += [cls for cls in converter.kinds if cls not in classes]
            converted.add(converter.group_kind)
    definitions = []
    for group_kind, classes in versions.items():
        definition = crd_for(*classes)
        if group_kind in converted:
            if client_config is None:
                raise UsageError(
                    f"the API server must call this operator to convert {group_kind}: set "
                    "WebhookServerOptions.certificates, or pass client_config"
                )
            definition["spec"]["conversion"] = conversion_stanza(client_config)
        definitions.append(definition)
    return definitions


def operator_configurations(
    webhooks: Iterable[WebhookBuilder[Any]], client_config: WebhookClientConfig, *, name: str
) -> list[JsonObject]:
    """Return the webhook configurations of an operator, see `webhook_configurations`."""
    return webhook_configurations(_registered(webhooks).registrations, client_config, name=name)


def injection_targets(webhooks: Iterable[WebhookBuilder[Any]], name: str) -> list[InjectionTarget]:
    """Return the objects whose ``caBundle`` the operator keeps up to date: its webhook configurations and CRDs."""
    server = _registered(webhooks)
    return declared_targets(server.registrations, server.converted_definitions, name=name)


def _registered(webhooks: Iterable[WebhookBuilder[Any]]) -> WebhookServer:
    """Return a webhook server that is not started, with all webhooks registered."""
    server = WebhookServer()
    for builder in webhooks:
        builder.complete(server)
    return server
