"""Processes that a verification forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

# Python prints and drops what is raised in a hook of a fork, and calls handlers of signals there.
STOPPED_IN_A_HOOK = """
import os, signal
from opsdk.cli.plan.processes import stopped_by_sigterm
from opsdk.verification.processes import run_in_processes

os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGTERM))
with stopped_by_sigterm():
    run_in_processes([lambda report: print(os.getpid(), flush=True)] * 2, lambda states: None)
print("went on")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_signal_while_a_process_forks_ends_it() -> None:
    """SIGTERM that comes while the hooks of a fork run is not lost, and the child ends too."""
    run = subprocess.run(
        [sys.executable, "-c", STOPPED_IN_A_HOOK], check=False, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 128 + signal.SIGTERM, run.stderr
    assert "went on" not in run.stdout
    for pid in run.stdout.split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)
