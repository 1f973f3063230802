"""The commands ``opsdk deploy`` and ``opsdk undeploy`` with a kubeconfig, against a server in another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from opsdk.cli.apiserver import serving

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.realtime]
OPSDK = [sys.executable, "-m", "opsdk.cli"]


def test_a_new_project_is_deployed_and_removed(tmp_path: Path) -> None:
    """Steps are lines or JSON; a failed deployment prints its reasons to standard error and ends with 1."""
    subprocess.run([*OPSDK, "init", "demo"], cwd=tmp_path, check=True)
    create = ["create", "api", "--group", "demo.example.com", "--kind", "Widget"]
    subprocess.run([*OPSDK, *create], cwd=tmp_path / "demo", check=True)
    kubeconfig = tmp_path / "kubeconfig"

    def opsdk(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*OPSDK, *words],
            cwd=tmp_path / "demo",
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
        )

    with serving(kubeconfig, ["--port", "0", "--controllers", "cluster"]):
        deployed = opsdk("deploy", "--yes")
        assert deployed.returncode == 0, deployed.stderr
        lines = deployed.stdout.splitlines()
        assert lines[:2] == [
            "created CustomResourceDefinition widgets.demo.example.com",
            "created Namespace demo-system",
        ]
        failed = opsdk("deploy", "--yes", "--image", "demo:does-not-exist", "--timeout", "3", "--output", "json")
        assert failed.returncode == 1
        assert {row["action"] for row in json.loads(failed.stdout)} == {"unchanged", "changed"}
        assert "opsdk: Deployment demo is not available" in failed.stderr
        assert "push the image, pass --image, or load it into the nodes" in failed.stderr
        removed = opsdk("undeploy", "--yes")
        assert removed.returncode == 0, removed.stderr
        assert removed.stdout.splitlines()[-1] == "deleted CustomResourceDefinition widgets.demo.example.com"
