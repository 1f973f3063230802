"""Copies files from and to a container, with its ``tar``.

A copy is complete or absent: files are written beside their place, and renamed at the end.

Upstream: k8s.io/kubectl/pkg/cmd/cp/cp.go (v1.36)
Deviates: the exit status of tar counts, a folder never merges into another one, and a copy to a Pod needs ``mv`` and
``rm`` as well.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from posixpath import split
from typing import BinaryIO

import msgspec

from opsdk.aio.randomness import loop_uuid4
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.errors import ApiError, CopyError, InternalServerError, OpsdkError, ResponseLimitError, UsageError
from opsdk.pods.archive_entries import ArchiveEntries
from opsdk.pods.archive_reader import read_archive, write_entries
from opsdk.pods.archive_writer import archive_of
from opsdk.pods.command import exec_request, run_command
from opsdk.pods.command_output import OutputName
from opsdk.rest.transport import Transport
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Bytes of stderr in an error.
_MAX_STDERR = 2000
# Seconds to remove an incomplete copy. A cancelled task waits for it.
_REMOVAL_TIMEOUT = 5.0
_STAGING = ".opsdk-copy-"
# The exit status that a shell, and some container runtimes, give a program that is not there.
_NOT_RUN = frozenset({126, 127})


class CopyTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A container, and how long each program of a copy may take in it.

    Attributes:
        timeout: seconds for each program; None waits without limit.
    """

    transport: Transport
    pod: ObjectKey | str
    container: str
    timeout: float | None


async def copy_from(target: CopyTarget, source: str, destination: Path, *, max_bytes: int, max_files: int) -> None:
    """Copy a file or folder of a container. See `PodClient.copy_from`."""
    parent, name = _split(source)
    entries = ArchiveEntries(name, max_bytes=max_bytes, max_files=max_files)
    with _staging(destination) as folder, (folder / "archive").open("w+b") as archive:
        command = ["tar", "cf", "-", "-C", parent, f"./{name}"]
        await _run(target, command, take=_bounded(archive, max_bytes))
        await read_archive(archive, entries)
        await write_entries(archive, entries.in_order(), folder / "content")
        _rename(folder / "content", destination)


def _rename(path: Path, destination: Path) -> None:
    path.replace(destination)


def _split(path: str) -> tuple[str, str]:
    """Return the folder of a path in a container, and the last name; that is empty for a root folder.

    >>> _split("/var/lib/db/"), _split("a.txt"), _split("/"), _split("-x/y")
    (('/var/lib', 'db'), ('.', 'a.txt'), ('/', ''), ('./-x', 'y'))
    """
    if not path or "\0" in path:
        raise UsageError(f"the path in the container is {path!r}: write a path without NUL bytes, such as '/data/dump'")
    parent, name = split(path.rstrip("/") or "/")
    if name in {".", ".."}:
        parent, name = path, ""
    parent = parent or "."
    return (f"./{parent}" if parent.startswith("-") else parent), name


def _bounded(archive: BinaryIO, max_bytes: int) -> Callable[[bytes], None]:
    def take(data: bytes) -> None:
        if archive.tell() + len(data) > max_bytes:
            raise ResponseLimitError(
                f"the archive of the copied path has more than {max_bytes} bytes: pass a larger max_bytes, or copy less"
            )
        archive.write(data)

    return take


@contextmanager
def _staging(destination: Path) -> Iterator[Path]:
    """Yield a new folder beside the destination, and remove it at the end. An `OSError` becomes a `CopyError`."""
    if destination.is_dir():
        raise UsageError(f"the folder {destination} exists, and a copy never merges: name a path that does not exist")
    try:
        folder = Path(tempfile.mkdtemp(prefix=_STAGING, dir=destination.parent))
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
    except OSError as error:
        raise CopyError(f"cannot write {destination}: {error}") from error


async def copy_to(target: CopyTarget, source: Path, destination: str) -> None:
    """Copy a local file or folder into a container. See `PodClient.copy_to`."""
    parent, name = _split(destination)
    if not name:
        raise UsageError(f"the path in the container is {destination!r}: write the path that the copy gets")
    _check_source(source)
    staging = f"{_STAGING}{loop_uuid4()}"
    place = f"{parent.rstrip('/')}/{staging}"
    extract = ["tar", "xmf", "-", "-C", parent]
    try:
        await _run(target, extract, stdin=_readable(archive_of(source, f"{staging}/{name}")))
    except (_NotRunError, ApiError):  # tar did not start
        raise
    except BaseException:
        await _remove(target, place)
        raise
    try:
        # `mv` to the folder, not to the path: this replaces a file, but refuses a folder that is not empty.
        await _run(target, ["mv", "-f", f"{place}/{name}", f"{parent.rstrip('/')}/"])
    finally:
        await _remove(target, place)


def _check_source(source: Path) -> None:
    if not (source.exists() or source.is_symlink()):
        raise UsageError(f"there is no file {source} to copy")


async def _readable(archive: AsyncIterable[bytes]) -> AsyncIterable[bytes]:
    """Yield an archive of local files. An `OSError` becomes a `CopyError`."""
    try:
        async for data in archive:
            yield data
    except OSError as error:
        raise CopyError(f"cannot read a file to copy: {error}") from error


async def _remove(target: CopyTarget, place: str) -> None:
    """Remove what a copy left beside its place. A failure is logged, because it does not change what was copied."""
    removal = msgspec.structs.replace(target, timeout=_REMOVAL_TIMEOUT)
    try:
        await _run(removal, ["rm", "-rf", place])
    except OpsdkError as error:
        log.warning("a copy left %s in Pod %s: %s", place, target.pod, error)


class _NotRunError(CopyError):
    """The container has no such program."""


async def _run(
    target: CopyTarget,
    command: list[str],
    *,
    stdin: AsyncIterable[bytes] | None = None,
    take: Callable[[bytes], None] | None = None,
) -> None:
    """Run a program of a copy. Raises `CopyError` if it fails."""
    errors = bytearray()

    def receive(name: OutputName, data: bytes) -> None:
        if name == "stderr":
            errors.extend(data[: _MAX_STDERR - len(errors)])
        elif take is not None:
            take(data)

    request = exec_request(target.pod, command, container=target.container, has_stdin=stdin is not None)
    program = command[0]
    advice = f"a copy needs {program} in the container: add it to the image, or use exec with a program that is there"
    try:
        status = await run_command(target.transport, request, take=receive, stdin=stdin, timeout=target.timeout)
    except InternalServerError as error:
        raise _NotRunError(f"Pod {target.pod} did not run {program}: {advice} ({error})") from error
    text = errors.decode(errors="replace").strip()
    if status in _NOT_RUN:
        raise _NotRunError(f"Pod {target.pod} did not run {program}: {advice} ({text})")
    if status:
        raise CopyError(f"nothing was copied: {program} ended with status {status} in Pod {target.pod}: {text}")
