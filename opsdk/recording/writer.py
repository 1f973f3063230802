"""Writes a recording to files, in a thread: the event loop only puts records into a queue."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final

from msgspec.structs import replace

from opsdk.recording.files import FileEncoder, RecordedFile, files_to_remove
from opsdk.recording.options import RecordingOptions
from opsdk.recording.records import (
    CheckpointBegan,
    CheckpointEnded,
    ExchangeBegan,
    Failed,
    Iterations,
    Received,
    Record,
    RecordingBegan,
    Skipped,
    WallMoved,
)
from opsdk.telemetry.safe_logger import SafeLogger

__all__ = ["SUFFIX", "RecordingWriter", "file_names"]

log = SafeLogger(__name__)

SUFFIX: Final = ".opsdk-recording"
_FLUSH_SECONDS: Final = 0.5
"""Seconds between two writes: a process that is killed loses that much."""
_FILES: Final = 8
"""The space of a recording is divided into so many files."""
_CHECKPOINT_SHARE: Final = 3
"""A file is so many times larger than the checkpoint with which it begins."""
_LATEST: Final = 2.0
"""Shares of a file after which the next one begins without a checkpoint."""
_MAX_PENDING: Final = 64 << 20
"""Bytes of records that wait for the disk."""
_ITERATION_BYTES: Final = 1024
_ITERATION_MICROS: Final = 500_000
"""Iterations are put into the queue after so many bytes, or microseconds."""
_CLOSE_SECONDS: Final = 5.0
_DISK_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of a disk, which never keep an operator from its start. Others are those of a wrong directory."""


class RecordingWriter:
    """Writes records to the files of one process. `add` and `add_iteration` are for the event loop's thread.

    A full disk ends the recording, with one line in the log; the operator goes on.

    Args:
        options: the directory, its size, the age of files.
        began: the first record of each file.
        redact: returns a record without secrets; called in the thread.
    """

    def __init__(
        self, options: RecordingOptions, began: RecordingBegan, *, redact: Callable[[Record], Record] = lambda r: r
    ) -> None:
        self._options, self._began, self._redact = options, began, redact
        self._directory = Path(options.directory)
        self._queue: deque[Record] = deque()
        self._queued = self._taken = 0
        self._iterations = bytearray()
        self._first_iteration = began.iteration + 1
        self._iteration = began.iteration
        self._micros = 0
        self._skipped = 0
        self._lock = threading.Lock()
        self._is_closing = threading.Event()
        self._problem = ""
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)
        self._stem = f"{_file_stem(began.operator)}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}"
        self._number = 0
        self._file: IO[bytes] | None = None
        self._encoder = FileEncoder()
        self._size = 0
        self._opened_at = 0.0
        self._wants_checkpoint = self._is_reported = False
        self._checkpoint_size = 0
        self._ended: list[RecordedFile] = []

    @property
    def problem(self) -> str:
        """Why nothing is recorded any more; empty if it is."""
        return self._problem

    @property
    def wants_checkpoint(self) -> bool:
        """Whether the file is large or old enough: the next one begins with the next checkpoint."""
        return self._wants_checkpoint

    def start(self) -> None:
        """Create the directory, and begin to write. Raises ``OSError`` if it cannot be written to, and is not full."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._ended = _files_of(self._directory)
            self._open()
        except OSError as error:
            if error.errno not in _DISK_ERRORS:
                raise
            self._fail(error)
        else:
            self._thread.start()

    # -------------------------------------------------------------- the event loop
    def add(self, record: Record) -> None:
        """Take a record, after the iterations before it: a file that is cut off has the times of its records."""
        self.flush_iterations()
        self._add(record)

    def _add(self, record: Record) -> None:
        if self._problem:
            return
        if self._queued - self._taken > _MAX_PENDING:
            self._skipped += 1
            return
        if self._skipped:
            self._queue.append(Skipped(self._iteration, self._skipped))
            self._skipped = 0
        self._queued += _size(record)
        self._queue.append(record)

    def add_checkpoint(self, records: Sequence[Record]) -> None:
        """Begin the next file with a checkpoint. `add` calls follow."""
        self._wants_checkpoint = False
        self.flush_iterations()
        for record in records:
            self._add(record)

    def add_iteration(self, micros: int) -> None:
        """Note an iteration of the loop, which began so many microseconds after the one before it."""
        self._iteration += 1
        self._micros += micros
        while micros > 0x7F:
            self._iterations.append(0x80 | micros & 0x7F)
            micros >>= 7
        self._iterations.append(micros)
        if self._micros > _ITERATION_MICROS or len(self._iterations) > _ITERATION_BYTES:
            self.flush_iterations()

    def add_wall(self, iteration: int, wall: int) -> None:
        """Note a step of the system's clock."""
        self.add(WallMoved(iteration, wall))

    def flush_iterations(self) -> None:
        """Put the iterations that were noted into the queue."""
        if self._iterations:
            self._add(Iterations(self._first_iteration, bytes(self._iterations)))
        self._iterations.clear()
        self._first_iteration, self._micros = self._iteration + 1, 0

    def close(self) -> None:
        """Write what is left, and end the file. Returns after five seconds in any case."""
        self.flush_iterations()
        self._is_closing.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_SECONDS)

    # -------------------------------------------------------------- the thread
    def _run(self) -> None:
        try:
            while not self._is_closing.wait(_FLUSH_SECONDS):
                self.write_queue()
            self.write_queue()
            with self._lock:
                self._end()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self._problem = str(error)
        self._queue.clear()
        log.error("the recording ends, and the operator goes on: %s", error)

    def write_queue(self) -> None:
        """Write the records that wait. Raises ``OSError``."""
        with self._lock:
            self._write_queue()

    def _write_queue(self) -> None:
        if not self._queue:
            return
        data = bytearray()
        while self._queue:
            record = self._queue.popleft()
            self._taken += _size(record)
            if isinstance(record, CheckpointBegan):
                self._write(bytes(data))
                data.clear()
                self._end()
                self._open()
            data += self._encoder.encode(self._redact(record))
            if isinstance(record, CheckpointEnded):
                self._checkpoint_size = self._size + len(data)
        data += self._encoder.flush()
        self._write(bytes(data))
        self._check_size()

    def _check_size(self) -> None:
        """Ask for a checkpoint when the file has its share. Without one for a long time, the next file has none."""
        # A checkpoint of large caches must not be most of the recording.
        share = max(self._options.max_bytes // _FILES, _CHECKPOINT_SHARE * self._checkpoint_size)
        age = (time.time() - self._opened_at) / (self._options.max_age / _FILES)
        filling = max(self._size / share, age)
        if filling > _LATEST:
            if not self._is_reported:
                log.warning("the operator had no moment without work for a checkpoint of its recording")
            self._is_reported = True
            self._end()
            self._open()
        elif filling > 1:
            self._wants_checkpoint = True

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        self._size += len(data)
        rest = memoryview(data)
        while rest:
            # A disk that is almost full takes a part.
            rest = rest[self._file.write(rest) :]

    def _open(self) -> None:
        """Begin the next file, and remove those that have to go."""
        path = self._directory / f"{self._stem}-{self._number:06}{SUFFIX}"
        # Unbuffered: what was written survives a killed process.
        self._file = path.open("xb", buffering=0)
        self._encoder, self._size, self._opened_at = FileEncoder(), 0, time.time()
        self._checkpoint_size, self._wants_checkpoint = 0, False
        began = self._encoder.encode(replace(self._began, file=self._number))
        self._write(self._encoder.begin() + began + self._encoder.flush())
        self._number += 1
        current = RecordedFile(path.name, self._options.max_bytes // _FILES, time.time())
        for file in files_to_remove(
            [*self._ended, current],
            now=time.time(),
            max_bytes=self._options.max_bytes,
            max_seconds=self._options.max_age,
        ):
            (self._directory / file.name).unlink(missing_ok=True)
            self._ended.remove(file)

    def _end(self) -> None:
        assert self._file is not None
        self._write(self._encoder.end())
        self._file.close()
        path = Path(self._file.name)
        self._ended.append(RecordedFile(path.name, self._size, time.time()))

    def __repr__(self) -> str:
        return f"<RecordingWriter to {self._directory}{f': {self._problem}' if self._problem else ''}>"


def file_names(directory: Path) -> list[Path]:
    """Return the files of all recordings in a directory, the oldest first."""
    return [directory / file.name for file in _files_of(directory)]


def _files_of(directory: Path) -> list[RecordedFile]:
    files: list[RecordedFile] = []
    for path in directory.glob(f"*{SUFFIX}"):
        try:
            status = path.stat()
        except FileNotFoundError:  # another process has just removed it
            continue
        files.append(RecordedFile(path.name, status.st_size, status.st_mtime))
    return sorted(files, key=lambda file: (file.ended_at, file.name))


def _file_stem(operator: str) -> str:
    return "".join(char if char.isalnum() or char in "-_." else "-" for char in operator)[:100]


def _size(record: Record) -> int:
    match record:
        case Received():
            return len(record.data)
        case ExchangeBegan():
            return len(record.body)
        case Failed():
            return len(record.message)
    return 0
