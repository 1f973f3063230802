"""Where the files of a recording are: in a directory, or in memory until they are saved. For one thread."""

from __future__ import annotations

import errno
import io
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple, Protocol

import msgspec

from opsdk.recording.files import RecordedFile, files_to_remove, has_any, rewrite
from opsdk.recording.options import RecordingMode, RecordingOptions
from opsdk.recording.records import Record

__all__ = ["FILES", "SUFFIX", "LateValues", "RecordingStorage", "file_names", "storage_for"]

SUFFIX: Final = ".opsdk-recording"
FILES: Final = 8
"""The space of a recording is divided into so many files."""


class RecordingStorage(Protocol):
    """The files of a recording: a ring, whose oldest ones go."""

    @property
    def max_bytes(self) -> int:
        """Bytes of all files together."""
        ...

    @property
    def size(self) -> int:
        """Bytes of all files now."""
        ...

    def start(self) -> None:
        """Prepare the directory. Raises ``OSError`` if it cannot be written to."""
        ...

    def open(self, number: int) -> None:
        """Begin the file of this number, and remove those that have to go. Raises ``OSError``."""
        ...

    def write(self, data: bytes) -> None:
        """Add bytes to the file. Raises ``OSError``."""
        ...

    def end(self) -> None:
        """End the file."""
        ...

    def save(self) -> None:
        """Write what is not in the directory yet. Raises ``OSError``."""
        ...

    def hide(self, late: LateValues) -> None:
        """Hide values in the last two files that have ended, and that `save` has not written. Raises ``OSError``."""
        ...


class LateValues(NamedTuple):
    """Values that were seen after copies of them may have been written.

    Attributes:
        values: as records have them; with more than 256, each file is assumed to have one.
        hide: returns records without them.
    """

    values: Sequence[bytes]
    hide: Callable[[list[Record]], list[Record]]

    def are_in(self, source: IO[bytes]) -> bool:
        """Whether a file has one of the values."""
        return len(self.values) > _MAX_SEARCHED or has_any(source, self.values)


_MAX_SEARCHED: Final = 256
_HIDDEN_FILES: Final = 2
_TEMPORARY: Final = ".opsdk-rewriting"


def storage_for(options: RecordingOptions, operator: str) -> RecordingStorage:
    """Return the storage of a recording.

    Args:
        options: of the recording.
        operator: its name, for names of files.
    """
    directory = _Directory(options, operator)
    return directory if options.mode is RecordingMode.ALWAYS else _Memory(options, directory)


def file_names(directory: Path) -> list[Path]:
    """Return the files of all recordings in a directory, the oldest first."""
    return [directory / file.name for file in _files_of(directory)]


class _Directory:
    def __init__(self, options: RecordingOptions, operator: str) -> None:
        self.path = Path(options.directory)
        self._options = options
        self._operator = "".join(char if char.isalnum() or char in "-_." else "-" for char in operator)[:100]
        self._stem = self.new_stem()
        self._file: IO[bytes] | None = None
        self._name = ""
        self._written = 0
        self._ended: list[RecordedFile] = []

    def new_stem(self) -> str:
        """Return the first part of the names of files that belong together."""
        return f"{self._operator}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}"

    @property
    def max_bytes(self) -> int:
        return self._options.max_bytes

    @property
    def size(self) -> int:
        return self._written + sum(file.size for file in tuple(self._ended))

    def start(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.path))
        for temporary in self.path.glob(f"*{_TEMPORARY}"):
            temporary.unlink(missing_ok=True)
        self._ended = _files_of(self.path)

    def open(self, number: int) -> None:
        self._name = f"{self._stem}-{number:06}{SUFFIX}"
        # Unbuffered: what was written survives a killed process.
        self._file = (self.path / self._name).open("xb", buffering=0)
        self._written = 0
        self.remove_old(RecordedFile(self._name, self.max_bytes // FILES, time.time()))

    def remove_old(self, current: RecordedFile) -> None:
        """Remove the files that have to go, but not the current one."""
        for file in files_to_remove(
            [*self._ended, current],
            now=time.time(),
            max_bytes=self.max_bytes,
            max_seconds=self._options.max_age,
        ):
            (self.path / file.name).unlink(missing_ok=True)
            self._ended.remove(file)

    def write(self, data: bytes) -> None:
        assert self._file is not None
        self._written += len(data)
        rest = memoryview(data)
        while rest:
            # A disk that is almost full takes a part.
            rest = rest[self._file.write(rest) :]

    def end(self) -> None:
        assert self._file is not None
        self._file.close()
        self._ended.append(RecordedFile(self._name, self._written, time.time()))
        self._written = 0

    def save(self) -> None:
        pass  # all is there

    def hide(self, late: LateValues) -> None:
        own = [place for place, file in enumerate(self._ended) if file.name.startswith(f"{self._stem}-")]
        for place in own[-_HIDDEN_FILES:]:
            path = self.path / self._ended[place].name
            with path.open("rb") as source:
                if not late.are_in(source):
                    continue
                source.seek(0)
                changed = path.with_name(f"{path.name}{_TEMPORARY}")
                with changed.open("wb") as target:
                    rewrite(source, target, late.hide)
            status = path.stat()
            os.utime(changed, ns=(status.st_atime_ns, status.st_mtime_ns))  # files are in the order of their ends
            changed.replace(path)
            self._ended[place] = msgspec.structs.replace(self._ended[place], size=path.stat().st_size)

    def __repr__(self) -> str:
        return f"<recording in {self.path}>"


class _Memory:
    def __init__(self, options: RecordingOptions, directory: _Directory) -> None:
        self._options, self._directory = options, directory
        self._contents: dict[int, bytearray] = {}
        self._ended: list[RecordedFile] = []

    @property
    def max_bytes(self) -> int:
        return self._options.max_memory

    @property
    def size(self) -> int:
        return sum(map(len, tuple(self._contents.values())))

    def start(self) -> None:
        self._directory.start()

    def open(self, number: int) -> None:
        self._contents[number] = bytearray()
        current = RecordedFile(str(number), self.max_bytes // FILES, time.time())
        for file in files_to_remove(
            [*self._ended, current], now=time.time(), max_bytes=self.max_bytes, max_seconds=self._options.max_age
        ):
            del self._contents[int(file.name)]
            self._ended.remove(file)

    def write(self, data: bytes) -> None:
        self._contents[max(self._contents)] += data

    def end(self) -> None:
        number = max(self._contents)
        self._ended.append(RecordedFile(str(number), len(self._contents[number]), time.time()))

    def save(self) -> None:
        """Write all files, as those of a recording of their own."""
        stem, path = self._directory.new_stem(), self._directory.path
        for number, content in sorted(self._contents.items()):
            (path / f"{stem}-{number:06}{SUFFIX}").write_bytes(content)
        self._directory.start()
        self._directory.remove_old(RecordedFile(f"{stem}-", 0, time.time()))

    def hide(self, late: LateValues) -> None:
        for file in self._ended[-_HIDDEN_FILES:]:
            content = self._contents[int(file.name)]
            if late.are_in(io.BytesIO(content)):
                rewrite(io.BytesIO(content), changed := io.BytesIO(), late.hide)
                content[:] = changed.getvalue()

    def __repr__(self) -> str:
        return f"<recording of {self.size} bytes in memory>"


def _files_of(directory: Path) -> list[RecordedFile]:
    files: list[RecordedFile] = []
    for path in directory.glob(f"*{SUFFIX}"):
        try:
            status = path.stat()
        except FileNotFoundError:  # another process has just removed it
            continue
        files.append(RecordedFile(path.name, status.st_size, status.st_mtime))
    return sorted(files, key=lambda file: (file.ended_at, file.name))
