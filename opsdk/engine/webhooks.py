"""The webhooks of an operator that runs in one process with its API server."""

from __future__ import annotations

from msgspec.structs import replace

from opsdk.apimachinery.object import Unstructured
from opsdk.builder.operator import Operator
from opsdk.client.client import Client
from opsdk.webhook.configurations import WebhookClientConfig
from opsdk.webhook.options import WebhookServerOptions


def without_sockets(operator: Operator) -> None:
    """Let the operator serve its webhooks without a port and certificates."""
    if operator.has_webhooks:
        operator.options = replace(operator.options, webhook=WebhookServerOptions(listen=False))


async def apply_configurations(
    client: Client, operator: Operator, client_config: WebhookClientConfig | None = None, *, field_owner: str
) -> None:
    """Apply the webhook configurations of an operator.

    Args:
        client: writes directly to the server.
        operator: it declares webhooks.
        client_config: of each webhook; None for that of the operator's options.
        field_owner: the field manager.
    """
    for configuration in operator.webhook_configurations(client_config):
        await client.apply(Unstructured.from_tree(configuration), field_owner=field_owner, force=True)
