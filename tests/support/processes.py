"""Waiting for real processes in synchronous tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

_PATIENCE = 60.0


def until(check: Callable[[], object], log: Path) -> None:
    """Call `check` until it is true; after a minute, fail with the text of `log`."""
    deadline = time.monotonic() + _PATIENCE
    while not check():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
