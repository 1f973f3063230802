"""Archives that a container sends: what is written stays inside of the destination."""

from __future__ import annotations

import asyncio
import io
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opsdk.errors import CopyError, OpsdkError
from opsdk.pods.archive_entries import ArchiveEntries
from opsdk.pods.archive_reader import read_archive, write_entries

WORDS = st.lists(st.sampled_from(["a", "b", "..", "."]), max_size=4).map("/".join)
TYPES = st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE])
MEMBERS = st.lists(st.tuples(WORDS, TYPES, WORDS), max_size=6)


def member(name: str, kind: bytes, link: str) -> tarfile.TarInfo:
    """The header of an entry."""
    info = tarfile.TarInfo(f"./{name}")
    info.type, info.linkname = kind, link
    return info


def archive_with(members: list[tarfile.TarInfo]) -> bytes:
    """An archive of entries whose files have a few bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info in members:
            info.size = 3 if info.isreg() else 0
            archive.addfile(info, io.BytesIO(b"abc") if info.isreg() else None)
    return buffer.getvalue()


def extract(data: bytes, root: Path) -> None:
    """Write what an archive has."""

    async def run() -> None:
        file = io.BytesIO(data)
        entries = ArchiveEntries("", max_bytes=10_000, max_files=100)
        await read_archive(file, entries)
        await write_entries(file, entries.in_order(), root)

    asyncio.run(run())


@given(MEMBERS)
@example([("a", tarfile.SYMTYPE, "."), ("b", tarfile.SYMTYPE, "a/a/..")])
@example([("a/b", tarfile.REGTYPE, ""), ("b", tarfile.SYMTYPE, "a"), ("a/a", tarfile.SYMTYPE, "../b/b")])
def test_what_is_written_stays_inside(members: list[tuple[str, bytes, str]]) -> None:
    """Any entries are refused, or each path that they create leads to a place inside of the destination."""
    with tempfile.TemporaryDirectory() as folder:
        outer = Path(folder).resolve() / "outer"
        outer.mkdir()
        root = outer / "root"
        try:
            extract(archive_with([member(*each) for each in members]), root)
        except OpsdkError:
            assert not root.exists()
            return
        assert [path.name for path in outer.iterdir()] == ["root"]
        for path in [root, *root.rglob("*")]:
            try:
                target = path.resolve()
            except (RuntimeError, OSError):  # links that lead to each other
                assert path.is_symlink()
                continue
            assert target.is_relative_to(root)


@given(st.integers(0, 0o7777))
def test_a_file_never_gets_dangerous_permissions(mode: int) -> None:
    """No mode of an entry makes a file setuid, or writable for others; its owner can read and write it."""
    info = member("a", tarfile.REGTYPE, "")
    info.mode = mode
    entries = ArchiveEntries("", max_bytes=10, max_files=10)
    entries.add(info)
    stored = next(entry.mode for entry in entries.in_order() if entry.path == "a")
    assert not stored & ~0o755
    assert stored & 0o600 == 0o600


def test_headers_of_one_entry_are_bounded() -> None:
    """A chain of extension headers before one entry is an error, however small each of them is."""
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XGLTYPE, 512
    chain = (header.tobuf(tarfile.USTAR_FORMAT) + b"11 a=bcdef\n".ljust(512, b"\0")) * 200
    with tempfile.TemporaryDirectory() as folder, pytest.raises(CopyError, match="bytes of headers"):
        extract(chain + bytes(1024), Path(folder) / "root")


SAMPLE = archive_with(
    [
        member("a" * 200, tarfile.REGTYPE, ""),
        member("b", tarfile.SYMTYPE, "a" * 200),
        member("é" * 90, tarfile.DIRTYPE, ""),
        member("c", tarfile.REGTYPE, ""),
    ]
)


@given(st.lists(st.tuples(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255)), max_size=6), st.integers(0, 10))
def test_a_damaged_archive_is_a_typed_error(changes: list[tuple[int, int]], kind: int) -> None:
    """Any changed bytes are read, or refused with an error of the SDK. Checksums are made right, so that they pass."""
    data = bytearray(SAMPLE)
    for place, value in changes:
        data[place] = value
    for start in range(0, len(data), 512):
        block = data[start : start + 512]
        if block[257:262] == b"ustar":
            if not kind:
                block[156:157] = b"S"
            block[148:156] = b"%06o\0 " % tarfile.calc_chksums(block)[0]  # type: ignore[attr-defined] # not in typeshed
            data[start : start + 512] = block
    # OSError: a name that this disk refuses.
    with tempfile.TemporaryDirectory() as folder, suppress(OpsdkError, OSError):
        extract(bytes(data), Path(folder) / "root")
