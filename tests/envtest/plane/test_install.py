"""Definitions and webhooks that are installed before an environment is ready."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml
from http_servers import Seen, Server, listening
from inprocess_webhooks import Hooks, hook
from server_caller import Caller

from envtest.environment import Environment
from envtest.plane.install import CRD, Webhooks, read_objects
from opsdk.errors import ConfigError
from opsdk.structured_merge.value import JsonObject

CM = "/api/v1/namespaces/default/configmaps"


def definition(plural: str, kind: str = "Thing", **spec: Any) -> JsonObject:
    """A definition in one version."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": CRD,
        "metadata": {"name": f"{plural}.x.example.com"},
        "spec": {
            "group": "x.example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            **spec,
        },
    }


def configuration(kind: str = "Validating") -> JsonObject:
    """A configuration that names a Service."""
    service = {"service": {"name": "hooks", "namespace": "default", "path": "/check"}}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "conf"},
        "webhooks": [{**hook(), "clientConfig": service}],
    }


async def test_definitions_from_files_and_directories_are_served(tmp_path: Path) -> None:
    """Several documents, JSON and lists are read; other kinds and other files are passed over."""
    folder = tmp_path / "crds"
    folder.mkdir()
    several = [definition("as", "A"), {"kind": "ConfigMap", "metadata": {"name": "x"}}, None, definition("bs", "B")]
    (folder / "some.yaml").write_text("---\n".join(yaml.safe_dump(document) for document in several))
    (folder / "README.md").write_text("{not: [yaml")
    (folder / "nested").mkdir()
    listed = tmp_path / "list.json"
    listed.write_text(json.dumps({"kind": f"{CRD}List", "items": [definition("cs", "C")]}))
    async with Environment(crds=[definition("ds", "D")], crd_paths=[folder, str(listed)]) as env:
        for plural in ("as", "bs", "cs", "ds"):
            assert (await Caller(env)("GET", f"/apis/x.example.com/v1/{plural}")).status == 200


async def test_a_definition_that_is_there_is_replaced(tmp_path: Path) -> None:
    """A newer definition replaces the existing one at the next start."""
    newer = definition("as", "A")
    newer["spec"]["names"]["shortNames"] = ["short"]
    for expected in (definition("as", "A"), newer):
        async with Environment(data_dir=tmp_path, crds=[expected]) as env:
            result = await Caller(env)(
                "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/as.x.example.com"
            )
            assert result.json["spec"]["names"].get("shortNames") == expected["spec"]["names"].get("shortNames")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"crd_paths": ["/no/such/place"]}, "no such file or directory"),
        ({"crds": [definition("as", "A"), definition("bs", "A")]}, "bs.x.example.com is not served"),
        ({"crds": [{"kind": "Pod", "metadata": {"name": "x"}}]}, "Pod: only"),
    ],
)
async def test_what_cannot_be_installed_ends_the_start(options: JsonObject, why: str) -> None:
    """An object that cannot be installed ends the start with its error, and nothing keeps running."""
    with pytest.raises(ConfigError, match=why):
        async with Environment(**options):
            raise AssertionError("it must not start")


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    """The error for a broken file names it and has the parser's message."""
    broken = tmp_path / "x.yaml"
    broken.write_text("{not: [yaml")
    with pytest.raises(ConfigError, match=r"x\.yaml: cannot be read"):
        read_objects([broken], [CRD])


async def test_webhook_services_lead_to_the_tests_application(tmp_path: Path) -> None:
    """Service references of webhooks and conversions call the test's application at the same paths."""
    file = tmp_path / "hooks.yaml"
    file.write_text(yaml.safe_dump(configuration("Mutating")))
    hooks = Hooks(lambda _, __: {"allowed": True})
    webhook = {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/convert"}},
    }
    crd = definition("as", "A", conversion={"strategy": "Webhook", "webhook": webhook})
    options = Webhooks(objects=[configuration()], paths=[file], app=hooks)
    async with Environment(webhooks=options, crds=[crd]) as env:
        call = Caller(env)
        assert (await call("POST", CM, {"metadata": {"name": "a"}})).status == 201
        assert hooks.paths() == ["/check", "/check"]
        response = await call("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/as.x.example.com")
        assert response.json["spec"]["conversion"]["webhook"]["clientConfig"] == {
            "url": "https://127.0.0.1:443/convert"
        }


@pytest.mark.realtime
async def test_a_real_webhook_server_is_called_over_tls(tmp_path: Path) -> None:
    """A webhook server gets the environment's address and certificate, and is called over TLS."""

    async def deny(seen: Seen, writer: asyncio.StreamWriter) -> None:
        review = json.loads(seen.body)
        response = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": "over TLS"}}
        body = json.dumps({**review, "request": None, "response": response}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    options = Webhooks(objects=[configuration()], cert_dir=tmp_path / "certs")
    async with Environment(webhooks=options) as env:
        assert env.webhook_serving is not None
        assert env.webhook_serving.cert_dir is not None
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(env.webhook_serving.cert_dir / "tls.crt", env.webhook_serving.cert_dir / "tls.key")
        call = Caller(env)
        refused = await call("POST", CM, {"metadata": {"name": "a"}})
        assert "connect: connection refused" in refused.json["message"]
        server = Server(deny)
        async with listening(server._serve, host=env.webhook_serving.host, port=env.webhook_serving.port, tls=tls):
            refused = await call("POST", CM, {"metadata": {"name": "a"}})
            assert refused.json["message"].endswith("denied the request: over TLS")
            assert server.seen[0].target == "/check?timeout=10s"
            await env.plane.webhook_client.aclose()
            await server.all_closed()
