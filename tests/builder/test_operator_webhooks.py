"""Webhooks that an operator declares, over real TLS, beside its controllers."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from opsdk import (
    Cluster,
    Context,
    GroupVersionKind,
    Model,
    Object,
    ObjectMeta,
    Operator,
    OperatorOptions,
    UsageError,
    crd_for,
)
from opsdk.api.core.v1 import Secret
from opsdk.errors import AdmissionDeniedError, ConfigError, ForbiddenError
from opsdk.manager.options import ManagerOptions
from opsdk.webhook.certificates.options import SelfSigned
from opsdk.webhook.configurations import WebhookClientConfig, WebhookService, webhook_configurations
from opsdk.webhook.handlers import AdmissionContext
from opsdk.webhook.options import WebhookServerOptions

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
install = pytest.importorskip("envtest.plane.install", reason="needs the envtest extra: pip install opsdk[envtest]")

SERVICE = WebhookClientConfig(service=WebhookService(name="hooks", namespace="default"))


class PageSpec(Model):
    """A page."""

    title: str = ""
    words: int | None = None


class Page(Object[PageSpec, Model]):
    """A kind with webhooks."""

    gvk = GroupVersionKind("tests.opsdk.dev", "v1", "Page")


def count_words(page: Page, ctx: AdmissionContext) -> None:
    """Set the number of words."""
    page.spec.words = len(page.spec.title.split())


class PageRules:
    """Refuse pages without a title."""

    def validate_create(self, page: Page, ctx: AdmissionContext) -> None:
        """Refuse them."""
        if not page.spec.title:
            raise AdmissionDeniedError("a page needs a title")


def make_operator(options: WebhookServerOptions, seen: list[str]) -> Operator:
    """Return an operator with a controller and webhooks of pages."""
    operator = Operator("pages", OperatorOptions(webhook=options))
    operator.webhook_for(Page).with_defaulter(count_words).with_validator(PageRules())

    @operator.reconciler(Page)
    async def reconcile(page: Page, ctx: Context) -> None:
        seen.append(f"{page.spec.title}: {page.spec.words}")

    return operator


@pytest.mark.realtime
async def test_declared_webhooks_serve_and_the_operator_is_ready_only_then(tmp_path: Path) -> None:
    """The API server calls them over TLS; readiness has their check; the stop closes the port."""
    names: list[str] = []
    async with environment.Environment() as draft:
        declared = make_operator(WebhookServerOptions(), names)
        declared.prepare(draft.config)
        assert declared.webhook_server is not None
        objects = webhook_configurations(declared.webhook_server.registrations, SERVICE, name="pages")
        await declared.cluster.aclose()
    hooks = install.Webhooks(objects=objects, cert_dir=tmp_path)
    async with environment.Environment(crds=[crd_for(Page)], webhooks=hooks) as env, Cluster(env.config) as outside:
        where = env.webhook_serving
        operator = make_operator(WebhookServerOptions(host=where.host, port=where.port, cert_dir=where.cert_dir), names)
        task = asyncio.create_task(operator.start(env.config))
        await asyncio.sleep(0)
        await operator.manager.wait_ready()
        assert operator.webhook_server is not None
        await operator.webhook_server.check_started()
        page = Page(metadata=ObjectMeta(name="a", namespace="default"), spec=PageSpec(title="two words"))
        await outside.uncached.create(page)
        assert page.spec.words == 2
        bad = Page(metadata=ObjectMeta(name="b", namespace="default"), spec=PageSpec())
        with pytest.raises(ForbiddenError, match="a page needs a title"):
            await outside.uncached.create(bad)
        while not names:
            await asyncio.sleep(0.05)
        assert names == ["two words: 2"]
        operator.manager.stop()
        await task
        with pytest.raises(OSError, match="Connect"):
            await asyncio.open_connection(where.host, where.port)


@pytest.mark.realtime
async def test_metrics_have_a_certificate_of_the_operators_ca() -> None:
    """A client with ``ca.crt`` of the Secret verifies them by the name of the webhooks' Service."""
    pytest.importorskip("cryptography", reason="needs the tls extra: pip install opsdk[tls]")
    certificates = SelfSigned(service="hooks", namespace="default")
    operator = make_operator(WebhookServerOptions(host="127.0.0.1", port=0, certificates=certificates), [])
    metrics = ManagerOptions(metrics_bind_address="127.0.0.1:0", metrics_secure_serving=True)
    operator.options = replace(operator.options, manager=metrics)
    async with environment.Environment(crds=[crd_for(Page)]) as env, Cluster(env.config) as outside:
        task = asyncio.create_task(operator.start(env.config))
        await asyncio.sleep(0)
        await operator.manager.wait_ready()
        secret = await outside.uncached.get(Secret, "default/hooks-tls")
        tls = ssl.create_default_context(cadata=secret.data["ca.crt"].decode())
        (server,) = operator.manager.http_servers
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=tls, server_hostname="hooks")
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: hooks\r\nConnection: close\r\n\r\n")
        assert b"controller_runtime_reconcile_total" in await reader.read()
        writer.close()
        operator.manager.stop()
        await task


async def test_a_missing_certificate_ends_the_start_in_words(tmp_path: Path) -> None:
    """A start without certificate fails with an error that names the file."""
    operator = make_operator(WebhookServerOptions(host="127.0.0.1", port=0, cert_dir=tmp_path), [])
    async with environment.Environment(crds=[crd_for(Page)]) as env:
        with pytest.raises(ConfigError, match=r"tls\.crt"):
            await operator.start(env.config)


async def test_webhooks_without_rules_are_refused_at_the_preparation() -> None:
    """A builder that is left empty is a mistake."""
    operator = Operator("pages")
    operator.webhook_for(Page)
    async with environment.Environment() as env:
        with pytest.raises(UsageError, match="nothing to serve"):
            operator.prepare(replace(env.config))
        await operator.cluster.aclose()
