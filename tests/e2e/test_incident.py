"""``make demo-incident``: each step of a bad night proves what it says, with Prometheus and without it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from documentation import DOCS, ROOT, blocks
from processes import programs_in, until
from prometheus_process import needs_prometheus

from opsdk.apimachinery.serializer.yaml_writer import write_yaml
from opsdk.monitoring.declaration import MonitoredOperator
from opsdk.monitoring.rules import rule_groups
from website.incident import shell
from website.incident.monitoring import FASTER, faster

DEMO = [sys.executable, "-m", "website.incident"]
PROGRAMS = ("cp", "diff", "sed")
"""What the demo runs besides Python and Prometheus."""
ERROR = "ValueError('too many values to unpack (expected 2)')"
ALERT = [
    "prometheus --config.file=prometheus.yml",
    "OpsdkReconcilesFail, severity warning: Reconciles of the operator fail.",
    "of the reconciles of the controller website fail.",
    "  runbooks/OpsdkReconcilesFail.md",
]
COUNTERS = [
    "Prometheus is not installed, so no alert fires. Debian's package is named prometheus.",
    'controller_runtime_reconcile_errors_total{controller="website"}',
]
STEPS = [
    "## See more",
    "error    website default/hello failed",
    "requests are identical",
    "the first is #",
    "    written by web-team",
    "  image: registry.example.com:5000/nginx:1.29",
    "spec.template.spec.containers[web].image: 'nginx:1.28' -> 'registry.example.com:5000/nginx:1.29'",
    "wrote test_night.py",
    ERROR,
    "1 failed",
    "1 passed",
    "Website hello is ready, and serves registry.example.com:5000/nginx:1.29: as planned.",
    "The demo is finished",
]
"""Texts of the demo in order, after its alert."""


def test_the_demo_shortens_times_and_keeps_queries() -> None:
    """The rules of the demo are the generated ones, evaluated more often and with a shorter ``for``."""
    groups = rule_groups(MonitoredOperator(name="shop", controllers={"site": "Site"}))
    (group,), (changed,) = groups, yaml.safe_load(faster(write_yaml({"groups": groups})))["groups"]
    assert changed["interval"] == "1s"
    for rule, quick in zip(group["rules"], changed["rules"], strict=True):
        assert {**quick, "for": ""} == {**rule, "for": ""}
        assert ("for" in quick) == ("for" in rule)
    waits = {
        rule["for"]: quick["for"] for rule, quick in zip(group["rules"], changed["rules"], strict=True) if "for" in rule
    }
    assert waits["60s"] == f"{60 // FASTER}s"


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.realtime
@pytest.mark.parametrize(
    "with_prometheus", [pytest.param(True, marks=needs_prometheus), pytest.param(False, marks=pytest.mark.deep)]
)
def test_each_step_of_the_demo_proves_what_it_says(with_prometheus: bool, tmp_path: Path) -> None:
    """The alert fires, the console shows it, the replay finds it, and the repair passes the test that the bug fails."""
    environment = demo_environment(tmp_path / "demo")
    if not with_prometheus:
        environment["PATH"] = str(folder_of_programs(tmp_path / "bin"))
    ended = subprocess.run(
        DEMO, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=240
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout + ended.stderr
    place = 0
    for text in [*(ALERT if with_prometheus else COUNTERS), *STEPS]:
        assert text in ended.stdout[place:], f"{text!r} is missing:\n{ended.stdout[place:]}"
        place = ended.stdout.index(text, place) + len(text)
    assert ("prometheus --config" in ended.stdout) == with_prometheus
    if with_prometheus:
        assert_shows(ended.stdout, DOCS / "howto/bad-night.md")
    assert list((tmp_path / "demo").iterdir()) == []
    assert programs_in(tmp_path) == []


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.realtime
@pytest.mark.parametrize(
    ("stop", "begin"),
    [(signal.SIGINT, ["Two Websites are ready", *COUNTERS]), (signal.SIGTERM, ["Two Websites are ready"])],
    ids=["SIGINT-without-prometheus", "SIGTERM"],
)
def test_a_signal_ends_the_demo_with_all_its_programs(stop: signal.Signals, begin: list[str], tmp_path: Path) -> None:
    """No program and no file is left. The status is that of the signal. Counters stand for a missing alert."""
    folder, log = tmp_path / "demo", tmp_path / "log"
    environment = demo_environment(folder)
    if COUNTERS[0] in begin:
        environment["PATH"] = str(folder_of_programs(tmp_path / "bin"))
    with log.open("w") as output, subprocess.Popen(
        DEMO, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
    ) as process:  # fmt: skip
        try:
            until(lambda: all(text in log.read_text() for text in begin) or process.poll() is not None, log)
            assert len(programs_in(folder)) >= 2
            process.send_signal(stop)
            assert process.wait(60) == 128 + stop, log.read_text()
        finally:
            process.kill()
    assert "Traceback" not in log.read_text()
    assert programs_in(folder) == []
    assert list(folder.iterdir()) == []


def assert_shows(output: str, page: Path) -> None:
    """Assert that the output has the text blocks of a page in order; ``...`` on the page is any text."""
    rest = _without_empty_lines(output)
    for block in blocks(page):
        if block.language == "text":
            pattern = re.escape(_without_empty_lines(block.text)).replace(r"\.\.\.", ".*?")
            place = re.search(pattern, rest, re.DOTALL)
            assert place is not None, f"the demo does not print this:\n{block.text}\nafter this:\n{output}"
            rest = rest[place.end() :]


def _without_empty_lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def demo_environment(folder: Path) -> dict[str, str]:
    """Return the variables of the demo, which creates its files below a folder."""
    folder.mkdir()
    return {**os.environ, "PYTHONPATH": str(ROOT / "samples/website"), "TMPDIR": str(folder)}


def folder_of_programs(folder: Path) -> Path:
    """Return a folder with the programs of the demo, without Prometheus."""
    folder.mkdir()
    for name in PROGRAMS:
        program = shutil.which(name)
        assert program is not None
        (folder / name).symlink_to(program)
    return folder


def test_a_signal_waits_until_a_program_can_be_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes right after the start, before anybody knows of the program."""
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def interrupted(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        program = popen(*arguments, **options)
        started.append(program)
        signal.raise_signal(signal.SIGINT)
        return program

    monkeypatch.setattr(shell.subprocess, "Popen", interrupted)
    # A job in the background of a shell ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), shell.Shell(tmp_path) as commands:
            commands.start("sleep 60", "log")
    finally:
        signal.signal(signal.SIGINT, before)
    assert started[0].poll() is not None
