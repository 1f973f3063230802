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
