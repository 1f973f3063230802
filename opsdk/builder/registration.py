"""Lets a manager follow what an operator registered, and issue the certificates of its webhook server."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from opsdk.cluster.cluster import Cluster
from opsdk.manager.manager import Manager
from opsdk.manager.phases import Phase
from opsdk.webhook.certificates.options import SelfSigned
from opsdk.webhook.registered.comparison import RegisteredObject
from opsdk.webhook.registered.objects import RegisteredObjects
from opsdk.webhook.server import WebhookServer


def follow_registered(
    manager: Manager,
    cluster: Cluster,
    server: WebhookServer,
    objects: Iterable[RegisteredObject],
    *,
    issue: SelfSigned | None,
) -> None:
    """Follow registered objects while the manager runs.

    Args:
        manager: of the operator.
        cluster: has the objects.
        server: serves the webhooks.
        objects: what the operator registered.
        issue: how certificates are issued; None if other programs do that.
    """
    config = cluster.config
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
