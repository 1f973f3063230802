"""Webhooks, versions, rules and scale through the in-process API server, in virtual time."""

from __future__ import annotations

import pytest

from envtest import Environment
from opsdk import Client, ObjectMeta
from opsdk.api.apps.v1 import Deployment
from opsdk.api.autoscaling.v1 import Scale
from opsdk.client.patch import merge_patch
from opsdk.errors import ForbiddenError, InvalidError
from opsdk.testing.eventually import eventually
from opsdk.testing.running import running
from website.api import Website, WebsiteSpec
from website.operator import make_operator
from website.v1alpha1 import PORT, WebsiteV1Alpha1, WebsiteV1Alpha1Spec
from website.webhooks import MAX_CONTENT, PROTECTED, add_webhooks

pytestmark = pytest.mark.k8s(controllers="cluster")


def site(name: str = "hello", image: str = "nginx:1", **spec: object) -> Website:
    """A Website in the default namespace."""
    return Website(metadata=ObjectMeta(name=name, namespace="default"), spec=WebsiteSpec(image=image, **spec))  # type: ignore[arg-type]


async def test_rules_hold_in_every_version(k8s_env: Environment, k8s_client: Client) -> None:
    """Schema, CEL, defaulter and validator apply to requests in every version."""
    async with running(add_webhooks(make_operator()), k8s_env):
        with pytest.raises(InvalidError, match=r"spec\.image: .* needs a fixed tag"):
            await k8s_client.create(site(image="nginx:latest"))
        with pytest.raises(InvalidError, match="must have at most 1000000 bytes"):
            await k8s_client.create(site(content="x" * (MAX_CONTENT + 1)))
        meta, spec = ObjectMeta(name="old", namespace="default"), WebsiteV1Alpha1Spec(image="nginx", html="Hi!")
        old = await k8s_client.create(WebsiteV1Alpha1(metadata=meta, spec=spec))
        assert old.spec.image == "nginx:stable"
        assert (await k8s_client.get(Website, "default/old")).spec.content == "Hi!"


async def test_protected_sites_are_not_deleted(k8s_env: Environment, k8s_client: Client) -> None:
    """Neither version of the API deletes a protected site."""
    async with running(add_webhooks(make_operator()), k8s_env):
        created = site()
        created.metadata.annotations[PROTECTED] = "true"
        await k8s_client.create(created)
        for kind in (Website, WebsiteV1Alpha1):
            with pytest.raises(ForbiddenError, match=f"remove the annotation {PROTECTED} first"):
                await k8s_client.delete(kind, "default/hello")


async def test_a_field_that_v1alpha1_lacks_survives_its_writers(k8s_env: Environment, k8s_client: Client) -> None:
    """A v1alpha1 client updates the page; the port of v1 is kept."""
    async with running(add_webhooks(make_operator()), k8s_env):
        await k8s_client.create(site(port=8080))

        async def change_page() -> bool:
            old = await k8s_client.get(WebsiteV1Alpha1, "default/hello")
            assert old.metadata.annotations[PORT] == "8080"
            old.spec.html = "new"
            await k8s_client.update(old)
            return True

        await eventually(change_page)
        new = await k8s_client.get(Website, "default/hello")
        assert (new.spec.port, new.spec.content) == (8080, "new")
        assert PORT not in new.metadata.annotations


@pytest.mark.parametrize("kind", [Website, WebsiteV1Alpha1])
async def test_sites_are_scaled_through_any_version(
    kind: type[Website | WebsiteV1Alpha1], k8s_env: Environment, k8s_client: Client
) -> None:
    """The operator follows, and the scale subresource shows the ready replicas."""
    async with running(add_webhooks(make_operator()), k8s_env):
        await k8s_client.create(site())
        obj = await k8s_client.get(kind, "default/hello")
        await k8s_client.subresource("scale").patch(obj, merge_patch({"spec": {"replicas": 3}}))

        async def is_scaled() -> bool:
            scale = await k8s_client.subresource("scale").get(obj, Scale)
            return scale.status is not None and scale.status.replicas == 3

        await eventually(is_scaled)
        assert (await k8s_client.get(Deployment, "default/hello")).spec.replicas == 3
