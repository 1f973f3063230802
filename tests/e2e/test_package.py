"""A packaged operator as its service account, in the layout of a pod, on a server with RBAC."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from processes import until

from opsdk.cli.apiserver import serving
from opsdk.testing.webhooks import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.realtime]
OPSDK = [sys.executable, "-m", "opsdk.cli"]
WIDGET = "apiVersion: demo.example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {text: hi}\n"
# A pod has its files at a fixed path, which a test must not write.
IN_POD = """
import runpy, sys
from pathlib import Path
import opsdk.rest.in_cluster as in_cluster
in_cluster.in_cluster_config.__kwdefaults__["root"] = Path(sys.argv.pop(1))
sys.argv[0] = "demo"
runpy.run_module("demo", run_name="__main__")
"""


def test_it_runs_as_its_service_account(tmp_path: Path) -> None:
    """Kubectl apply -k, a token of the service account, leader election, probes, metrics with the reader's role."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl on PATH")
    subprocess.run([*OPSDK, "init", "demo"], cwd=tmp_path, check=True)
    project = tmp_path / "demo"
    subprocess.run(
        [*OPSDK, "create", "api", "--group", "demo.example.com", "--kind", "Widget"], cwd=project, check=True
    )
    subprocess.run([*OPSDK, "generate", "manifests"], cwd=project, check=True)
    kubeconfig, log = tmp_path / "kubeconfig", tmp_path / "log"
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}

    def kubectl(*words: str, stdin: str = "") -> str:
        command = ["kubectl", *words]
        done = subprocess.run(command, env=environment, input=stdin, capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else ""

    with serving(kubeconfig, ["--port", "0", "--controllers", "cluster"]) as url:
        until(lambda: kubectl("apply", "-k", str(project / "config")), log)
        account = tmp_path / "serviceaccount"
        account.mkdir()
        (account / "token").write_text(kubectl("create", "token", "demo", "-n", "demo-system").strip())
        (account / "namespace").write_text("demo-system")
        cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
        ca = subprocess.run(
            ["base64", "-d"], input=cluster["certificate-authority-data"].encode(), capture_output=True, check=True
        )
        (account / "ca.crt").write_bytes(ca.stdout)
        address = urlsplit(url)
        pod = {
            **{name: value for name, value in os.environ.items() if name != "KUBECONFIG"},
            "KUBERNETES_SERVICE_HOST": str(address.hostname),
            "KUBERNETES_SERVICE_PORT": str(address.port),
            "PYTHONPATH": str(project),
        }
        manifest = yaml.safe_load((project / "config/operator.yaml").read_text().split("---")[0])
        (container,) = manifest["spec"]["template"]["spec"]["containers"]
        health, metrics = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        addresses = [f"--health-probe-bind-address={health}", f"--metrics-bind-address={metrics}"]
        flags = [*container["args"], *addresses]
        log.touch()
        with log.open("w") as output, subprocess.Popen(
            [sys.executable, "-c", IN_POD, str(account), *flags], env=pod, stdout=output, stderr=subprocess.STDOUT
        ) as process:  # fmt: skip
            try:
                assert kubectl("apply", "-f", "-", stdin=WIDGET)
                until(lambda: kubectl("get", "configmap", "a", "-o", "jsonpath={.data.text}") == "hi", log)
                until(
                    lambda: "True" in kubectl("get", "widget", "a", "-o", "jsonpath={.status.conditions[0].status}"),
                    log,
                )
                holder = kubectl("get", "lease", "demo", "-n", "demo-system", "-o", "jsonpath={.spec.holderIdentity}")
                assert holder
                with urllib.request.urlopen(f"http://{health}/readyz", timeout=10) as response:
                    assert response.status == 200
                kubectl("create", "serviceaccount", "reader")
                bind = ["create", "clusterrolebinding", "reader", "--clusterrole=demo-metrics-reader"]
                assert kubectl(*bind, "--serviceaccount=default:reader")
                token = kubectl("create", "token", "reader").strip()
                request = urllib.request.Request(
                    f"https://{metrics}/metrics", headers={"Authorization": f"Bearer {token}"}
                )
                insecure = ssl.create_default_context()
                insecure.check_hostname, insecure.verify_mode = False, ssl.CERT_NONE
                with urllib.request.urlopen(request, context=insecure, timeout=10) as response:
                    assert b"controller_runtime_reconcile_total" in response.read()
                process.terminate()
                assert process.wait(30) == 0, log.read_text()
            finally:
                if process.poll() is None:
                    process.kill()
    assert "Forbidden" not in log.read_text()
