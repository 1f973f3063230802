"""The shell block of the README, pasted into a shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import alarms

from opsdk.testing.webhooks import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.realtime]
ROOT = Path(__file__).resolve().parents[2]


def test_the_shell_block_works_as_it_stands(tmp_path: Path) -> None:
    """All lines but the installation; ports are free ones, because tests run side by side."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl on PATH")
    text = (ROOT / "README.md").read_text().partition("## Run it for real")[2].partition("Your own operator begins")[0]
    lines = [line.removeprefix("    ") for line in text.splitlines() if line.startswith("    ")]
    assert lines[0] == "python3 -m venv .venv && . .venv/bin/activate"
    assert lines[1].startswith("pip install -e '.[cli,envtest]'")
    shutil.copytree(
        ROOT / "samples/greeter", tmp_path / "samples/greeter", ignore=shutil.ignore_patterns("__pycache__")
    )
    script = "\n".join(["set -m", *lines[2:], "wait"])
    script = script.replace("6060", str(free_port())).replace("kubeconfig >", f"kubeconfig --port {free_port()} >")
    debug = script.partition("debug-bind-address=")[2].partition(" ")[0]
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "OPSDK_DEBUG_URL": f"http://{debug}",
    }
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    logs = "".join(path.read_text() for path in (tmp_path / "samples/greeter").glob("*.log"))
    assert "Hello World!" in done.stdout, f"{done.stdout}{done.stderr}{logs}"
    assert "greeting default/world: success" in done.stdout, done.stdout
    assert alarms(f"{done.stdout}{done.stderr}{logs}") == []
