"""Why a server that was to write a kubeconfig could not start: a file beside the kubeconfig.

Another process waits for the kubeconfig. Without the file, it would wait until its time is over.
"""

from __future__ import annotations

from pathlib import Path

# Seconds that a start may have begun before the wait for it. An older file is of an earlier start.
_START_LEAD = 10.0


def clear_start_failure(kubeconfig: Path) -> None:
    """Remove the file of an earlier start."""
    _file(kubeconfig).unlink(missing_ok=True)


def write_start_failure(kubeconfig: Path, error: BaseException) -> None:
    """Write why the server could not start."""
    _file(kubeconfig).write_text(f"{error}\n", encoding="utf-8")


def read_start_failure(kubeconfig: Path, *, since: float) -> str:
    """Return why the server could not start; empty if it did not fail.

    Args:
        kubeconfig: that the server was to write.
        since: the time in seconds, as `time.time` has it, when the wait began.
    """
    file = _file(kubeconfig)
    try:
        return file.read_text(encoding="utf-8").strip() if file.stat().st_mtime > since - _START_LEAD else ""
    except OSError:
        return ""


def _file(kubeconfig: Path) -> Path:
    return kubeconfig.with_name(f"{kubeconfig.name}.error")
