"""Serves an operator's webhooks on this machine, for tests and for development.

Upstream: sigs.k8s.io/controller-runtime/pkg/envtest/webhook.go (the same task)
"""

from __future__ import annotations

import socket

from msgspec.structs import replace

from opsdk.builder.operator import Operator
from opsdk.builder.options import OperatorOptions
from opsdk.client.client import Client
from opsdk.engine.webhooks import apply_configurations
from opsdk.webhook.certificates.options import SelfSigned
from opsdk.webhook.options import WebhookServerOptions

_HOST = "127.0.0.1"
_FIELD_OWNER = "opsdk-webhooks"
# Seconds. TLS verifies with the machine's clock, which differs from virtual time by months.
_VALIDITY = 20 * 365 * 86400.0


def with_local_webhooks(operator: Operator, *, namespace: str, port: int = 0, service: str = "") -> OperatorOptions:
    """Return the operator's options with a webhook server that a local API server can call.

    Args:
        operator: it declares webhooks.
        namespace: of the Secret with the certificates, and of the Service.
        port: on the loopback interface; 0 selects a free one.
        service: the API server calls this Service, which must lead to the port, see `local_address`; empty for the URL
            of the port.
    """
    port = port or free_port()
    secret = f"{operator.name}-local-webhooks"
    certificates = SelfSigned(
        service=service,
        url="" if service else f"https://{_HOST}:{port}",
        secret_name=secret,
        namespace=namespace,
        validity=_VALIDITY,
        ca_validity=2 * _VALIDITY,
    )
    webhook = WebhookServerOptions(host=_HOST, port=port, certificates=certificates)
    return replace(operator.options, webhook=webhook)


def local_address(port: int) -> dict[str, str]:
    """Return the annotation with which envtest's API server calls a Service at a port of the loopback interface."""
    return {"envtest.opsdk.dev/address": f"{_HOST}:{port}"}


async def install_configurations(client: Client, operator: Operator) -> None:
    """Apply the webhook configurations of an operator. It adds the ``caBundle`` when it runs."""
    await apply_configurations(client, operator, field_owner=_FIELD_OWNER)


def free_port() -> int:
    """Return a TCP port of the loopback interface that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
    return port
