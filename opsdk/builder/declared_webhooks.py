"""The webhooks that an operator declares: what they register at the API server, and the server that answers its calls.

An operator without webhooks does not load this module, nor those of the webhook server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from opsdk.apimachinery.crd import crd_for, versions_by_kind
from opsdk.apimachinery.gvk import GroupKind
from opsdk.apimachinery.kinds import KindLike
from opsdk.apimachinery.object import TypedObject
from opsdk.cluster.cluster import Cluster
from opsdk.errors import UsageError
from opsdk.manager.manager import Manager
from opsdk.manager.phases import Phase
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.builder import WebhookBuilder
from opsdk.webhook.certificates.injection import InjectionKind, InjectionTarget
from opsdk.webhook.certificates.options import SelfSigned
from opsdk.webhook.configurations import WebhookClientConfig, conversion_stanza, webhook_configurations
from opsdk.webhook.conversion import Converter, HubSpokeConverter
from opsdk.webhook.options import WebhookServerOptions
from opsdk.webhook.registered.comparison import RegisteredObject, registered_webhooks
from opsdk.webhook.registered.definitions import registered_definition
from opsdk.webhook.registered.objects import RegisteredObjects
from opsdk.webhook.server import WebhookServer

Kinds = Sequence[type[TypedObject]]
_ANY_ADDRESS: Final = WebhookClientConfig(url="https://localhost")
"""The address is compared with the one that the server has later."""


class DeclaredWebhooks:
    """The webhooks of one operator, in the order of their declaration."""

    def __init__(self) -> None:
        self._builders: Final[list[WebhookBuilder[Any]]] = []

    def add(self, kind: KindLike[Any]) -> WebhookBuilder[Any]:
        """Return a builder for webhooks of a kind. `serve` completes it."""
        builder = WebhookBuilder[Any]().for_(kind)
        self._builders.append(builder)
        return builder

    @property
    def converters(self) -> dict[GroupKind, Converter]:
        """The converters of custom resources, by kind."""
        return {b.converter.group_kind: b.converter for b in self._builders if b.converter is not None}

    # -------------------------------------------------------------- what they register
    def definitions(self, kinds: Kinds, client_config: WebhookClientConfig | None) -> list[JsonObject]:
        """Return one CustomResourceDefinition for each kind, with the versions and the conversion of its converter.

        Args:
            kinds: the reconciled classes.
            client_config: how the API server reaches the webhook server.

        Raises:
            UsageError: a kind has a converter, and `client_config` is None.
        """
        converted = {each for each, converter in self.converters.items() if isinstance(converter, HubSpokeConverter)}
        definitions = []
        for group_kind, classes in self._versions(kinds).items():
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

    def _versions(self, kinds: Kinds) -> dict[GroupKind, list[type[TypedObject]]]:
        """Return the classes of each kind: the reconciled ones, then the other versions of its converter."""
        versions = versions_by_kind(kinds)
        for group_kind, converter in self.converters.items():
            if isinstance(converter, HubSpokeConverter):
                classes = versions.setdefault(group_kind, [])
                classes += [cls for cls in converter.kinds if cls not in classes]
        return versions

    def configurations(self, client_config: WebhookClientConfig, *, name: str) -> list[JsonObject]:
        """Return the webhook configurations, see `webhook_configurations`."""
        return webhook_configurations(self._complete(WebhookServer()).registrations, client_config, name=name)

    def registered_objects(self, kinds: Kinds, certificates: SelfSigned | None, *, name: str) -> list[RegisteredObject]:
        """Return what the operator registers at the API server: definitions, and webhook configurations.

        Args:
            kinds: the reconciled classes.
            certificates: with which it issues its certificates. Without, other programs install the configurations,
                under names that the operator does not know.
            name: prefix of the names of the webhook configurations.
        """
        server = self._complete(WebhookServer())
        converted = set(server.converted_definitions)
        objects = [registered_definition(kinds, each, converted) for each in self._versions(kinds).values()]
        classes = {each.target.name for each in objects}
        objects += [
            RegisteredObject(target=InjectionTarget(InjectionKind.CONVERSION, definition), converted=True)
            for definition in server.converted_definitions
            if definition not in classes
        ]
        if certificates is None:
            return objects
        injected = [RegisteredObject(target=target) for target in certificates.inject]
        configurations = [
            RegisteredObject(
                target=InjectionTarget(InjectionKind((tree["apiVersion"], tree["kind"])), tree["metadata"]["name"]),
                webhooks=registered_webhooks(tree),
            )
            for tree in webhook_configurations(server.registrations, _ANY_ADDRESS, name=name)
        ]
        every = [*configurations, *objects, *injected]
        return list({each.target: each for each in reversed(every)}.values())[::-1]

    # -------------------------------------------------------------- the server
    def serve(
        self,
        manager: Manager,
        cluster: Cluster,
        options: WebhookServerOptions,
        registered: Callable[[], Sequence[RegisteredObject]],
    ) -> WebhookServer:
        """Add the webhook server to a manager, and the follower of registered objects if the server listens.

        Args:
            manager: of the operator.
            cluster: has the objects.
            options: of the server.
            registered: returns what the operator registered; called if the server listens.
        """
        server = self._complete(WebhookServer(options, hook=manager.hook))
        if options.listen:
            _follow_registered(manager, cluster, server, registered())
        manager.add(server)
        manager.add_readyz_check("webhooks", server.check_started)
        return server

    def _complete(self, server: WebhookServer) -> WebhookServer:
        """Register all webhooks with a server that is not started, and return it."""
        for builder in self._builders:
            builder.complete(server)
        return server


def _follow_registered(
    manager: Manager, cluster: Cluster, server: WebhookServer, objects: Sequence[RegisteredObject]
) -> None:
    """Follow registered objects while the manager runs, and issue the certificates of the server if it shall."""
    config, issue = cluster.config, server.options.certificates
    options = replace(issue, namespace=issue.namespace or config.namespace) if issue is not None else None
    registered = RegisteredObjects(
        cluster.uncached,
        objects,
        client_config=options.client_config() if options is not None else None,
        new_cache=cluster.new_cache,
        hook=manager.hook,
    )
    if issue is not None and options is not None:
        from opsdk.webhook.certificates.manager import CertificateManager  # noqa: PLC0415 - needs an extra, and slow to import

        certificates = CertificateManager(
            cluster.uncached,
            options,
            namespace_source="SelfSigned.namespace" if issue.namespace else config.namespace_source,
            registered=registered,
            client_ca_file=server.options.client_ca_file,
            hook=manager.hook,
        )
        server.use_certificates(certificates.tls_context)
        manager.use_metrics_certificates(certificates.serving_context)
        manager.add(certificates)
        manager.add_readyz_check("webhook-certificates", certificates.check_ready)
    manager.add(registered, phase=Phase.WEBHOOKS)
    manager.add_readyz_check("registered-objects", registered.check_ready)
