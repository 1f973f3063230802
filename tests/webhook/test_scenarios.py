"""Webhooks as an API server calls them: in process, over TLS, and for kubectl."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from webhook_reviews import OldSite, OldSiteSpec, Site, SiteSpec

from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Unstructured
from opsdk.cluster.cluster import Cluster
from opsdk.errors import AdmissionDeniedError, ApiError, ForbiddenError, InternalServerError, InvalidError
from opsdk.manager.manager import Manager
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.admission import invalid_field
from opsdk.webhook.builder import WebhookBuilder
from opsdk.webhook.configurations import (
    WebhookClientConfig,
    WebhookRule,
    WebhookService,
    conversion_stanza,
    webhook_configurations,
)
from opsdk.webhook.conversion import HubSpokeConverter, Spoke
from opsdk.webhook.handlers import AdmissionContext
from opsdk.webhook.options import WebhookServerOptions
from opsdk.webhook.server import WebhookServer

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
install = pytest.importorskip("envtest.plane.install", reason="needs the envtest extra: pip install opsdk[envtest]")

SERVICE = WebhookClientConfig(service=WebhookService(name="hooks", namespace="default"))


def set_replicas(site: Site, ctx: AdmissionContext) -> None:
    """The defaulter."""
    if site.spec.replicas is None:
        site.spec.replicas = 1
    if ctx.user.username:
        site.metadata.annotations.setdefault("by", ctx.user.username)


class Rules:
    """The validator."""

    async def validate_create(self, site: Site, ctx: AdmissionContext) -> Sequence[str]:
        if site.spec.image == "bad":
            cause = invalid_field("spec.image", site.spec.image, "must be good")
            raise AdmissionDeniedError(reason="Invalid", causes=[cause])
        if site.spec.image == "crash":
            raise ZeroDivisionError("of course")
        if site.spec.image == "hang":
            await asyncio.sleep(3600)
        return ["spec.image has no tag"] if ":" not in site.spec.image else []

    def validate_update(self, old: Site, new: Site, ctx: AdmissionContext) -> None:
        if new.spec.image != old.spec.image:
            raise AdmissionDeniedError("spec.image is immutable")

    def validate_delete(self, site: Site, ctx: AdmissionContext) -> None:
        if "keep" in site.metadata.labels:
            raise AdmissionDeniedError("the label keep protects it")


CONVERTER = HubSpokeConverter(
    Site,
    Spoke(
        OldSite,
        lambda old: Site(spec=SiteSpec(image=old.spec.picture, replicas=old.spec.count)),
        lambda site: OldSite(spec=OldSiteSpec(picture=site.spec.image, count=site.spec.replicas)),
    ),
)


def make_server(options: WebhookServerOptions | None = None, **rule: Any) -> WebhookServer:
    """A server with all webhooks of `Site`."""
    server = WebhookServer(options)
    validator = WebhookRule(**rule)
    builder = WebhookBuilder().for_(Site).with_defaulter(set_replicas).with_validator(Rules(), rule=validator)
    builder.with_converter(CONVERTER).complete(server)
    return server


def definition() -> JsonObject:
    """The definition of `Site` in both versions, converted by the webhook."""
    crd = crd_for(Site, OldSite)
    for version in crd["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"] = True
    return {**crd, "spec": {**crd["spec"], "conversion": conversion_stanza(SERVICE)}}


@asynccontextmanager
async def world(server: WebhookServer, **webhooks: Any) -> AsyncIterator[tuple[Any, Cluster]]:
    """An environment that calls the server, and a cluster for it."""
    objects = webhook_configurations(server.registrations, SERVICE, name="demo")
    hooks = install.Webhooks(objects=objects, **webhooks)
    async with environment.Environment(crds=[definition()], webhooks=hooks) as env, Cluster(env.config) as cluster:
        yield env, cluster


def site(name: str = "a", image: str = "nginx:1", **metadata: Any) -> Site:
    """A site to write."""
    return Site(metadata=ObjectMeta(name=name, namespace="default", **metadata), spec=SiteSpec(image=image))


@pytest.mark.behaviour(123, 124, 125)
async def test_an_api_server_calls_the_webhooks() -> None:
    """Defaults are set, rules are kept, and the client gets code, message and causes."""
    server = make_server()
    async with world(server, app=server.app) as (_, cluster):
        client = cluster.uncached
        created = await client.create(site(labels={"keep": ""}))
        assert created.spec.replicas == 1
        assert created.metadata.annotations["by"]
        with pytest.raises(InvalidError, match="must be good") as refused:
            await client.create(site("b", "bad"))
        assert [cause.field for cause in refused.value.details.causes] == ["spec.image"]
        created.spec.image = "other"
        with pytest.raises(ForbiddenError, match=r"denied the request: spec\.image is immutable"):
            await client.update(created)
        with pytest.raises(ForbiddenError, match="the label keep protects it"):
            await client.delete(created)


@pytest.mark.behaviour(124)
async def test_unknown_fields_survive_the_defaulter() -> None:
    """A field that the definition has and the class has not stays."""
    server = make_server()
    async with world(server, app=server.app) as (_, cluster):
        tree = {"image": "nginx:1", "newField": {"a": 1}}
        kind = unstructured_kind("demo.opsdk.dev/v1", "Site")
        obj = Unstructured("demo.opsdk.dev/v1", "Site", ObjectMeta(name="a", namespace="default"), {"spec": tree})
        await cluster.uncached.create(obj)
        stored = await cluster.uncached.get(kind, "default/a")
        assert stored["spec"] == {"image": "nginx:1", "newField": {"a": 1}, "replicas": 1}


@pytest.mark.behaviour(130)
async def test_an_api_server_converts_with_the_webhook() -> None:
    """An object is written in one version and read, listed and changed in the other; its metadata stays."""
    server = make_server()
    async with world(server, app=server.app) as (_, cluster):
        client = cluster.uncached
        created = await client.create(site(labels={"x": "y"}))
        old = await client.get(OldSite, "default/a")
        assert (old.spec.picture, old.spec.count) == ("nginx:1", 1)
        assert (old.metadata.uid, old.metadata.labels) == (created.metadata.uid, {"x": "y"})
        old.spec.count = 3
        await client.update(old)
        assert (await client.get(Site, "default/a")).spec.replicas == 3
        assert [item.spec.count for item in await client.list(OldSite, namespace="default")] == [3]


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_a_webhook_that_raises_denies(policy: str) -> None:
    """A webhook that raises denies with 500, so the failure policy does not apply, as in controller-runtime."""
    server = make_server(failure_policy=policy)
    async with world(server, app=server.app) as (_, cluster):
        with pytest.raises(InternalServerError, match="panic: ZeroDivisionError: of course") as raised:
            await cluster.uncached.create(site(image="crash"))
        assert "Traceback" not in str(raised.value)


async def test_the_failure_policy_decides_about_a_webhook_that_hangs() -> None:
    """The API server's timeout passes first: Ignore lets the request pass, Fail rejects it."""
    for policy, passes in (("Ignore", True), ("Fail", False)):
        server = make_server(failure_policy=policy, timeout_seconds=2)
        async with world(server, app=server.app) as (_, cluster):
            if passes:
                await cluster.uncached.create(site(image="hang"))
                continue
            with pytest.raises(InternalServerError, match="failed calling webhook"):
                await cluster.uncached.create(site(image="hang"))


async def test_the_failure_policy_decides_about_nonsense() -> None:
    """An answer that is not a review fails the call."""

    async def nonsense(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"<html>"})

    for policy, passes in (("Ignore", True), ("Fail", False)):
        server = WebhookServer()
        rule = WebhookRule(failure_policy=policy)  # type: ignore[arg-type]
        WebhookBuilder().for_(Site).with_validator(Rules(), rule=rule).complete(server)
        async with world(server, app=nonsense) as (_, cluster):
            if passes:
                await cluster.uncached.create(site())
                continue
            with pytest.raises(ApiError, match="failed calling webhook"):
                await cluster.uncached.create(site())


@asynccontextmanager
async def serving(env: Any, server: WebhookServer) -> AsyncIterator[None]:
    """A manager that serves the webhooks over TLS."""
    manager = Manager()
    manager.add(server)
    task = asyncio.create_task(manager.start())
    await manager.wait_ready()
    try:
        yield
    finally:
        manager.stop()
        await task


@asynccontextmanager
async def tls_world(folder: Path) -> AsyncIterator[tuple[Any, Cluster]]:
    """An environment that calls the server over TLS."""
    declared = make_server()
    async with world(declared, cert_dir=folder) as (env, cluster):
        where = env.webhook_serving
        options = WebhookServerOptions(host=where.host, port=where.port, cert_dir=where.cert_dir)
        async with serving(env, make_server(options)):
            yield env, cluster


async def test_an_api_server_calls_the_webhooks_over_tls(tmp_path: Path) -> None:
    """Real sockets, with the certificate of the environment; several requests at once."""
    async with tls_world(tmp_path) as (_, cluster):
        names = [f"s{number}" for number in range(8)]
        await asyncio.gather(*(cluster.uncached.create(site(name)) for name in names))
        listed = await cluster.uncached.list(OldSite, namespace="default")
        assert sorted((item.metadata.name, item.spec.count) for item in listed) == [(name, 1) for name in names]
        with pytest.raises(InvalidError, match="must be good"):
            await cluster.uncached.create(site("b", "bad"))


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.realtime
@pytest.mark.behaviour(123)
async def test_kubectl_shows_warnings_and_denials(tmp_path: Path) -> None:
    """The command prints them as it does for any webhook, and reads an object in both versions."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    async with tls_world(tmp_path) as (env, _):

        def manifest(image: str) -> str:
            return json.dumps(
                {
                    "apiVersion": "demo.opsdk.dev/v1",
                    "kind": "Site",
                    "metadata": {"name": "a", "namespace": "default"},
                    "spec": {"image": image},
                }
            )

        refused = await env.kubectl("apply", "-f", "-", stdin=manifest("bad"), check=False)
        assert refused.code == 1
        assert 'spec.image: Invalid value: "bad": must be good' in refused.stderr
        created = await env.kubectl("apply", "-f", "-", stdin=manifest("nginx"))
        assert created.stdout == "site.demo.opsdk.dev/a created\n"
        assert "Warning: spec.image has no tag" in created.stderr
        changed = await env.kubectl("apply", "-f", "-", stdin=manifest("other"), check=False)
        denial = 'admission webhook "validate-v1.sites.demo.opsdk.dev" denied the request: spec.image is immutable'
        assert denial in changed.stderr
        for version, path in (("v1", "{.spec.replicas}"), ("v1beta1", "{.spec.count}")):
            resource = f"sites.{version}.demo.opsdk.dev"
            assert (await env.kubectl("get", resource, "a", "-o", f"jsonpath={path}")).stdout == "1"
