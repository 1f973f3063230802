"""Certificates by annotation: issued, renewed, trusted by those who call the Service."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from opsdk import ObjectMeta, unstructured
from opsdk.aio.clock import utc_now
from opsdk.api.core.v1 import ConfigMap, Secret, Service, ServicePort
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import Unstructured
from opsdk.client.patch import merge_patch
from opsdk.errors import AdmissionDeniedError, ForbiddenError
from opsdk.event.request import Request
from opsdk.lifecycle.generic_controller import GenericController
from opsdk.lifecycle.need_a_cert import add_need_a_cert, called_services
from opsdk.webhook.builder import WebhookBuilder
from opsdk.webhook.certificates.issuing import CertificateKeyPair, issue_serving, load_certificate, names_of
from opsdk.webhook.configurations import WebhookClientConfig, WebhookService, webhook_configurations
from opsdk.webhook.options import WebhookServerOptions
from opsdk.webhook.server import WebhookServer

CALLED = WebhookClientConfig(service=WebhookService(name="hooks", namespace="default"))
ANNOTATIONS = {"need-a-cert.cattle.io/secret-name": "hooks-tls", "need-a-cert.cattle.io/dns-name": "a.example.com, ::1"}
SECRET = "default/hooks-tls"


class NoRed:
    """A validator."""

    def validate_create(self, obj: ConfigMap, ctx: Any) -> None:
        if obj.data.get("color") == "red":
            raise AdmissionDeniedError("no red here")


async def service(world: Any) -> Service:
    """Create the Service of the webhooks."""
    created = Service(metadata=ObjectMeta(name="hooks", namespace="default", annotations=ANNOTATIONS))
    created.spec.ports = [ServicePort(port=443)]
    return await world.user.create(created)  # type: ignore[no-any-return]


async def secret_of(world: Any) -> Secret | None:
    """Read the Secret."""
    secret: Secret | None = await world.user.get_or_none(Secret, SECRET)
    return secret


async def trusted(world: Any, kind: Kind[Unstructured], name: str, *path: Any) -> bytes:
    """The ``caBundle`` of an object."""
    obj = await world.user.get(kind, name)
    return base64.b64decode(obj.get(*path, "caBundle", default=""))


@pytest.mark.realtime  # OpenSSL reads the clock of the system
async def test_a_webhook_works_with_the_injected_ca(world: Any, tmp_path: Path) -> None:
    """Wrangler needacert: the Secret's certificate serves a webhook that the API server calls with the injected CA."""
    server = WebhookServer(WebhookServerOptions(host="127.0.0.1", port=0, cert_dir=tmp_path))
    WebhookBuilder().for_(ConfigMap).with_validator(NoRed()).complete(server)
    [configuration] = webhook_configurations(server.registrations, CALLED, name="demo")
    controller = GenericController(world.cluster, Service)
    add_need_a_cert(controller)
    owner = await service(world)
    async with world.running(controller):
        await world.until(lambda: secret_of(world))

        async def has_owner() -> bool:
            references = (await world.user.get(Secret, SECRET)).metadata.owner_references
            return [reference.uid for reference in references] == [owner.metadata.uid]

        await world.until(has_owner)
        secret = await world.user.get(Secret, SECRET)
        assert {"hooks.default.svc", "a.example.com", "::1"} <= names_of(load_certificate(secret.data["tls.crt"]))
        for file in ("tls.crt", "tls.key"):
            (tmp_path / file).write_bytes(secret.data[file])
        async with world.running(server):
            await server.wait_ready()
            await world.env.expose("default/hooks", port=server.port)
            created = await world.user.create(Unstructured.from_tree(configuration))
            kind = unstructured(created.api_version, created.kind)

            async def is_trusted() -> bool:
                bundle = await trusted(world, kind, created.metadata.name, "webhooks", 0, "clientConfig")
                return bundle == secret.data["ca.crt"]

            await world.until(is_trusted)
            await world.config("blue", data={"color": "blue"})
            with pytest.raises(ForbiddenError, match="no red here"):
                await world.config("red", data={"color": "red"})


async def test_a_certificate_is_renewed(world: Any) -> None:
    """A certificate is renewed 30 days before its end, and for a new name at once; a lost Secret is written again."""
    controller = GenericController(world.cluster, Service)
    add_need_a_cert(controller, interval=60)
    await service(world)
    async with world.running(controller):
        await world.until(lambda: secret_of(world))
        secret = await world.user.get(Secret, SECRET)
        authority, now = CertificateKeyPair(secret.data["ca.crt"], secret.data["ca.key"]), utc_now()
        names = tuple(names_of(load_certificate(secret.data["tls.crt"])))
        old = issue_serving(authority, names, now, 30 * 86400 + 600)
        data = {"tls.crt": base64.b64encode(old.cert).decode(), "tls.key": base64.b64encode(old.key).decode()}
        await world.user.patch(secret, merge_patch({"data": data}))

        async def renewed() -> bool:
            stored = await secret_of(world)
            return stored is not None and stored.data["tls.crt"] != old.cert

        await asyncio.sleep(400)
        assert not await renewed()
        await asyncio.sleep(300)
        assert await renewed()
        live = await world.user.get(Service, "default/hooks")
        annotation = {"need-a-cert.cattle.io/dns-name": "b.example.com"}
        await world.user.patch(live, merge_patch({"metadata": {"annotations": annotation}}))

        async def has_name() -> bool:
            stored = await secret_of(world)
            return stored is not None and "b.example.com" in names_of(load_certificate(stored.data["tls.crt"]))

        await world.until(has_name)
        await world.user.delete(Secret, SECRET)
        await world.until(has_name)


async def test_the_secret_of_another_program_stays(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Bad input: a Secret with this name that another program wrote is not overwritten; the error names it."""
    await world.user.create(Secret(metadata=ObjectMeta(name="hooks-tls", namespace="default"), data={"a": b"b"}))
    controller = GenericController(world.cluster, Service)
    add_need_a_cert(controller)
    await service(world)
    async with world.running(controller):
        await world.until(lambda: "default/hooks-tls lacks the label" in caplog.text)
    assert (await world.user.get(Secret, SECRET)).data == {"a": b"b"}


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"webhooks": [{"clientConfig": CALLED.tree("/a")}, {"clientConfig": {"url": "https://x"}}]}, ["hooks"]),
        ({"spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": CALLED.tree("/a")}}}}, ["hooks"]),
        ({"spec": {"service": {"name": "hooks", "namespace": "default"}}}, ["hooks"]),
        ({"spec": {"service": None, "conversion": None}, "webhooks": None}, []),
        ({}, []),
    ],
)
def test_services_that_an_object_calls(tree: Any, expected: list[str]) -> None:
    """Webhook configurations, definitions with a conversion webhook and APIServices name their Service."""
    obj = Unstructured.from_tree({"apiVersion": "v1", "kind": "Any", "metadata": {"name": "a"}, **tree})
    assert called_services(obj) == [Request("default", name) for name in expected]
