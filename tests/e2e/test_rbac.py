"""The sample operator as a process, with its service account's token and the manifests that kubectl applied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = [pytest.mark.e2e, pytest.mark.realtime]

MANIFESTS = Path(__file__).resolve().parents[2] / "samples/website/config"
NAME, NAMESPACE = "website-operator", "website-system"
FLAGS = ("--leader-elect", "--leader-election-namespace", NAMESPACE, "--rbac-check", "error")


async def account_of(stage: Any) -> Path:
    """A kubeconfig of the service account, with a token from kubectl."""
    config = yaml.safe_load(await stage.kubectl("config", "view", "--raw", "-o", "yaml"))
    token = await stage.kubectl("create", "token", NAME, "-n", NAMESPACE)
    for user in config["users"]:
        user["user"] = {"token": token.strip()}
    return write(stage.folder / "account", yaml.safe_dump(config))


def write(path: Path, text: str) -> Path:
    """Write a file, and return its path."""
    path.write_text(text)
    return path


@pytest.mark.slow
async def test_the_manifests_are_all_that_a_deployment_needs(stage: Any, make_site: Any, wait_until: Any) -> None:
    """With the printed manifests the operator leads and works; without one verb it ends, and says which."""
    try:
        await stage.server()
        await stage.install_kind()
        for name in ("namespace.yaml", "rbac.yaml"):
            await stage.kubectl("apply", "-f", str(MANIFESTS / name))
        arguments = ("website.operator:make_operator", "--", "--kubeconfig", str(await account_of(stage)), *FLAGS)
        operator = await stage.start("operator", "opsdk.cli", "run", *arguments)
        await stage.kubectl("apply", "-f", "-", stdin=json.dumps(make_site("hello")))
        await stage.kubectl("wait", "--for=condition=Ready", "website/hello", "--timeout=40s")
        await stage.kubectl("delete", "website", "hello", "--wait", "--timeout=30s")
        assert "orbidden" not in operator.said()
        await operator.stop()

        await stage.kubectl("delete", "role", NAME, "-n", NAMESPACE)
        denied = await stage.start("operator", "opsdk.cli", "run", *arguments)
        assert await denied.process.wait() == 1
        last = denied.said().splitlines()[-1]
        assert last.startswith("website-operator: missing RBAC permissions: create leases.coordination.k8s.io")
        assert last.endswith("(add them to Role website-operator in namespace website-system)")

        warned = await stage.start("operator", "opsdk.cli", "run", *arguments[:-1], "warn")

        async def has_warned() -> bool:
            return "missing RBAC permissions: create leases" in warned.said()

        await wait_until("the warning", has_warned)
        assert warned.process.returncode is None
        await warned.stop()
    finally:
        await stage.close()
