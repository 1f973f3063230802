"""Reads a tar archive that a container sent, and writes its files.

It never trusts the archive: see `opsdk.pods.archive_entries`. Everything happens in short steps of the event loop, so
that a run in virtual time repeats exactly.
"""

from __future__ import annotations

import asyncio
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from opsdk.errors import CopyError
from opsdk.pods.archive_entries import ArchiveEntries, ArchiveEntry, EntryKind

# Bytes of all headers of one entry. tarfile keeps them in memory; a path has at most 4 KiB.
_MAX_HEADERS = 64 * 1024
# Bytes that are copied before other tasks run.
_PIECE = 256 * 1024
# Entries that are read before other tasks run.
_ENTRIES = 100


class _Headers:
    """The part of an archive that `tarfile` reads: headers, of a limited size for each entry."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.remaining = _MAX_HEADERS
        self.tell = file.tell
        self.seek = file.seek

    def read(self, size: int) -> bytes:
        if not 0 <= size <= self.remaining:
            raise CopyError(
                f"nothing was copied: an entry of the archive has more than {_MAX_HEADERS} bytes of headers"
            )
        self.remaining -= size
        return self._file.read(size)


async def read_archive(file: BinaryIO, entries: ArchiveEntries) -> None:
    """Add all entries of an archive.

    Raises:
        CopyError: the archive is damaged, ends too early, or has an entry that is refused.
        ResponseLimitError: it exceeds a limit.
    """
    for count, member in enumerate(_members(file)):
        entries.add(member)
        if not count % _ENTRIES:
            await asyncio.sleep(0)


def _members(file: BinaryIO) -> Iterator[tarfile.TarInfo]:
    """Yield the headers of an archive. One that ends without its mark is an error: tarfile takes it for complete."""
    file.seek(0)
    headers = _Headers(file)
    try:
        archive = tarfile.TarFile(fileobj=cast("BinaryIO", headers))
        while (member := archive.next()) is not None:
            yield member
            # tarfile keeps all headers in memory otherwise.
            archive.members.clear()  # type: ignore[attr-defined] # not in typeshed
            archive.pax_headers = {}
            headers.remaining = _MAX_HEADERS
        file.seek(archive.offset)
        end = file.read(tarfile.BLOCKSIZE)
    except (tarfile.TarError, ArithmeticError, AttributeError, LookupError, RecursionError, ValueError) as error:
        raise CopyError(f"nothing was copied: the container's archive is damaged: {error}") from error
    if end != bytes(tarfile.BLOCKSIZE):
        raise CopyError("nothing was copied: the container's archive is damaged, or ends too early")


async def write_entries(file: BinaryIO, entries: list[ArchiveEntry], root: Path) -> None:
    """Create the entries below a path that does not exist. Raises `CopyError` for an early end, and `OSError`."""
    for count, entry in enumerate(entries):
        path = root / entry.path if entry.path else root
        match entry.kind:
            case EntryKind.DIRECTORY:
                path.mkdir()
            case EntryKind.FILE:
                await _write_file(file, entry, path)
            case EntryKind.HARD_LINK:
                os.link(root / entry.link, path)
            case EntryKind.SYMLINK:
                path.symlink_to(entry.link)
        if not count % _ENTRIES:
            await asyncio.sleep(0)


async def _write_file(file: BinaryIO, entry: ArchiveEntry, path: Path) -> None:
    file.seek(entry.offset)
    remaining = entry.size
    with path.open("xb") as copy:
        while remaining:
            data = file.read(min(remaining, _PIECE))
            if not data:
                raise CopyError(f"nothing was copied: the container's archive ends inside of {entry.path!r}")
            copy.write(data)
            remaining -= len(data)
            await asyncio.sleep(0)
        os.fchmod(copy.fileno(), entry.mode)
