"""Serves the webhooks of the simulated operator: the Service in front of its replicas. No sockets, so runs repeat."""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.builder.operator import Operator
from opsdk.client.client import Client
from opsdk.engine.webhooks import apply_configurations
from opsdk.engine.world.replica import Replica
from opsdk.http.asgi_types import CUT, Receive, Scope, Send
from opsdk.recipes.definitions import apply_definitions
from opsdk.webhook.configurations import WebhookClientConfig

AUTHORITY = "webhooks.simulation:443"
_CLIENT_CONFIG = WebhookClientConfig(url=f"https://{AUTHORITY}")
FIELD_OWNER = "simulation"
_POLL_SECONDS = 0.02
"""A test server establishes a definition immediately."""


async def install_webhooks(client: Client, operator: Operator) -> None:
    """Apply the definitions and the webhook configurations of an operator that has webhooks."""
    await apply_definitions(client, operator.definitions(_CLIENT_CONFIG), poll_interval=_POLL_SECONDS)
    await apply_configurations(client, operator, _CLIENT_CONFIG, field_owner=FIELD_OWNER)


class ReplicaWebhooks:
    """An ASGI application that passes each request to the next replica that serves webhooks.

    Without one, the connection breaks, and the failure policy of the webhook decides.
    """

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self._replicas = replicas
        self._next = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI 3."""
        for _ in self._replicas:
            replica = self._replicas[self._next % len(self._replicas)]
            self._next += 1
            if (app := replica.webhook_app) is not None:
                await app(scope, receive, send)
                return
        scope["extensions"][CUT]()
