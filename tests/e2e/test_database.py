"""The sample operator for an external system: operator, service and API server as programs, and the real kubectl."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.realtime]

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "database"


@pytest.mark.slow
async def test_the_service_follows_kubectl(stage: Any, wait_until: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install, create, scale, delete: also after a kill -9 of the operator, which issues its certificates itself."""
    try:
        await stage.server()
        service = await stage.start("service", "fake_service", "0")
        url = (await asyncio.wait_for(service.process.stdout.readline(), 60)).decode().split()[-1]
        monkeypatch.setenv("DATABASE_SERVICE", url)
        await stage.kubectl("apply", "-f", str(SAMPLE / "config" / "crd"))
        await stage.kubectl("wait", "--for=condition=Established", "crd/databases.databases.opsdk.dev")
        elect = ("--leader-elect", "--leader-election-namespace", "default", "--lease-duration", "4")
        webhooks = ("--webhook-service", "database-operator-webhooks", "--webhook-port", "0")
        flags = (*elect, "--renew-deadline", "3", "--retry-period", "0.5", *webhooks)
        operator = await stage.start("operator", "database", *flags)
        await stage.kubectl("apply", "-f", str(SAMPLE / "config" / "samples"))
        await stage.kubectl("wait", "--for=condition=Ready", "db/orders", "--timeout=60s")
        await stage.kubectl("scale", "db/orders", "--replicas=3")
        await operator.kill()
        operator = await stage.start("operator", "database", *flags)
        await stage.kubectl("wait", "--for=jsonpath={.status.replicas}=3", "db/orders", "--timeout=60s")
        database = json.loads(await stage.kubectl("get", "db", "orders", "-o", "json"))
        async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
            [(key, instance)] = (await http.get("/instances/")).json().items()
            assert (key, instance["replicas"]) == (database["metadata"]["uid"], 3)
            await stage.kubectl("delete", "db", "orders", "--timeout=60s")
            assert (await http.get("/instances/")).json() == {}
        await operator.stop()
    finally:
        await stage.close()
