"""The versions of the sample operator's kind, its webhooks over TLS, and the real kubectl."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from opsdk.structured_merge.value import JsonObject
from opsdk.testing.running import running
from website.operator import make_operator
from website.webhooks import add_webhooks

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")

pytestmark = [pytest.mark.e2e, pytest.mark.realtime]

RESOURCE = "websites.{}.demo.opsdk.dev"


@asynccontextmanager
async def stage() -> AsyncIterator[Any]:
    """An environment, and the operator with its webhooks."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: this test drives the server and the operator with it")
    async with environment.Environment(controllers="cluster") as env, running(add_webhooks(make_operator()), env):
        yield env


def manifest(version: str, name: str, **spec: Any) -> str:
    """A site to apply."""
    tree: JsonObject = {
        "apiVersion": f"demo.opsdk.dev/{version}",
        "kind": "Website",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }
    return json.dumps(tree)


async def test_kubectl_reads_and_scales_every_version() -> None:
    """Apply in the old version, read in both, scale, and wait for the servers."""
    async with stage() as env:
        applied = await env.kubectl("apply", "-f", "-", stdin=manifest("v1alpha1", "hello", image="nginx", size=2))
        assert "Warning: spec.image has no tag: nginx:stable is used" in applied.stderr
        assert "v1alpha1 Website is deprecated" in applied.stderr
        await env.kubectl("wait", "--for=condition=Ready", "website/hello", "--timeout=60s")
        for version, path in (("v1", "{.spec.replicas}"), ("v1alpha1", "{.spec.size}")):
            printed = await env.kubectl("get", RESOURCE.format(version), "hello", "-o", f"jsonpath={path}")
            assert printed.stdout == "2"
        table = (await env.kubectl("get", RESOURCE.format("v1alpha1"))).stdout.split("\n")
        assert [line.split() for line in table[:2]] == [["NAME", "IMAGE", "SIZE"], ["hello", "nginx:stable", "2"]]
        scaled = await env.kubectl("scale", "website/hello", "--replicas=3")
        assert scaled.stdout == "website.demo.opsdk.dev/hello scaled\n"
        await env.kubectl("wait", "--for=jsonpath={.status.readyReplicas}=3", "website/hello", "--timeout=60s")
        deployment = await env.kubectl("get", "deployment", "hello", "-o", "jsonpath={.spec.replicas}")
        assert deployment.stdout == "3"


TOO_MANY = (
    'The Website "bad" is invalid: spec.replicas: Invalid value: 51: '
    "spec.replicas in body should be less than or equal to 50"
)


async def test_kubectl_shows_the_reasons_of_refusals() -> None:
    """Schema, CEL and validator name the field; a protected site stays."""
    async with stage() as env:
        for spec, reason in (
            ({"image": "nginx:1", "replicas": 51}, TOO_MANY),
            ({"image": "nginx:latest"}, "spec.image: Invalid value"),
            ({"image": "nginx:1", "content": "ü" * 500_001}, "must have at most 1000000 bytes"),
        ):
            refused = await env.kubectl("create", "-f", "-", stdin=manifest("v1", "bad", **spec), check=False)
            assert refused.code == 1
            assert reason in refused.stderr
        await env.kubectl("create", "-f", "-", stdin=manifest("v1", "kept", image="nginx:1"))
        await env.kubectl("annotate", "website", "kept", "demo.opsdk.dev/protected=true")
        refused = await env.kubectl("delete", "website", "kept", check=False)
        assert "remove the annotation demo.opsdk.dev/protected first" in refused.stderr
