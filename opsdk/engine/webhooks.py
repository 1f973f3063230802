"""The webhooks of an operator that runs in one process with its API server."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from opsdk.apimachinery.object import Unstructured
from opsdk.builder.operator import Operator
from opsdk.client.client import Client
from opsdk.http.asgi_types import CUT, App, Receive, Scope, Send
from opsdk.webhook.configurations import WebhookClientConfig
from opsdk.webhook.options import WebhookServerOptions

_AUTHORITY: Final = "webhooks.engine:443"
CLIENT_CONFIG: Final = WebhookClientConfig(url=f"https://{_AUTHORITY}")
"""Of the webhooks of an operator after `serve_in_process`."""


def serve_in_process(operator: Operator, local_apps: dict[str, App]) -> None:
    """Let an API server in this process call the webhooks of an operator, from its start on; before, they do not exist.

    Args:
        operator: the new operator; it replaces the one that served before.
        local_apps: the applications that the server calls.
    """
    without_sockets(operator)
    if operator.has_webhooks:
        local_apps[_AUTHORITY] = _WebhookApp(operator)


class _WebhookApp:
    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI 3."""
        server = self._operator.webhook_server
        if server is None:
            scope["extensions"][CUT]()
            return
        await server.app(scope, receive, send)


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
