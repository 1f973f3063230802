"""Writes a recording to files, in a thread: the event loop only puts records into a queue."""

from __future__ import annotations

import errno
import threading
import time
import zlib
from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from opsdk.recording.files import FileEncoder
from opsdk.recording.known_values import ValueLimitError
from opsdk.recording.options import RecordingOptions
from opsdk.recording.records import (
    Answered,
    Called,
    CheckpointPart,
    ExchangeBegan,
    Iterations,
    Received,
    Record,
    RecordingBegan,
    Skipped,
    WallMoved,
)
from opsdk.recording.redaction import Redactor
from opsdk.recording.status import RecordingStatus
from opsdk.recording.storage import FILES, LateValues, storage_for
from opsdk.telemetry.safe_logger import SafeLogger

__all__ = ["RecordingWriter"]

log = SafeLogger(__name__)

_FLUSH_SECONDS: Final = 1.0
"""Seconds between two writes: a process that is killed loses that much. A thread that wakes costs about 0.3 ms."""
_CHECKPOINT_SHARE: Final = 3
"""A file is so many times larger than the checkpoint with which it begins."""
_LATEST: Final = 2.0
"""Shares of a file after which the next one begins without a checkpoint."""
_MAX_PENDING: Final = 64 << 20
"""Bytes of records that wait for the disk."""
_MAX_QUEUED: Final = 1_000_000
"""Records and iterations that wait for the disk: about 60 MB."""
_CLOSE_SECONDS: Final = 5.0
_DISK_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of a disk, which never keep an operator from its start. Others are those of a wrong directory."""


class RecordingWriter:
    """Writes records to the files of one process. `add` and `add_iteration` are for the event loop's thread.

    A full disk ends the recording, with one line in the log; the operator goes on.

    Args:
        options: the directory, its size, the age of files.
        began: the first record of each file.
        redactor: returns records without secrets; called in the thread. None leaves them.
    """

    def __init__(self, options: RecordingOptions, began: RecordingBegan, *, redactor: Redactor | None = None) -> None:
        self._options, self._began, self._redactor = options, began, redactor
        self._hidden = 0
        """Number of values that are hidden in the files that have ended."""
        self._storage = storage_for(options, began.operator)
        self._queue: deque[Record | int | _Checkpoint] = deque()
        """Records, checkpoints, and numbers: the microseconds of iterations, before the records of the iteration."""
        self._iterations = _Iterations(began.iteration + 1)
        self._queued = self._taken = 0
        self._skipped = self._skipped_before = 0
        self._exhausted: ValueLimitError | None = None
        self._began_at = time.time()
        self._lock = threading.Lock()
        self._is_closing = threading.Event()
        self._problem = ""
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)
        self._number = 0
        self._save_reason = ""
        self._encoder = FileEncoder()
        self._size = 0
        self._opened_at = 0.0
        self._wants_checkpoint = self._is_reported = False
        self._checkpoint_size = 0

    @property
    def problem(self) -> str:
        """Why nothing is recorded any more; empty if it is."""
        return self._problem

    @property
    def wants_checkpoint(self) -> bool:
        """Whether the file is large or old enough: the next one begins with the next checkpoint."""
        return self._wants_checkpoint

    def status(self) -> RecordingStatus:
        """Return the state of the recording."""
        return RecordingStatus(
            directory=str(self._options.directory),
            since=self._began_at,
            size=self._storage.size,
            skipped=self._skipped_before + self._skipped,
            problem=self._problem,
        )

    def start(self) -> None:
        """Create the directory, and begin to write. Raises ``OSError`` if it cannot be written to, and is not full."""
        try:
            self._storage.start()
            self._open()
        except OSError as error:
            if error.errno not in _DISK_ERRORS:
                raise
            self._fail(error)
        else:
            self._thread.start()

    # -------------------------------------------------------------- the event loop
    def add(self, record: Record) -> None:
        """Take a record."""
        if self._problem:
            return
        if self._queued - self._taken > _MAX_PENDING or len(self._queue) > _MAX_QUEUED:
            self._skipped += 1
            return
        if self._skipped:
            # `add_iteration` and `add_checkpoint` take the others.
            assert not isinstance(record, Iterations | CheckpointPart)
            self._queue.append(Skipped(record.iteration, self._skipped))
            self._skipped_before += self._skipped
            self._skipped = 0
        if isinstance(record, Received):
            self._queued += len(record.data)
        elif isinstance(record, ExchangeBegan | Called | Answered):
            self._queued += len(record.body)
        self._queue.append(record)

    def add_checkpoint(self, records: Iterable[Record]) -> None:
        """Begin the next file with a checkpoint. What was added before it goes into the file before.

        Args:
            records: of the checkpoint; the thread iterates over them.
        """
        self._wants_checkpoint = False
        self._queue.append(_Checkpoint(records))

    def add_iteration(self, micros: int) -> None:
        """Note an iteration of the loop, which began so many microseconds after the one before it."""
        if self._skipped or self._problem:
            return
        if len(self._queue) > _MAX_QUEUED:
            self._skipped = 1
            return
        self._queue.append(micros)

    def add_wall(self, iteration: int, wall: int) -> None:
        """Note a step of the system's clock."""
        self.add(WallMoved(iteration, wall))

    def request_save(self, reason: str) -> None:
        """Let the thread write what is in memory into the directory, with its next write.

        Args:
            reason: for the log.
        """
        self._save_reason = reason

    def close(self) -> None:
        """Write what is left, and end the file. Returns after five seconds in any case."""
        self._is_closing.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_SECONDS)

    # -------------------------------------------------------------- the thread
    def _run(self) -> None:
        try:
            while not self._is_closing.wait(_FLUSH_SECONDS):
                self.write_queue()
                if self._save_reason:
                    self.save()
            self.write_queue()
            with self._lock:
                self._end()
            if self._save_reason:
                self.save()
        except Exception as error:  # noqa: BLE001 - nothing takes records out of the queue any more
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._problem = str(error) or repr(error)
        self._queue.clear()
        log.error("the recording ends, and the operator goes on: %s", self._problem)

    def write_queue(self) -> None:
        """Write the records that wait. Raises ``OSError``, and `ValueLimitError` after the last record."""
        with self._lock:
            self._write_queue()

    def _write_queue(self) -> None:
        if not self._queue:
            return
        while self._queue:
            if isinstance(first := self._queue[0], _Checkpoint):
                self._queue.popleft()
                self._write_checkpoint(first.records)
            else:
                self._write(self._encoder.encode(*self._take()) + self._encoder.flush())
            if self._exhausted is not None:
                self._end()
                raise self._exhausted
        self._check_size()

    def _write_checkpoint(self, records: Iterable[Record]) -> None:
        """Begin the next file with a checkpoint."""
        self._end()
        self._open()
        for record in records:  # not at once: it may be as large as the caches
            self._write(self._encoder.encode(*self._without_secrets([record])))
        self._write(self._encoder.flush())
        self._checkpoint_size = self._size

    def _check_size(self) -> None:
        """Ask for a checkpoint when the file has its share. Without one for a long time, the next file has none."""
        # A checkpoint of large caches must not be most of the recording.
        share = max(self._storage.max_bytes // FILES, _CHECKPOINT_SHARE * self._checkpoint_size)
        age = (time.time() - self._opened_at) / (self._options.max_age / FILES)
        filling = max(self._size / share, age)
        if filling > _LATEST and self._wants_checkpoint:
            if not self._is_reported:
                log.warning("the operator had no moment without work for a checkpoint of its recording")
            self._is_reported = True
            self._end()
            self._open()
        elif filling > 1:
            self._wants_checkpoint = True

    def _take(self) -> list[Record]:
        """Return the records that wait, or those until a gap or a checkpoint.

        Iterations come first, see `_Iterations`.
        """
        queue, queued = self._queue, self._queued
        records: list[Record] = []
        while queue:
            if isinstance(queue[0], _Checkpoint):
                return [*self._iterations.take(), *self._without_secrets(records)]
            item = queue.popleft()
            assert not isinstance(item, _Checkpoint)
            if isinstance(item, int):
                self._iterations.add(item)
                continue
            records.append(item)
            if isinstance(item, Skipped):
                return [*self._iterations.take(first=item.iteration + 1), *self._without_secrets(records)]
        self._taken = queued
        return [*self._iterations.take(), *self._without_secrets(records)]

    def _without_secrets(self, records: list[Record]) -> list[Record]:
        """Return records without secrets. If that is not possible any more, the recording ends before them."""
        if self._exhausted is not None:
            return []
        try:
            return records if self._redactor is None else self._redactor.redact(records)
        except ValueLimitError as error:
            self._exhausted = error
            return [Skipped(getattr(records[0], "iteration", 0), len(records), str(error))]

    def _write(self, data: bytes) -> None:
        self._size += len(data)
        self._storage.write(data)

    def _open(self) -> None:
        """Begin the next file."""
        self._storage.open(self._number)
        self._encoder, self._size, self._opened_at = FileEncoder(), 0, time.time()
        self._checkpoint_size, self._wants_checkpoint = 0, False
        began = self._encoder.encode(replace(self._began, file=self._number))
        self._write(self._encoder.begin() + began + self._encoder.flush())
        self._number += 1

    def _end(self) -> None:
        self._write(self._encoder.end())
        self._storage.end()
        self._hide_late_values()

    def _hide_late_values(self) -> None:
        """Hide copies that were written before their values were seen. A failure is logged."""
        if self._redactor is None or not (late := self._redactor.values(after=self._hidden)):
            return
        self._hidden += len(late)
        try:
            self._storage.hide(LateValues(late, self._redactor.hide))
        except (OSError, zlib.error) as error:
            log.error("copies of Secrets in the recording could not be searched for: %s", error)

    def save(self) -> None:
        """Write what is in memory into the directory. A failure is logged."""
        reason, self._save_reason = self._save_reason, ""
        try:
            with self._lock:
                if self._redactor is not None and self._redactor.values(after=self._hidden):
                    self._end()  # what is saved has no copies either
                    self._open()
                self._storage.save()
        except OSError as error:
            log.error("the recording cannot be saved: %s", error)
        else:
            log.info("the recording is saved in %s: %s", self._options.directory, reason)

    def __repr__(self) -> str:
        return f"<RecordingWriter to {self._storage!r}{f': {self._problem}' if self._problem else ''}>"


class _Checkpoint(msgspec.Struct, frozen=True):
    records: Iterable[Record]


class _Iterations:
    """Combines iterations to one record, which comes before those of the same flush.

    So a file that is cut off has the time of each of its records.

    Args:
        first: number of the first iteration.
    """

    def __init__(self, first: int) -> None:
        self._first = self._next = first
        self._micros = bytearray()

    def add(self, micros: int) -> None:
        """Add the next iteration."""
        self._next += 1
        while micros > 0x7F:
            self._micros.append(0x80 | micros & 0x7F)
            micros >>= 7
        self._micros.append(micros)

    def take(self, *, first: int | None = None) -> list[Iterations]:
        """Return the record of what was added, if anything was, and begin again.

        Args:
            first: number of the next iteration, after a gap; None for no gap.
        """
        taken = [Iterations(self._first, bytes(self._micros))] if self._micros else []
        self._micros.clear()
        self._first = self._next = self._next if first is None else first
        return taken
