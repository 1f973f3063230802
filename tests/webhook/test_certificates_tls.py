"""Certificates of webhook servers over real sockets: rotation under load, open connections, servers outside."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from webhook_reviews import OldSite, Site, SiteSpec

from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Unstructured
from opsdk.builder.operator import Operator
from opsdk.builder.options import OperatorOptions
from opsdk.cluster.cluster import Cluster
from opsdk.errors import ConfigError, ForbiddenError, UsageError
from opsdk.http.server.server import ServeOptions, WebServer
from opsdk.manager.manager import Manager
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.running import running
from opsdk.webhook.builder import WebhookBuilder
from opsdk.webhook.certificates.injection import InjectionKind, InjectionTarget
from opsdk.webhook.certificates.issuing import create_authority, issue_serving
from opsdk.webhook.certificates.manager import CertificateManager
from opsdk.webhook.certificates.options import SelfSigned
from opsdk.webhook.certificates.rotation import RotationStep, advance
from opsdk.webhook.certificates.serving import IssuedServingCertificate
from opsdk.webhook.configurations import webhook_configurations
from opsdk.webhook.conversion import HubSpokeConverter, Spoke
from opsdk.webhook.handlers import AdmissionContext
from opsdk.webhook.options import WebhookServerOptions
from opsdk.webhook.server import WebhookServer

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
bench = pytest.importorskip("benchmarks.runtime.certificates", reason="needs the envtest extra: opsdk[envtest]")


def set_replicas(site: Site, ctx: AdmissionContext) -> None:
    """A defaulter."""
    site.spec.replicas = 1


async def answer(scope: JsonObject, receive: Any, send: Any) -> None:
    """An application that answers everything."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.mark.slow
def test_the_ca_is_replaced_under_load_and_no_call_fails() -> None:
    """A CA rotation under load with three replicas and the documented permissions fails no call."""
    figures = bench.measure(4)
    assert not figures.failures, str(figures)
    assert figures.rotations == 4
    # Of each rotation, the clock goes on with the calls for two overlaps.
    assert figures.calls.total() > 4 * 3 * 2 * 8
    assert figures.handshakes > 4 * 2 * 8
    assert sorted(figures.replicas) == [0, 1, 2]


# ------------------------------------------------------------------ the TLS context
@pytest.mark.parametrize("in_memory", [True, False])
async def test_open_connections_survive_a_new_certificate(in_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open connections keep the old certificate, and the next handshake gets the new one."""
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    now = datetime.now(UTC)
    pairs = [issue_serving(create_authority(now, 1000), ("localhost",), now, 1000) for _ in range(2)]
    certificate = IssuedServingCertificate(pairs[0])

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str]:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        return reader, writer, ssl.DER_cert_to_PEM_cert(writer.get_extra_info("ssl_object").getpeercert(True))

    async with WebServer(answer, ServeOptions(tls=certificate.context)) as server:
        reader, writer, first = await connect()
        certificate.replace(pairs[1])
        _, other, second = await connect()
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        assert [first, second] == [ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(p.cert.decode())) for p in pairs]
        writer.close()
        other.close()


@pytest.mark.realtime
@pytest.mark.parametrize("name", ["hooks.demo.svc", "127.0.0.1"])
async def test_a_strict_client_accepts_the_certificate(name: str) -> None:
    """A client with the strict checks of Python 3.13 accepts the certificate by DNS name and by address."""
    options = SelfSigned(service="hooks", namespace="demo", dns_names=("127.0.0.1",))
    bundle = advance(None, RotationStep.CREATE, options, datetime.now(UTC))
    context = ssl.create_default_context(cadata=bundle.trusted.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    async with WebServer(answer, ServeOptions(tls=IssuedServingCertificate(bundle.serving).context)) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context, server_hostname=name)
        writer.close()
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
            await asyncio.open_connection("127.0.0.1", server.port, ssl=context, server_hostname="other.demo.svc")


async def test_clients_may_need_a_certificate_of_their_own(tmp_path: Path) -> None:
    """The CA of clients comes from a file, and stays when the serving certificate changes."""
    now = datetime.now(UTC)
    authority = create_authority(now, 1000)
    (tmp_path / "clients.crt").write_bytes(authority.cert)
    pair = issue_serving(authority, ("localhost",), now, 1000)
    certificate = IssuedServingCertificate(pair, client_ca_file=tmp_path / "clients.crt")
    certificate.replace(issue_serving(authority, ("localhost",), now, 1000))
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with WebServer(answer, ServeOptions(tls=certificate.context)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await reader.readuntil(b"ok")
        writer.close()


async def test_a_server_that_runs_keeps_its_certificates(tmp_path: Path) -> None:
    """A source that comes late is a mistake."""
    now = datetime.now(UTC)
    context = IssuedServingCertificate(issue_serving(create_authority(now, 1000), ("a",), now, 1000)).context
    server = WebhookServer(WebhookServerOptions(host="127.0.0.1", port=0, tls=lambda: context))
    task = asyncio.create_task(server.start())
    await server.wait_ready()
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        options = SelfSigned(service="hooks", namespace="default")
        with pytest.raises(UsageError, match="already started"):
            server.use_certificates(CertificateManager(cluster.uncached, options).tls_context)
    described = repr(server)
    task.cancel()
    await asyncio.wait([task])
    assert repr(server) == described, "logs name a server that has stopped"


def test_a_pair_that_does_not_load_leaves_the_old_one() -> None:
    """A pair that does not load raises ConfigError, and the old one stays in use."""
    now = datetime.now(UTC)
    one, two = (issue_serving(create_authority(now, 1000), ("a",), now, 1000) for _ in range(2))
    certificate = IssuedServingCertificate(one)
    with pytest.raises(ConfigError, match="cannot load"):
        certificate.replace(type(one)(one.cert, two.key))
    assert certificate.pair == one


# ------------------------------------------------------------------ operators
@pytest.mark.realtime
async def test_an_operator_outside_the_cluster_serves_webhooks() -> None:
    """The configurations name a URL; the operator issues a certificate for its address, and sets the caBundle."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    certificates = SelfSigned(url=f"https://127.0.0.1:{port}", secret_name="laptop-tls", configurations="site")
    options = WebhookServerOptions(host="127.0.0.1", port=port, certificates=certificates)
    operator = Operator("sites", OperatorOptions(webhook=options))
    operator.webhook_for(Site).with_defaulter(set_replicas)
    declared = WebhookServer()
    WebhookBuilder().for_(Site).with_defaulter(set_replicas).complete(declared)
    async with environment.Environment(crds=[crd_for(Site)]) as env, Cluster(env.config) as outside:
        for tree in webhook_configurations(declared.registrations, certificates.client_config(), name="site"):
            meta = ObjectMeta(name=tree["metadata"]["name"])
            await outside.uncached.create(
                Unstructured(tree["apiVersion"], tree["kind"], meta, {"webhooks": tree["webhooks"]})
            )
        async with running(operator, env):
            site = Site(metadata=ObjectMeta(name="a", namespace="default"), spec=SiteSpec(image="a"))
            assert (await outside.uncached.create(site)).spec.replicas == 1


async def test_a_missing_right_ends_the_start_of_an_operator() -> None:
    """The error of the start names the missing permission."""
    options = WebhookServerOptions(host="127.0.0.1", port=0, certificates=SelfSigned(service="hooks"))
    operator = Operator("sites", OperatorOptions(webhook=options))
    operator.webhook_for(Site).with_defaulter(set_replicas)
    async with environment.Environment(crds=[crd_for(Site)]) as env:
        with pytest.raises(ForbiddenError, match="get secrets default/hooks-tls: 403 Forbidden"):
            await operator.start(env.add_user("operator").config)


async def test_without_the_extra_the_operator_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of an operator without the extra raises an error that names it."""
    for name in ("issuing", "bundle", "rotation", "serving", "manager"):
        monkeypatch.delitem(sys.modules, f"opsdk.webhook.certificates.{name}")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    options = WebhookServerOptions(certificates=SelfSigned(service="hooks"))
    operator = Operator("sites", OperatorOptions(webhook=options))
    operator.webhook_for(Site).with_defaulter(set_replicas)
    async with environment.Environment() as env:
        with pytest.raises(ConfigError, match=r"opsdk\[tls\]"):
            operator.prepare(env.config)
        await operator.cluster.aclose()


def test_a_server_has_one_source_of_certificates() -> None:
    """Two are a mistake; the CA of clients may come from a file beside issued certificates."""
    with pytest.raises(UsageError, match="mutually exclusive"):
        WebhookServerOptions(tls=ssl.create_default_context, certificates=SelfSigned(service="a"))
    with pytest.raises(UsageError, match="cert_dir has no effect"):
        WebhookServerOptions(cert_dir="/certs", certificates=SelfSigned(service="a"))
    options = WebhookServerOptions(certificates=SelfSigned(service="a"), cert_dir="/certs", client_ca_name="ca.crt")
    assert options.client_ca_file == Path("/certs/ca.crt")


async def test_the_operator_injects_into_what_it_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Injection targets are the operator's configurations, its converted definitions, and those of the options."""
    more = InjectionTarget(InjectionKind.API_SERVICE, "v1.a.b")
    certificates = SelfSigned(service="hooks", namespace="default", inject=[more])
    operator = Operator("sites", OperatorOptions(webhook=WebhookServerOptions(certificates=certificates)))
    converter = HubSpokeConverter(Site, Spoke(OldSite, lambda _: Site(), lambda _: OldSite()))
    operator.webhook_for(Site).with_defaulter(set_replicas).with_converter(converter)
    runnables: list[Any] = []
    monkeypatch.setattr(Manager, "add", lambda _manager, runnable, **_options: runnables.append(runnable))
    async with environment.Environment() as env:
        operator.prepare(env.config)
        await operator.cluster.aclose()
    (issuer,) = [runnable for runnable in runnables if isinstance(runnable, CertificateManager)]
    assert [str(target) for target in issuer.registered.targets] == [
        "MutatingWebhookConfiguration sites-mutating",
        "CustomResourceDefinition sites.demo.opsdk.dev",
        "APIService v1.a.b",
    ]
