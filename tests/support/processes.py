"""Waiting for real processes in synchronous tests."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

_PATIENCE = 60.0
_ALARM = re.compile(r"\b(?:WARNING|ERROR|CRITICAL|Traceback|failed)\b|never awaited|exception")


def until(check: Callable[[], object], log: Path) -> None:
    """Call `check` until it is true; after a minute, fail with the text of `log`."""
    deadline = time.monotonic() + _PATIENCE
    while not check():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def alarms(text: str) -> list[str]:
    """Return the lines that alarm a reader: records of level WARNING and above, tracebacks, and failures."""
    return [line for line in text.splitlines() if _ALARM.search(line)]


def programs_in(folder: Path) -> list[str]:
    """Return the command lines of the processes that run in a folder or below it. Only on Linux."""
    commands = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(folder):
                commands.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:  # it has ended, or is another user's
            continue
    return commands
