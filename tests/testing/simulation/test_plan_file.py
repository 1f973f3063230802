"""Plans of faults in files, and a server process that follows one."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from opsdk.errors import ConfigError
from opsdk.testing.simulation.plan_file import parse_plan, read_plan


def test_a_mapping_draws_a_plan_from_the_seed() -> None:
    """A mapping draws the plan from the seed, with network faults only."""
    text = "{duration: 30, max_faults: 5, faults: [unavailable, cut_watches]}"
    assert parse_plan(text, 1) == parse_plan(text, 1)
    assert {step.name for seed in range(9) for step in parse_plan(text, seed)} == {"unavailable", "cut_watches"}


@pytest.mark.parametrize(
    "text",
    ["{", "3", "[{time: 1}]", "[{time: 1, name: crash}]", "{faults: [rain]}", "{size: 3}", "{duration: {}}"],
)
def test_what_is_no_plan_is_an_error(text: str, tmp_path: Path) -> None:
    """An invalid plan is an error that names the problem."""
    with pytest.raises(ConfigError):
        parse_plan(text, 0)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_plan(tmp_path / "missing", 0)


@pytest.mark.slow
def test_a_server_process_follows_a_plan(tmp_path: Path) -> None:
    """A server process with a plan fails with 503 in the window, and works after it."""
    plan = tmp_path / "faults.yaml"
    plan.write_text("- {time: 0, name: unavailable, seconds: 8}\n")
    command = [
        sys.executable,
        "-m",
        "envtest",
        "serve",
        "--no-tls",
        "--port",
        "0",
        "--faults",
        str(plan),
        "--seed",
        "3",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[1] + "/version"
            assert _status(url) == 503
            deadline = time.monotonic() + 60
            while (status := _status(url)) == 503 and time.monotonic() < deadline:
                time.sleep(0.2)
            assert status == 200
        finally:
            process.kill()


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
