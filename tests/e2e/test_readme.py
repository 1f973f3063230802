"""The first commands of the README, pasted into two shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import alarms, until

from opsdk.testing.webhooks import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.realtime]
ROOT = Path(__file__).resolve().parents[2]


def test_the_first_commands_work_as_they_stand(tmp_path: Path) -> None:
    """All lines but the installation; the port of the debug pages is a free one, because tests run side by side."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl on PATH")
    text = (ROOT / "README.md").read_text().partition("## Your own, without a cluster")[2].partition("\n## ")[0]
    lines = [line.removeprefix("    ") for line in text.splitlines() if line.startswith("    ")]
    installation, *first = lines[: lines.index("opsdk dev") + 1]
    assert installation.endswith("pip install -e '.[cli,envtest]'")
    second = lines[lines.index("opsdk dev") + 1 :]
    assert len(lines) == 6
    port = free_port()
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "OPSDK_DEBUG_URL": f"http://127.0.0.1:{port}",
    }
    environment.pop("KUBECONFIG", None)
    log = tmp_path / "log"

    def shell(line: str) -> str:
        folder = tmp_path / "demo"
        return subprocess.run(
            ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
        ).stdout

    script = "\n".join(first).replace("opsdk dev", f"exec opsdk dev --debug-port {port}")
    with log.open("w") as output, subprocess.Popen(
        ["bash", "-ec", script], cwd=tmp_path, env=environment, stdout=output, stderr=subprocess.STDOUT
    ) as process:  # fmt: skip
        try:
            until(lambda: "started in" in log.read_text(), log)
            assert "widget.demo.example.com/example created" in shell(second[0]), log.read_text()
            until(lambda: "widget default/example: success" in shell(second[1]), log)
        finally:
            process.terminate()
            process.wait(30)
    assert alarms(log.read_text()) == []
