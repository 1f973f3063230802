"""Webhooks, versions, rules and scale through the in-process API server, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import envtest
from envtest.plane.install import Webhooks
from opsdk import Client, Cluster, ObjectMeta
from opsdk.api.apps.v1 import Deployment
from opsdk.api.autoscaling.v1 import Scale
from opsdk.errors import ForbiddenError, InvalidError
from opsdk.patch import merge_patch
from opsdk.testing.running import running
from opsdk.webhook.builder import WebhookBuilder
from opsdk.webhook.configurations import WebhookClientConfig
from opsdk.webhook.server import WebhookServer
from website.api import Website, WebsiteSpec
from website.manifests import SERVICE, configurations, definition
from website.operator import make_operator
from website.v1alpha1 import PORT, WebsiteV1Alpha1, WebsiteV1Alpha1Spec
from website.webhooks import MAX_CONTENT, PROTECTED, declare


@asynccontextmanager
async def served() -> AsyncIterator[tuple[envtest.Environment, Client]]:
    """An API server that calls the webhooks, with both versions of Website."""
    server = WebhookServer()
    declare(WebhookBuilder().for_(Website)).complete(server)
    client_config = WebhookClientConfig(service=SERVICE)
    hooks = Webhooks(objects=configurations(client_config), app=server.app)
    env = envtest.Environment(controllers="cluster", crds=[definition(client_config)], webhooks=hooks)
    async with env, Cluster(env.config) as cluster:
        yield env, cluster.uncached


def site(name: str = "hello", image: str = "nginx:1", **spec: object) -> Website:
    """A Website in the default namespace."""
    return Website(metadata=ObjectMeta(name=name, namespace="default"), spec=WebsiteSpec(image=image, **spec))  # type: ignore[arg-type]


async def test_rules_hold_in_every_version() -> None:
    """Schema, CEL, defaulter and validator answer in the version of the request."""
    async with served() as (_, client):
        with pytest.raises(InvalidError, match=r"spec\.image: .* needs a fixed tag"):
            await client.create(site(image="nginx:latest"))
        with pytest.raises(InvalidError, match="must have at most 1000000 bytes"):
            await client.create(site(content="x" * (MAX_CONTENT + 1)))
        meta = ObjectMeta(name="old", namespace="default")
        old = await client.create(WebsiteV1Alpha1(metadata=meta, spec=WebsiteV1Alpha1Spec(image="nginx", html="Hi!")))
        assert old.spec.image == "nginx:stable"
        assert (await client.get(Website, "default/old")).spec.content == "Hi!"


async def test_protected_sites_are_not_deleted() -> None:
    """Neither with the version that has the annotation, nor with another one."""
    async with served() as (_, client):
        created = site()
        created.metadata.annotations[PROTECTED] = "true"
        await client.create(created)
        for kind in (Website, WebsiteV1Alpha1):
            with pytest.raises(ForbiddenError, match=f"remove the annotation {PROTECTED} first"):
                await client.delete(kind, "default/hello")


async def test_a_field_that_v1alpha1_lacks_survives_its_writers() -> None:
    """A reader of v1alpha1 changes the page; the port of v1 stays."""
    async with served() as (_, client):
        await client.create(site(port=8080))
        old = await client.get(WebsiteV1Alpha1, "default/hello")
        assert old.metadata.annotations[PORT] == "8080"
        old.spec.html = "new"
        await client.update(old)
        new = await client.get(Website, "default/hello")
        assert (new.spec.port, new.spec.content) == (8080, "new")
        assert PORT not in new.metadata.annotations


@pytest.mark.parametrize("kind", [Website, WebsiteV1Alpha1])
async def test_sites_are_scaled_through_any_version(kind: type[Website | WebsiteV1Alpha1]) -> None:
    """The operator follows, and the scale subresource shows the ready replicas."""
    async with served() as (env, client), running(make_operator(), env):
        await client.create(site())
        obj = await client.get(kind, "default/hello")
        await client.subresource("scale").patch(obj, merge_patch({"spec": {"replicas": 3}}))

        async def is_scaled() -> None:
            scale = await client.subresource("scale").get(obj, Scale)
            assert scale.status is not None
            assert scale.status.replicas == 3

        await env.eventually(is_scaled, within=60)
        assert (await client.get(Deployment, "default/hello")).spec.replicas == 3
