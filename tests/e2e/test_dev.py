"""``opsdk dev`` as an author uses it: a real server, kubectl, and files that change."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import until

from opsdk.testing.webhooks import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.realtime]
OPSDK = [sys.executable, "-m", "opsdk.cli"]
WIDGET = "apiVersion: demo.example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {text: hi}\n"


def test_from_an_empty_folder_to_a_reload(tmp_path: Path) -> None:
    """init, create, dev, kubectl apply, a webhook, an edit, a syntax error, and SIGINT: no process is left."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl on PATH")
    subprocess.run([*OPSDK, "init", "demo"], cwd=tmp_path, check=True)
    project = tmp_path / "demo"
    create = [*OPSDK, "create", "api", "--group", "demo.example.com", "--version", "v1", "--kind", "Widget"]
    subprocess.run(create, cwd=project, check=True)
    subprocess.run([*OPSDK, "create", "webhook", "--kind", "Widget"], cwd=project, check=True)
    log = tmp_path / "log"
    environment = {**os.environ, "KUBECONFIG": str(project / ".opsdk/kubeconfig")}

    def text() -> str:
        command = ["kubectl", "get", "configmap", "a", "-o", "jsonpath={.data.text}"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout

    command = [*OPSDK, "dev", "--plain", "--webhook-port", str(free_port())]
    with log.open("w") as output, subprocess.Popen(
        command, cwd=project, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:  # fmt: skip
        try:
            until(lambda: "started in" in log.read_text(), log)
            subprocess.run(["kubectl", "apply", "-f", "-"], input=WIDGET, env=environment, text=True, check=True)
            until(lambda: text() == "hi", log)
            long = WIDGET.replace("name: a", f"name: {'b' * 41}")
            command = ["kubectl", "apply", "-f", "-"]
            denied = subprocess.run(command, input=long, env=environment, capture_output=True, text=True, check=False)
            assert "metadata.name: Invalid value" in denied.stderr, denied.stderr
            # The generated manifests are applied over what dev installed, and its webhooks are still called.
            subprocess.run([*OPSDK, "generate", "all"], cwd=project, check=True)
            for options in ([], ["--server-side"]):
                applied = subprocess.run(
                    ["kubectl", "apply", *options, "-k", "config"],
                    cwd=project,
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert applied.returncode == 0, applied.stderr
                denied = subprocess.run(
                    command, input=long, env=environment, capture_output=True, text=True, check=False
                )
                assert "metadata.name: Invalid value" in denied.stderr, denied.stderr
            source = project / "demo/widget.py"
            good = source.read_text().replace("widget.spec.text}", 'widget.spec.text + "!"}')
            source.write_text(good)
            until(lambda: text() == "hi!", log)
            source.write_text(good + "x = (\n")
            until(lambda: "the previous version keeps running" in log.read_text(), log)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    refused = subprocess.run(["kubectl", "get", "ns"], env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode != 0, "the server is left"
