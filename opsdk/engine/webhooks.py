"""The webhooks of an operator that runs in one process with its API server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        local_apps[_AUTHORITY] = InProcessWebhooks(lambda: [webhook_app(operator)])


class InProcessWebhooks:
    """An ASGI application that passes each request to the next process that serves webhooks, as a Service does.

    Without one, the connection breaks, and the failure policy of the webhook decides.

    Args:
        apps: returns the application of each process; None for one that serves no webhooks now.
    """

    def __init__(self, apps: Callable[[], Sequence[App | None]]) -> None:
        self._apps = apps
        self._next = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI 3."""
        apps = self._apps()
        for _ in apps:
            app = apps[self._next % len(apps)]
            self._next += 1
            if app is not None:
                await app(scope, receive, send)
                return
        scope["extensions"][CUT]()


def webhook_app(operator: Operator) -> App | None:
    """Return the application of an operator's webhooks while it serves them; else None."""
    server = operator.webhook_server
    return None if server is None else server.app


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
