"""Reads CustomResourceDefinitions for commands: from files, folders, URLs, and archives of releases."""

from __future__ import annotations

import io
import re
import sys
import tarfile
import urllib.request
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from opsdk.apimachinery.serializer.documents import SyntaxProblemError
from opsdk.apimachinery.serializer.yaml_documents import read_documents
from opsdk.cli.generate.served_definitions import definitions_among, why_refused
from opsdk.cli.validate.documents import SUFFIXES, files_of, read_file
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject

_GITHUB: Final = re.compile(r"github:(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)@(?P<tag>[^/\s]+)(?:/(?P<folder>.*))?")
_ARCHIVE: Final = "https://codeload.github.com/{owner}/{name}/tar.gz/refs/tags/{tag}"
_GZIP: Final = b"\x1f\x8b"
# Seconds, and bytes: the archive of a large project has 100 MB, a file of definitions 4 MB.
_TIMEOUT = 60.0
_MAX_BYTES = 512 << 20
_MAX_FILE_BYTES = 64 << 20


class Remote(NamedTuple):
    """A download.

    Attributes:
        url: of a file, or of an archive (tar, gzip).
        folder: of the archive, below its first folder; empty for all of it.
    """

    url: str
    folder: str = ""


class SourceFile(NamedTuple):
    """A file that may have definitions."""

    name: str
    raw: bytes


def remote_of(source: str) -> Remote | None:
    """Return what a source downloads; None for a path.

    >>> remote_of("github:cert-manager/cert-manager@v1.18.2/deploy/crds").url
    'https://codeload.github.com/cert-manager/cert-manager/tar.gz/refs/tags/v1.18.2'
    >>> remote_of("config/crd") is None
    True

    Raises:
        UsageError: it begins with ``github:`` and has another form.
    """
    if source.startswith(("https://", "http://")):
        return Remote(source)
    if not source.startswith("github:"):
        return None
    match = _GITHUB.fullmatch(source)
    if match is None:
        raise UsageError(f"{source!r} is not github:OWNER/NAME@TAG or github:OWNER/NAME@TAG/FOLDER")
    return Remote(_ARCHIVE.format(**match.groupdict()), (match["folder"] or "").strip("/"))


def read_definitions(source: str) -> list[JsonObject]:
    """Return the CustomResourceDefinitions of a source, also those in a List; other objects are skipped.

    A definition that no server takes is left out, with a line on stderr; so is a file of a folder or archive that is
    not YAML, such as a template.

    Args:
        source: a file, a folder, a URL, or ``github:OWNER/NAME@TAG/FOLDER``.

    Raises:
        UsageError: it cannot be read, has no definition that a server takes, or two that differ have one name.
    """
    remote = remote_of(source)
    files, is_single = _downloaded(remote) if remote else _local(Path(source))
    definitions: dict[str, tuple[str, JsonObject]] = {}
    for file in files:
        try:
            documents = read_documents(file.raw)
        except SyntaxProblemError as error:
            if is_single:
                raise UsageError(f"{file.name} cannot be read: {error}") from error
            print(f"opsdk: {file.name} is left out: {error}", file=sys.stderr)
            continue
        for definition in definitions_among(documents):
            if reason := why_refused(definition):
                print(f"opsdk: {file.name}: {reason}", file=sys.stderr)
                continue
            _add(definitions, file.name, definition)
    if not definitions:
        raise UsageError(f"{source} has no CustomResourceDefinition that a server takes")
    return [definition for _, definition in definitions.values()]


def read_all_definitions(sources: Iterable[str]) -> list[JsonObject]:
    """Return the definitions of several sources, each as `read_definitions` reads it."""
    return [definition for source in sources for definition in read_definitions(source)]


def _add(definitions: dict[str, tuple[str, JsonObject]], file: str, definition: JsonObject) -> None:
    name = definition["metadata"]["name"]
    first, existing = definitions.setdefault(name, (file, definition))
    if existing != definition:
        raise UsageError(f"{first} and {file} have different definitions of {name}: name the file, or its folder")


def _local(path: Path) -> tuple[Iterator[SourceFile], bool]:
    """Return the files of a path, and whether it is one file."""
    return (SourceFile(str(file), read_file(file)) for file in files_of(path)), not path.is_dir()


def _downloaded(remote: Remote) -> tuple[Iterator[SourceFile], bool]:
    """Return the files of a download, and whether it is one file."""
    try:
        # Only http and https get here. The proxies are those of the environment.
        with urllib.request.urlopen(remote.url, timeout=_TIMEOUT) as response:  # noqa: S310
            raw = response.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # urllib's errors are OSErrors
        raise UsageError(f"{remote.url} cannot be downloaded: {error}: download it, and pass the file") from error
    if len(raw) > _MAX_BYTES:
        raise UsageError(f"{remote.url} has more than {_MAX_BYTES >> 20} MiB: download it, and pass a folder of it")
    if not raw.startswith(_GZIP):
        return iter([SourceFile(remote.url, raw)]), True
    return _unpacked(remote, raw), False


def _unpacked(remote: Remote, raw: bytes) -> Iterator[SourceFile]:
    """Yield the YAML and JSON files of an archive. Nothing is written to the disk."""
    try:
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:gz") as archive:
            for member in archive:
                _, _, path = member.name.partition("/")
                is_inside = not remote.folder or path == remote.folder or path.startswith(f"{remote.folder}/")
                if not (member.isfile() and is_inside and path.endswith(SUFFIXES)):
                    continue
                if member.size > _MAX_FILE_BYTES:
                    raise UsageError(f"{path} of {remote.url} has more than {_MAX_FILE_BYTES >> 20} MiB")
                content = archive.extractfile(member)
                if content is not None:
                    yield SourceFile(path, content.read())
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise UsageError(f"{remote.url} is not an archive that can be read: {error}") from error
