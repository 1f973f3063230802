"""The webhooks of a kind, registered with a server."""

from __future__ import annotations

from typing import Any

import pytest
from webhook_reviews import OldSite, OldSiteSpec, Site, SiteSpec, operations, post, review, site_tree

from opsdk.api.core.v1 import Pod
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.errors import AdmissionDeniedError, UsageError
from opsdk.webhook.builder import WebhookBuilder
from opsdk.webhook.conversion import HubSpokeConverter, Spoke
from opsdk.webhook.server import WebhookServer

CONVERTER = HubSpokeConverter(
    Site,
    Spoke(
        OldSite,
        lambda old: Site(spec=SiteSpec(image=old.spec.picture)),
        lambda site: OldSite(spec=OldSiteSpec(picture=site.spec.image)),
    ),
)


def set_replicas(site: Site, ctx: Any) -> None:
    """A defaulter."""
    site.spec.replicas = 1


def refuse(site: Site, ctx: Any) -> None:
    """A validator."""
    raise AdmissionDeniedError("no")


async def test_all_webhooks_of_a_kind_are_registered() -> None:
    """The paths of a kind's webhooks are controller-runtime's."""
    server = WebhookServer()
    builder = WebhookBuilder().for_(Site).with_defaulter(set_replicas).with_validator(create=refuse)
    builder.with_converter(CONVERTER).complete(server)
    assert server.webhook_paths() == ("/mutate-demo-opsdk-dev-v1-site", "/validate-demo-opsdk-dev-v1-site", "/convert")
    _, answer = await post(server, "/mutate-demo-opsdk-dev-v1-site", review(object=site_tree()))
    assert operations(answer["response"]) == [{"op": "add", "path": "/spec/replicas", "value": 1}]
    _, answer = await post(server, "/validate-demo-opsdk-dev-v1-site", review(object=site_tree()))
    assert answer["response"]["status"]["message"] == "no"


@pytest.mark.behaviour(127)
def test_two_kinds_do_not_share_a_path() -> None:
    """A kind has one defaulter; a second one needs a path of its own."""
    server = WebhookServer()
    WebhookBuilder().for_(Site).with_defaulter(set_replicas).complete(server)
    with pytest.raises(UsageError, match="can't register duplicate path: /mutate-demo-opsdk-dev-v1-site"):
        WebhookBuilder().for_(Site).with_defaulter(set_replicas).complete(server)
    WebhookBuilder().for_(Site).with_defaulter(set_replicas, path="/second").complete(server)
    assert server.webhook_paths()[-1] == server.registrations[-1].path == "/second"
    with pytest.raises(UsageError, match="is not a webhook path"):
        WebhookBuilder().for_(Site).with_defaulter(set_replicas, path="no-slash").complete(server)


def test_names_and_scopes_come_from_the_kind() -> None:
    """A name has at least three segments; the scope is open for a kind without a class."""
    server = WebhookServer()
    WebhookBuilder().for_(Pod).with_validator(create=refuse).complete(server)
    policy = unstructured_kind("networking.k8s.io/v1", "NetworkPolicy")
    builder = WebhookBuilder().for_(policy, plural="networkpolicies", scope="Namespaced")
    builder.with_validator(create=refuse).complete(server)
    assert [(r.name, r.path, r.resource, r.scope) for r in server.registrations] == [
        ("validate-v1.pods.core.k8s.io", "/validate--v1-pod", "pods", "Namespaced"),
        (
            "validate-v1.networkpolicies.networking.k8s.io",
            "/validate-networking-k8s-io-v1-networkpolicy",
            "networkpolicies",
            "Namespaced",
        ),
    ]


def test_what_is_incomplete_is_refused() -> None:
    """No kind, no webhook, or a converter of another kind."""
    server = WebhookServer()
    with pytest.raises(UsageError, match="call for_"):
        WebhookBuilder().with_converter(CONVERTER).complete(server)
    with pytest.raises(UsageError, match="nothing to serve"):
        WebhookBuilder().for_(Site).complete(server)
    with pytest.raises(UsageError, match="is not a converter of"):
        WebhookBuilder().for_(Pod).with_converter(CONVERTER).complete(server)
    assert server.webhook_paths() == ()
