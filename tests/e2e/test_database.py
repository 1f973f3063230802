"""The sample operator for an external system: operator, service and API server as programs, and the real kubectl."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

pytestmark = [pytest.mark.e2e, pytest.mark.realtime]

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "database"


@pytest.mark.slow
async def test_the_commands_of_the_readme(stage: Any, wait_until: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install, create, scale, delete: the service has what kubectl shows, also after a kill -9 of the operator."""
    try:
        await stage.server()
        service = await stage.start("service", "database.fake_service", "0")
        url = (await asyncio.wait_for(service.process.stdout.readline(), 60)).decode().split()[-1]
        monkeypatch.setenv("DATABASE_SERVICE", url)
        printing = await stage.start("crds", "database", "--print-crds")
        definitions, _ = await printing.process.communicate()
        await stage.kubectl("apply", "-f", "-", stdin=definitions.decode())
        await stage.kubectl("wait", "--for=condition=Established", "crd/databases.databases.opsdk.dev")
        elect = ("--leader-elect", "--leader-election-namespace", "default", "--lease-duration", "4")
        flags = (*elect, "--renew-deadline", "3", "--retry-period", "0.5")
        operator = await stage.start("operator", "database", *flags)
        await stage.kubectl("apply", "-f", str(SAMPLE / "manifests" / "example"))
        await stage.kubectl("wait", "--for=condition=Ready", "db/orders", "--timeout=60s")
        await stage.kubectl("scale", "db/orders", "--replicas=3")
        await operator.kill()
        operator = await stage.start("operator", "database", *flags)
        await stage.kubectl("wait", "--for=jsonpath={.status.replicas}=3", "db/orders", "--timeout=60s")
        shown = json.loads(await stage.kubectl("get", "db", "orders", "-o", "json"))
        async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
            [(key, instance)] = (await http.get("/instances/")).json().items()
            assert (key, instance["replicas"]) == (shown["metadata"]["uid"], 3)
            await stage.kubectl("delete", "db", "orders", "--timeout=60s")
            assert (await http.get("/instances/")).json() == {}
        await operator.stop()
    finally:
        await stage.close()


async def test_the_roles_are_what_the_operator_declares(stage: Any) -> None:
    """The file is the output of the command that the README names."""
    try:
        names = ("--namespace", "database-system", "--create-namespace", "--flag", "leader-elect")
        check = ("--check", str(SAMPLE / "manifests" / "00-rbac.yaml"))
        program = await stage.start(
            "rbac", "opsdk.cli", "generate", "rbac", "database.__main__:operator", *names, *check
        )
        assert await asyncio.wait_for(program.process.wait(), 60) == 0, program.said()
    finally:
        await stage.close()


@pytest.mark.slow
async def test_the_manifests_are_accepted(stage: Any) -> None:
    """Every file of the folder, in the order of ``kubectl apply -f``."""
    try:
        await stage.server()
        await stage.kubectl("apply", "-f", str(SAMPLE / "manifests"))
        await stage.kubectl("apply", "-f", str(SAMPLE / "manifests" / "webhooks" / "service.yaml"))
        patch = SAMPLE / "manifests" / "webhooks" / "deployment-patch.yaml"
        target = ("-n", "database-system", "patch", "deployment", "database-operator")
        await stage.kubectl(*target, "--patch-file", str(patch))
        [container] = yaml.safe_load(await stage.kubectl(*target[:2], "get", "deployment", "-o", "yaml"))["items"][0][
            "spec"
        ]["template"]["spec"]["containers"]
        assert {"name": "ENABLE_WEBHOOKS", "value": "true"} in container["env"]
        assert [port["name"] for port in container["ports"]] == ["webhooks", "metrics", "health"]
    finally:
        await stage.close()
