"""Generates the CRDs and webhook configurations of an operator from its declarations. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any, Final

from opsdk.apimachinery.crd import crd_for, definition_name, stored_classes, subresources_of
from opsdk.apimachinery.gvk import GroupKind
from opsdk.apimachinery.object import TypedObject
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.builder import WebhookBuilder
from opsdk.webhook.certificates.injection import InjectionKind, InjectionTarget
from opsdk.webhook.certificates.options import SelfSigned
from opsdk.webhook.configurations import WebhookClientConfig, conversion_stanza, webhook_configurations
from opsdk.webhook.conversion import HubSpokeConverter
from opsdk.webhook.registered.comparison import RegisteredObject, RegisteredVersion
from opsdk.webhook.server import WebhookServer


def field_manager(operator: str) -> str:
    """Return the field manager of the deployments of an operator. Undeploy removes only what it applied.

    >>> field_manager("website")
    'opsdk-deploy/website'
    """
    return f"opsdk-deploy/{operator}"


_DEPLOYED: Final = {"app.kubernetes.io/managed-by": "opsdk"}


def labelled(tree: JsonObject) -> JsonObject:
    """Return a copy of an object with the label of what ``opsdk deploy`` installs.

    An object without any field but its name, such as a ServiceAccount, would have no field manager.

    >>> labelled({"metadata": {"name": "a"}})
    {'metadata': {'name': 'a', 'labels': {'app.kubernetes.io/managed-by': 'opsdk'}}}
    """
    metadata = tree["metadata"]
    return {**tree, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **_DEPLOYED}}}


def is_labelled(tree: JsonObject) -> bool:
    """Whether ``opsdk deploy`` has installed an object."""
    return _DEPLOYED.items() <= (tree["metadata"].get("labels") or {}).items()


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
    listed = list(webhooks)
    converters = [builder.converter for builder in listed]
    converted = {each.group_kind for each in converters if isinstance(each, HubSpokeConverter)}
    definitions = []
    for group_kind, classes in _versions(kinds, listed).items():
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


def _versions(
    kinds: Sequence[type[TypedObject]], webhooks: Iterable[WebhookBuilder[Any]]
) -> dict[GroupKind, list[type[TypedObject]]]:
    """Return the classes of each kind: the reconciled ones, then the other versions of its converter."""
    versions: dict[GroupKind, list[type[TypedObject]]] = {}
    for kind in kinds:
        versions.setdefault(kind.gvk.group_kind, []).append(kind)
    for builder in webhooks:
        if isinstance(converter := builder.converter, HubSpokeConverter):
            classes = versions.setdefault(converter.group_kind, [])
            classes += [cls for cls in converter.kinds if cls not in classes]
    return versions


def operator_configurations(
    webhooks: Iterable[WebhookBuilder[Any]], client_config: WebhookClientConfig, *, name: str
) -> list[JsonObject]:
    """Return the webhook configurations of an operator, see `webhook_configurations`."""
    return webhook_configurations(_registered(webhooks).registrations, client_config, name=name)


def registered_objects(
    kinds: Sequence[type[TypedObject]],
    webhooks: Iterable[WebhookBuilder[Any]],
    certificates: SelfSigned | None,
    *,
    name: str,
) -> list[RegisteredObject]:
    """Return what an operator with webhooks registers at the API server: definitions, and webhook configurations.

    Args:
        kinds: the reconciled classes.
        webhooks: of the operator; without any, it registers nothing.
        certificates: with which it issues its certificates. Without, other programs install the configurations, under
            names that the operator does not know.
        name: prefix of the names of the webhook configurations.
    """
    listed = list(webhooks)
    if not listed:
        return []
    server = _registered(listed)
    converted = set(server.converted_definitions)
    objects = [_registered_definition(kinds, each, converted) for each in _versions(kinds, listed).values()]
    classes = {each.target.name for each in objects}
    objects += [
        RegisteredObject(target=InjectionTarget(InjectionKind.CONVERSION, definition), converted=True)
        for definition in server.converted_definitions
        if definition not in classes
    ]
    if certificates is None:
        return objects
    injected = [RegisteredObject(target=target) for target in certificates.inject]
    configurations = [_registered_configuration(server, name, mutating=mutating) for mutating in (True, False)]
    every = [*(each for each in configurations if each.webhooks), *objects, *injected]
    return list({each.target: each for each in reversed(every)}.values())[::-1]


def _registered_definition(
    reconciled: Sequence[type[TypedObject]], classes: Sequence[type[TypedObject]], converted: Container[str]
) -> RegisteredObject:
    name = definition_name(classes)
    return RegisteredObject(
        target=InjectionTarget(InjectionKind.CONVERSION, name),
        converted=name in converted,
        versions=tuple(
            RegisteredVersion(
                name=cls.gvk.version,
                used=cls in reconciled,
                # A single class may be one of several versions, of which others declare the stored one.
                stored=cls in stored_classes(classes) and (len(classes) > 1 or getattr(cls, "storage", False)),
                subresources=subresources_of(cls),
            )
            for cls in classes
            if getattr(cls, "served", True)
        ),
    )


def _registered_configuration(server: WebhookServer, name: str, *, mutating: bool) -> RegisteredObject:
    kind, ending = (InjectionKind.MUTATING, "mutating") if mutating else (InjectionKind.VALIDATING, "validating")
    webhooks = tuple(each.name for each in server.registrations if each.mutating is mutating)
    return RegisteredObject(target=InjectionTarget(kind, f"{name}-{ending}"), webhooks=webhooks)


def _registered(webhooks: Iterable[WebhookBuilder[Any]]) -> WebhookServer:
    """Return a webhook server that is not started, with all webhooks registered."""
    server = WebhookServer()
    for builder in webhooks:
        builder.complete(server)
    return server
