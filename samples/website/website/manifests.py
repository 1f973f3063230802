"""What a cluster needs for the versions and webhooks: ``python -m website.manifests --ca-file ca.crt``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from opsdk import JsonObject, crd_for
from opsdk.webhook.builder import WebhookBuilder
from opsdk.webhook.configurations import WebhookClientConfig, WebhookService, conversion_stanza, webhook_configurations
from opsdk.webhook.server import WebhookServer
from website.api import Website
from website.v1alpha1 import CONVERTER
from website.webhooks import declare

SERVICE = WebhookService(name="website-webhooks", namespace="website-system")


def definition(client: WebhookClientConfig) -> JsonObject:
    """Return the definition with both versions, converted by the webhook."""
    crd = crd_for(*CONVERTER.kinds)
    crd["spec"]["conversion"] = conversion_stanza(client)
    return crd


def configurations(client: WebhookClientConfig) -> list[JsonObject]:
    """Return the webhook configurations."""
    server = WebhookServer()
    declare(WebhookBuilder().for_(Website)).complete(server)
    return webhook_configurations(server.registrations, client, name="website")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the objects as YAML."""
    parser = argparse.ArgumentParser(prog="python -m website.manifests", description="Prints definition and webhooks.")
    parser.add_argument(
        "--ca-file", type=Path, help="PEM certificate that signed tls.crt; default: a public CA signed it"
    )
    ca_file = parser.parse_args(arguments).ca_file
    client = WebhookClientConfig(service=SERVICE, ca_bundle=ca_file.read_bytes() if ca_file else b"")
    yaml.safe_dump_all([definition(client), *configurations(client)], sys.stdout, sort_keys=False)


if __name__ == "__main__":
    main()
