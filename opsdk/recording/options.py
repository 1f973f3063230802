"""Options of the flight recorder."""

from __future__ import annotations

from pathlib import Path

from opsdk.base.options import Options
from opsdk.errors import UsageError

__all__ = ["RecordingOptions"]

_MIN_BYTES = 1 << 20


class RecordingOptions(Options, frozen=True, kw_only=True):
    """Options of the flight recorder of an operator, see `docs/howto/replay.md`.

    Attributes:
        directory: where the files are written; empty for no recording. It is created if it is missing.
        max_bytes: of all files in the directory together, at least 1 MiB. The oldest ones go first.
        max_age: seconds after which a file goes.
        secrets: keep values of Secrets and tokens. Otherwise, digests stand for them.

    >>> RecordingOptions(directory="/var/recordings").max_bytes
    268435456
    """

    directory: str | Path = ""
    max_bytes: int = 256 << 20
    max_age: float = 86_400.0
    secrets: bool = False

    def __post_init__(self) -> None:
        if self.max_bytes < _MIN_BYTES:
            raise UsageError(f"max_bytes of a recording is {self.max_bytes}: pass at least {_MIN_BYTES}")
        if self.max_age <= 0:
            raise UsageError(f"max_age of a recording is {self.max_age}: pass more than 0 seconds")
