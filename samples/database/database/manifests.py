"""The definition with both versions, and the webhook configuration: ``python -m database.manifests ca.crt``."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from database.api import Database
from database.v1beta1 import CONVERTER
from database.webhooks import declare
from opsdk import JsonObject, crd_for
from opsdk.webhook.builder import WebhookBuilder
from opsdk.webhook.configurations import WebhookClientConfig, WebhookService, conversion_stanza, webhook_configurations
from opsdk.webhook.server import WebhookServer

SERVICE = WebhookService(name="database-webhooks", namespace="database-system")


def manifests(client: WebhookClientConfig) -> list[JsonObject]:
    """Return the definition, and the webhook configurations after it."""
    crd, server = crd_for(*CONVERTER.kinds), WebhookServer()
    crd["spec"]["conversion"] = conversion_stanza(client)
    declare(WebhookBuilder().for_(Database)).complete(server)
    return [crd, *webhook_configurations(server.registrations, client, name="database")]


def main() -> None:
    """Print the objects as YAML. The argument is the PEM certificate that signed ``tls.crt``."""
    client = WebhookClientConfig(service=SERVICE, ca_bundle=Path(sys.argv[1]).read_bytes())
    yaml.safe_dump_all(manifests(client), sys.stdout, sort_keys=False)


if __name__ == "__main__":
    main()
