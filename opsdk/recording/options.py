"""Options of the flight recorder."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from opsdk.base.options import Options
from opsdk.errors import UsageError

__all__ = ["RecordingMode", "RecordingOptions"]

_MIN_BYTES = 1 << 20


class RecordingMode(StrEnum):
    """When a recording is written to files."""

    ALWAYS = "always"
    """While the operator runs. A process that is killed loses its last second."""
    ON_REQUEST = "on-request"
    """After ``POST /debug/recording``. Until then, the newest part is in memory."""
    ON_PANIC = "on-panic"
    """On a request, when the operator ends with an error, and when a reconcile raises an exception that is no
    `OpsdkError`: at most once in ten minutes."""


class RecordingOptions(Options, frozen=True, kw_only=True):
    """Options of the flight recorder of an operator, see `docs/howto/replay.md`.

    Attributes:
        directory: where the files are written; empty for no recording. It is created if it is missing.
        mode: when they are written.
        max_memory: bytes of the part that is in memory, at least 1 MiB. Not for the mode ``always``.
        max_bytes: of all files in the directory together, at least 1 MiB. The oldest ones go first.
        max_age: seconds after which a file goes.
        secrets: keep values of Secrets and tokens. Otherwise, digests stand for them.

    >>> RecordingOptions(directory="/var/recordings").max_bytes
    268435456
    """

    directory: str | Path = ""
    mode: RecordingMode = RecordingMode.ALWAYS
    max_memory: int = 16 << 20
    max_bytes: int = 256 << 20
    max_age: float = 86_400.0
    secrets: bool = False

    def __post_init__(self) -> None:
        for name in ("max_bytes", "max_memory"):
            if (size := getattr(self, name)) < _MIN_BYTES:
                raise UsageError(f"{name} of a recording is {size}: pass at least {_MIN_BYTES}")
        if self.max_age <= 0:
            raise UsageError(f"max_age of a recording is {self.max_age}: pass more than 0 seconds")
