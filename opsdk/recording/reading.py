"""Reads the recording of one process from its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from opsdk.recording.files import FileContent, RecordingError, read_records
from opsdk.recording.records import CheckpointBegan, CheckpointEnded, Record, RecordingBegan
from opsdk.recording.storage import SUFFIX, file_names

__all__ = ["Recording", "load_recording"]


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """The recording of one process.

    Attributes:
        records: of the files from the beginning, in order.
        problems: what could not be read; empty if everything could.
    """

    records: Sequence[Record]
    problems: Sequence[str] = ()


def load_recording(path: Path) -> Recording:
    """Read a recording.

    Args:
        path: a directory: the newest recording in it, from the oldest place at which a replay can begin; or a file of a
            recording: then that place is in it.

    Raises:
        RecordingError: there is no recording, none of its files has the start of the process or a checkpoint, or it has
            another format.
    """
    first = None
    if path.is_dir():
        files = file_names(path)
        if not files:
            raise RecordingError(f"{path} has no recording: start the operator with --recording-dir={path}")
        path = files[-1]
    elif path.is_file():
        first = path
    else:
        raise RecordingError(f"{path} does not exist: give a file of a recording, or its directory")
    stem, _, number = path.name.removesuffix(SUFFIX).rpartition("-")
    if not (path.name.endswith(SUFFIX) and stem and number.isdigit()):
        return _joined([_read(path)])
    names = sorted(each for each in file_names(path.parent) if each.name.startswith(f"{stem}-"))
    # A file without a beginning continues the one before it.
    while first is not None and first != names[0] and not _read(first).is_beginning:
        first = names[names.index(first) - 1]
    return _joined([_read(each) for each in names if first is None or each >= first])


class _ReadFile(msgspec.Struct, frozen=True):
    path: Path
    content: FileContent

    @property
    def number(self) -> int:
        began = self.content.records[0] if self.content.records else None
        return began.file if isinstance(began, RecordingBegan) else -1

    @property
    def is_beginning(self) -> bool:
        """Whether a replay can begin with this file: the process started, or a whole checkpoint is here."""
        records = self.content.records
        if self.number == 0:
            return True
        is_checkpoint = len(records) > 1 and isinstance(records[1], CheckpointBegan)
        return is_checkpoint and any(isinstance(record, CheckpointEnded) for record in records)


def _read(file: Path) -> _ReadFile:
    try:
        return _ReadFile(file, read_records(file.read_bytes()))
    except OSError as error:
        raise RecordingError(f"{file} cannot be read: {error}") from error


def _joined(files: Sequence[_ReadFile]) -> Recording:
    begin = next((index for index, file in enumerate(files) if file.is_beginning), None)
    if begin is None:
        raise _without_beginning(files[0])
    records: list[Record] = []
    problems: list[str] = []
    if begin:
        problems.append(f"the replay begins with {files[begin].path.name}: the files before it have no place to begin")
    for number, file in enumerate(files[begin:], files[begin].number):
        name, content = file.path.name, file.content
        if file.number != number:
            problems.append(f"{name} does not follow the file before it: the replay ends there")
            break
        records += content.records if not records else content.records[1:]
        if content.problem:
            problems.append(f"{name}: {content.problem}")
        if not content.is_complete:
            problems.append(f"{name} has no end: the process was killed, or still writes it")
            break
    return Recording(records=records, problems=problems)


def _without_beginning(oldest: _ReadFile) -> RecordingError:
    if oldest.number < 0:
        return RecordingError(f"{oldest.path} has no records: the process ended before it wrote any")
    return RecordingError(
        f"no file that is left has the start of the process or a checkpoint, {oldest.path.name} is the oldest: "
        "the operator had no moment without work; raise max_bytes and max_age of RecordingOptions"
    )
