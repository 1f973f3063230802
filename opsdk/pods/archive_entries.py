"""Which entries of a container's tar archive may be written to the local disk. Pure.

The rules are stricter than those of ``tarfile.data_filter``, whose versions before Python 3.11.13 can be led outside by
chains of links. Here no entry lies behind a link, and links are created last: no write follows one.

Upstream: k8s.io/kubectl/pkg/cmd/cp/cp.go (v1.36)
Deviates: kubectl skips entries that are links; here links inside the copied folder are kept, others are errors.
"""

from __future__ import annotations

import tarfile
from enum import Enum
from pathlib import PurePosixPath

import msgspec

from opsdk.errors import CopyError, ResponseLimitError

# Bytes: PATH_MAX of Linux.
_MAX_NAME = 4096
_QUOTED = 120


class EntryKind(Enum):
    """What an entry creates."""

    DIRECTORY = "directory"
    """A directory, which may also be implied by an entry below it."""
    FILE = "file"
    """A regular file."""
    HARD_LINK = "hard link"
    """A second name of a regular file of the same archive."""
    SYMLINK = "symlink"
    """A relative link to a path inside the copied folder."""


class ArchiveEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry to be written.

    Attributes:
        path: relative to the destination; empty for the destination itself.
        offset: where its bytes begin in the archive.
        mode: permissions, never writable for others.
        link: the target of a symlink, or the `path` of a hard link's file.
    """

    path: str
    kind: EntryKind
    offset: int = 0
    size: int = 0
    mode: int = 0o600
    link: str = ""


class ArchiveEntries:
    """Checks the entries of an archive one after the other, and gathers them.

    Args:
        root: the name that all entries begin with; empty if they begin with none.
        max_bytes: of all files together.
        max_files: entries, with the directories that they imply.
    """

    def __init__(self, root: str, *, max_bytes: int, max_files: int) -> None:
        self._root = (root,) if root else ()
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._size = 0
        self._entries: dict[str, ArchiveEntry] = {}

    def add(self, member: tarfile.TarInfo) -> None:
        """Take an entry.

        Raises:
            CopyError: the entry would write outside of the destination, or is no file, directory or link.
            ResponseLimitError: the archive exceeds a limit.
        """
        path = self._path_of(member.name, member)
        self._add_parents(path, member)
        entry = self._entry_of(path, member)
        existing = self._entries.get(path)
        if existing is not None and not existing.kind is entry.kind is EntryKind.DIRECTORY:
            raise _refusal(member, "has the same path as another entry")
        self._keep(entry)

    def in_order(self) -> list[ArchiveEntry]:
        """Return the entries in the order to write them: directories, files, hard links, symlinks.

        Raises `CopyError` if there are none.
        """
        if not self._entries:
            raise CopyError("the container sent an archive without entries: check the path")
        order = list(EntryKind)
        return sorted(self._entries.values(), key=lambda entry: (order.index(entry.kind), entry.path))

    def _path_of(self, name: str, member: tarfile.TarInfo) -> str:
        """Return a name of the archive relative to the destination."""
        if "\0" in name or len(name.encode(errors="surrogateescape")) > _MAX_NAME:
            raise _refusal(member, "has a path that is too long or has a NUL byte")
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise _refusal(member, f"leads outside of the copied path by {_quoted(name)}")
        if path.parts[: len(self._root)] != self._root:
            raise _refusal(member, "lies outside of the copied path")
        return "/".join(path.parts[len(self._root) :])

    def _add_parents(self, path: str, member: tarfile.TarInfo) -> None:
        parts = path.split("/") if path else []
        for parent in ("/".join(parts[:end]) for end in range(len(parts))):
            existing = self._entries.get(parent)
            if existing is None:
                self._keep(ArchiveEntry(path=parent, kind=EntryKind.DIRECTORY))
            elif existing.kind is not EntryKind.DIRECTORY:
                raise _refusal(member, f"lies below the {existing.kind.value} {_quoted(parent)}")

    def _keep(self, entry: ArchiveEntry) -> None:
        self._entries[entry.path] = entry
        if len(self._entries) > self._max_files:
            raise ResponseLimitError(
                f"the copied path has more than {self._max_files} files: pass a larger max_files, or copy less"
            )

    def _entry_of(self, path: str, member: tarfile.TarInfo) -> ArchiveEntry:
        if member.isdir():
            return ArchiveEntry(path=path, kind=EntryKind.DIRECTORY)
        if member.issym():
            return ArchiveEntry(path=path, kind=EntryKind.SYMLINK, link=_checked_target(path, member))
        if member.islnk():
            target = self._entries.get(self._path_of(member.linkname, member))
            if target is None or target.kind is not EntryKind.FILE:
                raise _refusal(member, f"is a hard link to {_quoted(member.linkname)}, no earlier file of the archive")
            return ArchiveEntry(path=path, kind=EntryKind.HARD_LINK, link=target.path)
        if not member.isreg() or member.issparse():
            raise _refusal(member, "is a device, a FIFO or a sparse file")
        if member.size < 0:
            raise _refusal(member, "has a negative size")
        self._size += member.size
        if self._size > self._max_bytes:
            raise ResponseLimitError(
                f"with {_quoted(member.name)}, of {member.size} bytes, the copied path has more than "
                f"{self._max_bytes} bytes: pass a larger max_bytes, or copy less"
            )
        mode = member.mode & 0o755 | 0o600
        return ArchiveEntry(path=path, kind=EntryKind.FILE, offset=member.offset_data, size=member.size, mode=mode)

    def __repr__(self) -> str:
        return f"<ArchiveEntries: {len(self._entries)} entries, {self._size} bytes>"


def _checked_target(path: str, member: tarfile.TarInfo) -> str:
    """Return the target of a symlink. ``..`` may only lead it, because behind another link it has another meaning."""
    target = member.linkname
    if not path:
        raise _refusal(member, f"is itself a link to {_quoted(target)}: copy that path")
    parts = [part for part in target.split("/") if part not in {"", "."}]
    ups = next((place for place, part in enumerate(parts) if part != ".."), len(parts))
    if not target or "\0" in target or target.startswith("/") or ".." in parts[ups:] or ups > path.count("/"):
        raise _refusal(member, f"is a link out of the copied path, to {_quoted(target)}: copy that path by itself")
    return target


def _refusal(member: tarfile.TarInfo, why: str) -> CopyError:
    return CopyError(f"nothing was copied: the archive's entry {_quoted(member.name)} {why}")


def _quoted(name: str) -> str:
    return repr(name if len(name) <= _QUOTED else f"{name[:_QUOTED]}...")
