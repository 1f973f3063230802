"""Files of a recording: records in compressed frames, and which files have to go. Pure: the caller reads and writes.

A file is a sequence of frames. Each frame is complete in itself after a flush, so a file whose end is missing is
readable up to its last flush. All frames share one compression window, since objects repeat.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import IO, Final

import msgspec

from opsdk.base.version import VERSION
from opsdk.errors import OpsdkError
from opsdk.recording.records import FORMAT, Record

__all__ = [
    "FileContent",
    "FileEncoder",
    "RecordedFile",
    "RecordingError",
    "files_to_remove",
    "has_any",
    "read_records",
    "rewrite",
]

_MAGIC: Final = b"opsdk-recording "
_MAX_LINE: Final = 200
"""Bytes of the first line: magic, format, version of opsdk."""
_LENGTH_BYTES: Final = 4
_MAX_RECORD: Final = 64 << 20
"""Bytes of one record: larger ones are not read, since a length may be damaged."""
_MAX_CONTENT: Final = 512 << 20
"""Bytes of all records of a file: a small file may decompress to more than the memory."""
_PIECE: Final = 64 << 10
"""Compressed bytes that are read at once where a file is copied: a file may be larger than the memory."""
_STEP: Final = 256
"""Compressed bytes that are read at once before a damage."""
_LEVEL: Final = 3
"""Of the compression. Level 6 takes twice the CPU, and level 1 as much as 3, with more space."""


class RecordingError(OpsdkError):
    """A file is no recording, or one that this version cannot read."""


class FileEncoder:
    """Encodes the records of one file.

    >>> encoder = FileEncoder()
    >>> data = encoder.begin() + encoder.flush()
    >>> read_records(data).records
    ()
    """

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(_LEVEL)
        self._encoder = msgspec.msgpack.Encoder()

    def begin(self) -> bytes:
        """Return the first bytes of the file."""
        return _MAGIC + f"{FORMAT} {VERSION}\n".encode()

    def encode(self, *records: Record) -> bytes:
        """Return bytes of these records, or of those before them; the last ones come with `flush`."""
        # One call for all: each call of the compressor costs as much as a small record.
        frames = bytearray()
        for record in records:
            frame = self._encoder.encode(record)
            frames += len(frame).to_bytes(_LENGTH_BYTES, "big")
            frames += frame
        return self._compressor.compress(frames)

    def flush(self) -> bytes:
        """Return what is left: with these bytes, all records until now can be read."""
        return self._compressor.flush(zlib.Z_SYNC_FLUSH)

    def end(self) -> bytes:
        """Return the last bytes of the file."""
        return self._compressor.flush(zlib.Z_FINISH)


def has_any(source: IO[bytes], values: Sequence[bytes]) -> bool:
    """Whether the records of a file have one of some values."""
    longest = max(map(len, values), default=0)
    tail = b""
    source.readline(_MAX_LINE)
    decompressor = zlib.decompressobj()
    while values and (piece := source.read(_PIECE)):
        text = tail + decompressor.decompress(piece)
        if any(value in text for value in values):
            return True
        tail = text[-longest:]
    return False


def rewrite(source: IO[bytes], target: IO[bytes], change: Callable[[list[Record]], list[Record]]) -> None:
    """Copy a file with changed records. A file without an end has none afterwards."""
    target.write(source.readline(_MAX_LINE))
    encoder, decompressor = FileEncoder(), zlib.decompressobj()
    content, needed = bytearray(), 0
    while piece := source.read(_PIECE):
        content += decompressor.decompress(piece)
        if len(content) < needed:
            continue  # of one large record
        records, rest = _decode(bytes(content))
        del content[: len(content) - rest]
        needed = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "big")
        target.write(encoder.encode(*change(records)))
    target.write(encoder.end() if decompressor.eof else encoder.flush())


class FileContent(msgspec.Struct, frozen=True, kw_only=True):
    """What could be read of a file.

    Attributes:
        records: in order.
        is_complete: the file was ended; else its end is missing, or it is still written.
        problem: why reading stopped before the end; empty if it did not.
    """

    records: tuple[Record, ...]
    is_complete: bool
    problem: str = ""


def read_records(data: bytes) -> FileContent:
    """Return the records of a file. A file that is cut off has those up to its last flush.

    Raises:
        RecordingError: it is no recording, or one of another format.
    """
    compressed = _without_head(data)
    decompressor = zlib.decompressobj()
    problem = ""
    try:
        content = decompressor.decompress(compressed, _MAX_CONTENT)
        if decompressor.unconsumed_tail:
            problem = f"the file has more than {_MAX_CONTENT >> 20} MiB of records: the rest was not read"
    except zlib.error as error:
        content, problem = _before_damage(compressed), f"the file is damaged: {error}"
    records, rest = _decode(content)
    if not problem and rest and decompressor.eof:
        problem = f"the last {rest} bytes are no record"
    return FileContent(records=tuple(records), is_complete=decompressor.eof and not problem, problem=problem)


def _without_head(data: bytes) -> bytes:
    """Return the compressed records. Raises `RecordingError` for other files and other formats."""
    line, end, compressed = data.partition(b"\n")
    words = line.removeprefix(_MAGIC).decode("ascii", "replace").split()
    if not line.startswith(_MAGIC) or len(line) > _MAX_LINE or (end and len(words) != 2):
        raise RecordingError("this is no recording of opsdk: give a file that an operator has recorded")
    if not end:
        return b""
    if words[0] != str(FORMAT):
        raise RecordingError(
            f"the recording has format {words[0]}, and this version of opsdk reads format {FORMAT}: replay it with "
            f"opsdk {words[1]}"
        )
    return compressed


def _before_damage(compressed: bytes) -> bytes:
    """Return what can be decompressed before the first damaged byte."""
    decompressor = zlib.decompressobj()
    content = bytearray()
    for start in range(0, len(compressed), _STEP):
        try:
            content += decompressor.decompress(compressed[start : start + _STEP], _MAX_CONTENT)
        except zlib.error:
            break
        if len(content) >= _MAX_CONTENT:
            break
    return bytes(content)


def _decode(content: bytes) -> tuple[list[Record], int]:
    """Return the records of decompressed bytes, and the number of bytes behind them."""
    decoder = msgspec.msgpack.Decoder(Record)
    records: list[Record] = []
    place = 0
    while place + _LENGTH_BYTES <= len(content):
        length = int.from_bytes(content[place : place + _LENGTH_BYTES], "big")
        end = place + _LENGTH_BYTES + length
        if length > _MAX_RECORD or end > len(content):
            break
        try:
            records.append(decoder.decode(content[place + _LENGTH_BYTES : end]))
        except (msgspec.DecodeError, UnicodeDecodeError):
            break
        place = end
    return records, len(content) - place


class RecordedFile(msgspec.Struct, frozen=True):
    """A file of a recording.

    Attributes:
        name: of the file.
        size: in bytes.
        ended_at: when its last record was written, in seconds.
    """

    name: str
    size: int
    ended_at: float


def files_to_remove(
    files: Sequence[RecordedFile], *, now: float, max_bytes: int, max_seconds: float
) -> Sequence[RecordedFile]:
    """Return the files that have to go, oldest first.

    Args:
        files: of one recording, oldest first; the last one is still written, and stays.
        now: the time, in seconds.
        max_bytes: that all files may have together.
        max_seconds: largest age of a file's last record.

    >>> files = [RecordedFile("0", 40, 1.0), RecordedFile("1", 40, 2.0), RecordedFile("2", 40, 3.0)]
    >>> [each.name for each in files_to_remove(files, now=3.0, max_bytes=100, max_seconds=60.0)]
    ['0']
    """
    removed: list[RecordedFile] = []
    size = sum(each.size for each in files)
    for each in files[:-1]:
        if size <= max_bytes and now - each.ended_at <= max_seconds:
            break
        removed.append(each)
        size -= each.size
    return removed
