"""A day without errors: no log line alarms a reader who runs the demo or starts a project."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import alarms, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.realtime]
ROOT = Path(__file__).resolve().parents[2]
OPSDK = [sys.executable, "-m", "opsdk.cli"]


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-24T19:21:52.758Z WARNING opsdk.cache: relist",
        "[11/24/26 19:21:56] ERROR    opsdk.controller: reconcile",
        "Traceback (most recent call last):",
        "health check caches-synced failed",
    ],
)
def test_an_alarm_is_a_line_of_a_bad_day(text: str) -> None:
    """Levels, tracebacks and failures alarm, in the format of files and of the console."""
    assert alarms(f"2026-11-24T19:21:52.758Z INFO    opsdk.manager: starts\n{text}\n") == [text]


def test_the_demo_tells_its_story_and_logs_nothing() -> None:
    """Python prints records of level WARNING and above on stderr, where no handler is set; the demo leaves it empty."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "samples/website")])}
    done = subprocess.run(
        [sys.executable, "-m", "website.demo"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.rstrip().endswith("The demo is finished.")
    assert "The server warns: spec.image has no tag: nginx:stable is used." in done.stdout


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_new_project_starts_and_stops_quietly(stop: signal.Signals, tmp_path: Path) -> None:
    """``opsdk init``, ``create api`` and ``dev``, stopped by either signal: status 0, and no line that alarms."""
    subprocess.run([*OPSDK, "init", "demo"], cwd=tmp_path, check=True)
    project, log = tmp_path / "demo", tmp_path / "log"
    create = ["create", "api", "--group", "demo.example.com", "--version", "v1", "--kind", "Widget"]
    subprocess.run([*OPSDK, *create], cwd=project, check=True)
    command = [*OPSDK, "dev", "--plain", "--debug-port", "0"]
    with log.open("w") as output, subprocess.Popen(
        command, cwd=project, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:  # fmt: skip
        try:
            until(lambda: "started in" in log.read_text() or process.poll() is not None, log)
            process.send_signal(stop)
            assert process.wait(60) == 0, log.read_text()
        finally:
            process.kill()
    assert "started in" in log.read_text()
    assert alarms(log.read_text()) == []
