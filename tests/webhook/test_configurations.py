"""Webhook configurations, and the conversion part of a definition, from registered webhooks."""

from __future__ import annotations

from typing import Any

import pytest
from webhook_reviews import Site

from opsdk.apimachinery.meta import LabelSelector
from opsdk.errors import UsageError
from opsdk.webhook.builder import WebhookBuilder
from opsdk.webhook.configurations import (
    WebhookClientConfig,
    WebhookRule,
    WebhookService,
    conversion_stanza,
    webhook_configurations,
)
from opsdk.webhook.server import WebhookServer

SERVICE = WebhookClientConfig(service=WebhookService(name="hooks", namespace="demo"), ca_bundle=b"PEM")


def do_nothing(site: Site, ctx: Any) -> None:
    """A rule that allows everything."""


def test_configurations_have_every_field() -> None:
    """Rules, policies, timeouts and the way to the server come from what is registered."""
    server = WebhookServer()
    rule = WebhookRule(subresources=["status"], failure_policy="Ignore", timeout_seconds=5, match_policy="Exact")
    builder = WebhookBuilder().for_(Site).with_defaulter(do_nothing, rule=WebhookRule(reinvocation_policy="IfNeeded"))
    builder.with_validator(create=do_nothing, delete=do_nothing, rule=rule).complete(server)
    mutating, validating = webhook_configurations(server.registrations, SERVICE, name="demo")
    assert (mutating["kind"], mutating["metadata"]) == ("MutatingWebhookConfiguration", {"name": "demo-mutating"})
    assert mutating["webhooks"][0]["reinvocationPolicy"] == "IfNeeded"
    assert mutating["webhooks"][0]["rules"][0]["operations"] == ["CREATE", "UPDATE"]
    assert validating["webhooks"] == [
        {
            "name": "validate-v1.sites.demo.opsdk.dev",
            "clientConfig": {
                "service": {
                    "name": "hooks",
                    "namespace": "demo",
                    "path": "/validate-demo-opsdk-dev-v1-site",
                    "port": 443,
                },
                "caBundle": "UEVN",
            },
            "rules": [
                {
                    "operations": ["CREATE", "DELETE"],
                    "apiGroups": ["demo.opsdk.dev"],
                    "apiVersions": ["v1"],
                    "resources": ["sites", "sites/status"],
                    "scope": "Namespaced",
                }
            ],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "matchPolicy": "Exact",
            "timeoutSeconds": 5,
        }
    ]


def test_selectors_and_conditions_limit_the_calls() -> None:
    """A configuration has name, selectors and match conditions of its rule."""
    server = WebhookServer()
    rule = WebhookRule(
        name="images.demo.opsdk.dev",
        object_selector=LabelSelector(match_labels={"a": "b"}),
        namespace_selector=LabelSelector(match_labels={"c": "d"}),
        match_conditions={"not-system": "!request.userInfo.username.startsWith('system:')"},
    )
    WebhookBuilder().for_(Site).with_validator(create=do_nothing, rule=rule).complete(server)
    ((webhook,),) = (c["webhooks"] for c in webhook_configurations(server.registrations, SERVICE, name="demo"))
    assert webhook["name"] == "images.demo.opsdk.dev"
    assert webhook["objectSelector"] == {"matchLabels": {"a": "b"}}
    assert webhook["namespaceSelector"] == {"matchLabels": {"c": "d"}}
    assert webhook["matchConditions"] == [
        {"name": "not-system", "expression": "!request.userInfo.username.startsWith('system:')"}
    ]


def test_a_configuration_without_webhooks_is_left_out() -> None:
    """A server with validators only has no mutating configuration."""
    server = WebhookServer()
    WebhookBuilder().for_(Site).with_validator(create=do_nothing).complete(server)
    (only,) = webhook_configurations(server.registrations, SERVICE, name="demo")
    assert only["kind"] == "ValidatingWebhookConfiguration"


def test_a_conversion_names_server_and_review_version() -> None:
    """A conversion stanza names the server and the review version."""
    stanza = conversion_stanza(WebhookClientConfig(url="https://127.0.0.1:9443/"))
    assert stanza == {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"url": "https://127.0.0.1:9443/convert"},
            "conversionReviewVersions": ["v1"],
        },
    }


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"service": WebhookService(name="a", namespace="b"), "url": "https://x"},
        {"url": "http://127.0.0.1:9443"},
    ],
)
def test_a_server_is_reached_in_one_way(options: Any) -> None:
    """A client config has either a Service or an https URL."""
    with pytest.raises(UsageError):
        WebhookClientConfig(**options)


@pytest.mark.parametrize("seconds", [0, 31, -1])
def test_a_timeout_is_what_the_server_accepts(seconds: int) -> None:
    """A webhook's timeout is 1 to 30 seconds."""
    with pytest.raises(UsageError, match="1 to 30"):
        WebhookRule(timeout_seconds=seconds)
