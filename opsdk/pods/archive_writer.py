"""Writes local files as a tar archive, piece by piece."""

from __future__ import annotations

import stat
import tarfile
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

from opsdk.errors import CopyError

_PIECE = 32 * 1024


async def archive_of(source: Path, name: str) -> AsyncGenerator[bytes, None]:
    """Yield the archive of a file or folder, as entries below `name`. Owners and times are not in it.

    Raises:
        CopyError: a file changed its size meanwhile, or is a device, a socket or a FIFO.
        OSError: a file cannot be read.
    """
    for path in _walk(source):
        relative = path.relative_to(source).as_posix()
        header = _header(path, name if relative == "." else f"{name}/{relative}")
        # GNU's form of long names: busybox ignores that of POSIX.
        yield header.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
        if header.isreg():
            for data in _contents(path, header.size):
                yield data
            yield bytes(-header.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _walk(path: Path) -> Iterator[Path]:
    """Yield a path and everything below it, in the order of names. Links are not followed."""
    yield path
    if path.is_dir() and not path.is_symlink():
        for child in sorted(path.iterdir()):
            yield from _walk(child)


def _header(path: Path, name: str) -> tarfile.TarInfo:
    status = path.lstat()
    header = tarfile.TarInfo(name)
    header.mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISDIR(status.st_mode):
        header.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(status.st_mode):
        header.type = tarfile.SYMTYPE
        header.linkname = str(path.readlink())
    elif stat.S_ISREG(status.st_mode):
        header.size = status.st_size
    else:
        raise CopyError(f"{path} is a device, a socket or a FIFO: copy the files beside it one by one")
    return header


def _contents(path: Path, size: int) -> Iterator[bytes]:
    remaining = size
    with path.open("rb") as file:
        while remaining:
            if not (data := file.read(min(remaining, _PIECE))):
                raise CopyError(f"{path} became shorter while it was read: copy it again")
            remaining -= len(data)
            yield data
