"""The API over a cluster, on the embedded API server."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from normankit import NormanKit

from envtest import Environment
from envtest.plane.certificates import Authority
from opsdk import Client, Cluster
from opsdk.api.rbac.v1 import PolicyRule, Role, RoleBinding, RoleRef, Subject
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.cli.app import app
from opsdk.errors import UsageError
from opsdk.norman.cluster_api import cluster_api
from opsdk.testing.eventually import eventually

ROOT = Path(__file__).resolve().parents[2]
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boats.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Boat", "plural": "boats", "singular": "boat", "listKind": "BoatList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["length"],
                                "properties": {
                                    "length": {"type": "integer", "minimum": 1},
                                    "color": {"type": "string"},
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}


async def test_every_kind_with_the_permissions_of_the_user(k8s_env: Environment, k8s_client: Client) -> None:
    """Built-in kinds and new definitions are served flat; a user sees and does what RBAC lets them."""
    from opsdk.apimachinery.object import Unstructured

    admin = k8s_env.add_user("root", groups=["system:masters"])
    ada = k8s_env.add_user("ada")
    async with Cluster(k8s_env.config) as cluster:
        running = asyncio.create_task(cluster.start())
        async with cluster_api(cluster) as server:
            kit = NormanKit(server, headers={"authorization": f"Bearer {admin.token}"})
            created = await kit.post("/v3/configmaps", {"name": "a", "namespace": "default", "data": {"k": "v"}})
            assert (created.status, created.body["id"]) == (201, "default:a")
            homeless = await kit.post("/v3/configmaps", {"name": "a", "data": {"k": "v"}})
            assert homeless.error == (422, "MissingRequired", "namespace")
            namespace = (await kit.get("/v3/namespaces/default")).body
            assert (namespace["state"], namespace["transitioning"]) == ("active", "no")
            assert (await kit.get("/v3/boats")).status == 404
            await k8s_client.create(Unstructured.from_tree(DEFINITION))

            async def served() -> bool:
                return (await kit.get("/v3/boats")).status == 200

            await eventually(served)
            boat = {"name": "x", "namespace": "default", "length": 0}
            assert (await kit.post("/v3/boats", boat)).error == (422, "MinLimitExceeded", "length")
            assert (await kit.post("/v3/boats", {"name": "x", "namespace": "default"})).error[1] == "MissingRequired"
            created = await kit.post("/v3/boats", boat | {"length": 7, "nothing": 1})
            assert (created.status, created.body["length"]) == (201, 7)
            meta = ObjectMeta(name="boats", namespace="default")
            rule = PolicyRule(api_groups=["example.com"], resources=["boats"], verbs=["get", "list"])
            await k8s_client.create(Role(metadata=meta, rules=[rule]))
            await k8s_client.create(
                RoleBinding(
                    metadata=ObjectMeta(name="boats", namespace="default"),
                    role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name="boats"),
                    subjects=[Subject(kind="User", name="ada", api_group="rbac.authorization.k8s.io")],
                )
            )
            await asyncio.sleep(1)
            own = NormanKit(server, headers={"authorization": f"Bearer {ada.token}"})
            assert (await own.get("/v3/configmaps")).status == 403
            for url in ("/v3/boats", "/v3/boats?namespace=default"):
                assert [item["id"] for item in (await own.get(url)).data] == ["default:x"]
            assert (await own.call("DELETE", "/v3/boats/default:x")).status == 403
            schemas = {item["id"] for item in (await own.get("/v3/schemas")).data}
            assert "boat" in schemas
            assert "secret" not in schemas
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.slow
@pytest.mark.e2e
def test_the_command_serves_https(tmp_path: Path) -> None:
    """With a certificate, the command can bind to any address."""
    Authority.load_or_create(None).serving("localhost").write(tmp_path, "norman")
    command = [sys.executable, "-m", "opsdk.cli", "norman", "--port", "0", "--host", "0.0.0.0"]
    command += ["--tls-cert", str(tmp_path / "norman.crt"), "--tls-key", str(tmp_path / "norman.key")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            assert "https://" in process.stdout.readline()
        finally:
            process.terminate()
            assert process.wait(30) == 0


@pytest.mark.slow
@pytest.mark.e2e
def test_one_command_serves_the_page(tmp_path: Path) -> None:
    """``opsdk norman`` prints the URL and the file of a token, which only its owner can read.

    ``opsdk generate norman-client`` makes a typed client of it.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    samples = ROOT / "samples" / "website" / "config"
    command = [sys.executable, "-m", "opsdk.cli", "norman", "--port", "0", "--apply", str(samples / "crd")]
    command += ["--apply", str(samples / "samples")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            url = re.search(r"http://\S+/v3", process.stdout.readline())[0]  # type: ignore[index]
            file = Path(process.stdout.readline().split()[-1])
            assert file.stat().st_mode & 0o777 == 0o600
            token = file.read_text().strip()
            generate = [sys.executable, "-m", "opsdk.cli", "generate", "norman-client", "--url", url]
            generate += ["--token", token, "--class-name", "Cluster", "--out", str(tmp_path / "generated.py")]
            subprocess.run(generate, env=environment, check=True, timeout=60)
            use = (
                "import asyncio, sys; from generated import Cluster; from opsdk.rest.config import RestConfig\n"
                "async def main():\n"
                "    async with Cluster(RestConfig(host=sys.argv[1], token=sys.argv[2]), '/v3') as client:\n"
                "        print([site['id'] async for site in client.websites.list()])\n"
                "asyncio.run(main())\n"
            )
            host = url.removesuffix("/v3")
            path = {**environment, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
            done = subprocess.run(
                [sys.executable, "-c", use, host, token],
                env=path,
                check=True,
                timeout=60,
                capture_output=True,
                text=True,
            )
            assert done.stdout == "['default:hello']\n"
        finally:
            process.terminate()
            assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (["--host", "0.0.0.0"], "--tls-cert and --tls-key"),
        (["--host", "::"], "--tls-cert and --tls-key"),
        (["--host", "192.0.2.1", "--cluster"], "--tls-cert and --tls-key"),
        (["--tls-cert", "tls.crt"], "must be set together"),
        (["--host", "0.0.0.0", "--tls-key", "tls.key"], "must be set together"),
    ],
)
def test_tokens_are_not_sent_in_clear_text_over_a_network(options: list[str], remedy: str) -> None:
    """A public address needs a certificate; nothing is started without one."""
    with pytest.raises(UsageError, match=remedy):
        app(["norman", *options], standalone_mode=False)
