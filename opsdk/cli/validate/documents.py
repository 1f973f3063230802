"""Objects in YAML and JSON files, with the lines of their fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeGuard

from opsdk.apimachinery.serializer.documents import ParsedDocument, SyntaxProblemError
from opsdk.apimachinery.serializer.yaml_documents import read_located_documents
from opsdk.apimachinery.serializer.yaml_lines import FieldLines
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject, JsonValue

SUFFIXES: Final = (".yaml", ".yml", ".json")
"""Of the files that are read in a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One object of a file.

    Attributes:
        file: its path.
        tree: the object, as the API server parses it.
        lines: those of the file.
        repeated: keys that occur twice, as the server's strict decoding reports them.
    """

    file: str
    tree: JsonObject
    lines: FieldLines
    repeated: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """Kind, namespace and name."""
        metadata = self.tree.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        key = "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))
        return f"{self.tree['kind']} {key}".rstrip()

    def line(self, path: str) -> int:
        """Return the line of a field, from 1; of the nearest existing field above it if it is missing."""
        return self.lines.line_of(self.tree, path)


def files_of(path: Path) -> list[Path]:
    """Return a file, or the files in a folder and below that may have objects."""
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.rglob("*") if each.suffix in SUFFIXES and each.is_file())


def read_file(path: Path) -> bytes:
    """Return the bytes of a file. Raises `UsageError` if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def read_files(paths: Iterable[Path]) -> Iterator[Document]:
    """Yield the objects of files, and of the files in folders and below.

    Raises:
        UsageError: a file cannot be read, or as `read_documents`.
    """
    for path in paths:
        for file in files_of(path):
            yield from read_documents(str(file), read_file(file))


def read_documents(file: str, raw: bytes) -> Iterator[Document]:
    """Yield the objects of a file; those of a ``List`` one by one.

    Raises:
        UsageError: the text is not YAML, or a document is not an object. The message has file and line.
    """
    try:
        documents, lines = read_located_documents(raw)
    except SyntaxProblemError as error:
        raise UsageError(f"{file}:{error.line or 1}: {error.reason}") from error
    for document in documents:
        if document.tree is not None:
            yield from _objects(file, document, lines)


def _objects(file: str, document: ParsedDocument, lines: FieldLines) -> Iterator[Document]:
    tree = document.tree
    if not _is_object(tree):
        where = f"{file}:{lines.line_of(tree, '') or 1}"
        raise UsageError(f"{where}: the document is not an object: it needs apiVersion and kind")
    items = tree.get("items")
    if tree["kind"] != "List" or not isinstance(items, list):
        yield Document(file=file, tree=tree, lines=lines, repeated=document.complaints)
        return
    for index, item in enumerate(items):
        if not _is_object(item):
            line = lines.line_of(tree, f"items[{index}]")
            raise UsageError(f"{file}:{line}: the item is not an object: it needs apiVersion and kind")
        yield Document(file=file, tree=item, lines=lines)


def _is_object(tree: JsonValue) -> TypeGuard[JsonObject]:
    return isinstance(tree, dict) and all(isinstance(tree.get(key), str) for key in ("apiVersion", "kind"))
