"""Acknowledged writes survive a kill of the writer at any time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LIAR = """
import sys
from opsdk.apiserver.storage import sqlite
write, count = sqlite.SqliteStorage._write, 0
def sometimes(self, changes, revision):
    global count
    count += 1
    if count % 3:
        write(self, changes, revision)
sqlite.SqliteStorage._write = sometimes
from tests.apiserver.storage import kill9
kill9.main(50)
"""

pytestmark = [pytest.mark.e2e]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """A Python of its own, because it forks."""
    return subprocess.run(
        [sys.executable, *command], check=False, capture_output=True, text=True, cwd=ROOT, timeout=280
    )


@pytest.mark.slow
@pytest.mark.parametrize("writers", [100, pytest.param(400, marks=pytest.mark.deep)])
def test_nothing_acknowledged_is_lost(writers: int) -> None:
    """Writers are killed with -9: every acknowledged write is stored, and revisions only grow."""
    done = run("-m", "tests.apiserver.storage.kill9", str(writers))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{writers} writers killed" in done.stdout


def test_the_check_finds_a_lost_write() -> None:
    """The check fails for a storage that acknowledges writes which it does not keep."""
    done = run("-c", LIAR)
    assert "AssertionError: o" in done.stderr or "the revision went back" in done.stderr, done.stderr
