"""Reads the recording of one process from its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from opsdk.recording.files import RecordingError, read_records
from opsdk.recording.records import Record, RecordingBegan
from opsdk.recording.writer import SUFFIX, file_names

__all__ = ["Recording", "load_recording"]


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """The recording of one process.

    Attributes:
        records: of all files that are left, in order.
        problems: what could not be read; empty if everything could.
    """

    records: Sequence[Record]
    problems: Sequence[str] = ()


def load_recording(path: Path) -> Recording:
    """Read a recording.

    Args:
        path: one of its files, or a directory: then the newest recording in it.

    Raises:
        RecordingError: there is no recording, its first file is gone, or it has another format.
    """
    if path.is_dir():
        files = file_names(path)
        if not files:
            raise RecordingError(f"{path} has no recording: start the operator with --recording-dir={path}")
        path = files[-1]
    if not path.is_file():
        raise RecordingError(f"{path} does not exist: give a file of a recording, or its directory")
    stem, _, number = path.name.removesuffix(SUFFIX).rpartition("-")
    if not (path.name.endswith(SUFFIX) and stem and number.isdigit()):
        return _joined([path])
    return _joined(sorted(each for each in file_names(path.parent) if each.name.startswith(f"{stem}-")))


def _joined(files: Sequence[Path]) -> Recording:
    records: list[Record] = []
    problems: list[str] = []
    for number, file in enumerate(files):
        try:
            content = read_records(file.read_bytes())
        except OSError as error:
            raise RecordingError(f"{file} cannot be read: {error}") from error
        began = content.records[0] if content.records else None
        if not isinstance(began, RecordingBegan) or began.file != number:
            if began is None and not records:
                raise RecordingError(f"{file} has no records: the process ended before it wrote any")
            if not records:
                raise RecordingError(
                    f"the beginning of the recording is gone, {file.name} is the oldest file that is left: "
                    "a replay needs the start of the process; raise max_bytes and max_age of RecordingOptions"
                )
            problems.append(f"{file.name} does not follow the file before it: the replay ends there")
            break
        records += content.records if not records else content.records[1:]
        if content.problem:
            problems.append(f"{file.name}: {content.problem}")
        if not content.is_complete:
            problems.append(f"{file.name} has no end: the process was killed, or still writes it")
            break
    return Recording(records=records, problems=problems)
