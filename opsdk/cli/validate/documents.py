"""Objects in YAML and JSON files, with the lines of their fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from opsdk.apimachinery.serializer.documents import SyntaxProblemError
from opsdk.apimachinery.serializer.yaml_documents import parse_yaml
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
SUFFIXES: Final = (".yaml", ".yml", ".json")
"""Of the files that are read in a folder."""
_INDEX: Final = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One object of a file.

    Attributes:
        file: its path.
        tree: the object, as the API server parses it.
        node: the root of the YAML document, or the item of a list; it has the lines.
        repeated: keys that occur twice, as the server's strict decoding reports them.
    """

    file: str
    tree: JsonObject
    node: yaml.Node
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
        return line_of(self.node, path)


def read_files(paths: Iterable[Path]) -> Iterator[Document]:
    """Yield the objects of files, and of the files in folders and below.

    Raises:
        UsageError: a file cannot be read, or as `read_documents`.
    """
    for path in paths:
        files = sorted(each for each in path.rglob("*") if each.suffix in SUFFIXES) if path.is_dir() else [path]
        for file in files:
            try:
                text = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(f"{file} cannot be read: {error}") from error
            yield from read_documents(str(file), text)


def read_documents(file: str, text: str) -> Iterator[Document]:
    """Yield the objects of a file; those of a ``List`` one by one.

    Raises:
        UsageError: the text is not YAML, or a document is not an object. The message has file and line.
    """
    try:
        nodes = list(yaml.compose_all(text, _LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise UsageError(f"{file}:{mark.line + 1 if mark else 1}: {error.problem or error}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{file}: {error}") from error
    lines = text.splitlines(keepends=True)
    for number, node in enumerate(nodes):
        if node.tag == "tag:yaml.org,2002:null":
            continue
        start = node.start_mark
        end = nodes[number + 1].start_mark.line if number + 1 < len(nodes) else len(lines)
        # A document may begin on the line of its separator: `--- {kind: ...}`.
        body = " " * start.column + lines[start.line][start.column :] + "".join(lines[start.line + 1 : end])
        yield from _objects(file, node, body)


def _objects(file: str, node: yaml.Node, body: str) -> Iterator[Document]:
    where = f"{file}:{node.start_mark.line + 1}"
    try:
        parsed = parse_yaml(body.encode())
    except SyntaxProblemError as error:
        raise UsageError(f"{where}: {error}") from error
    tree = parsed.tree
    if not isinstance(tree, dict) or not all(isinstance(tree.get(key), str) for key in ("apiVersion", "kind")):
        raise UsageError(f"{where}: the document is not an object: it needs apiVersion and kind")
    items = tree.get("items")
    if tree["kind"] != "List" or not isinstance(items, list):
        yield Document(file=file, tree=tree, node=node, repeated=tuple(parsed.complaints))
        return
    item_nodes = next(value.value for key, value in node.value if key.value == "items")
    for item, item_node in zip(items, item_nodes, strict=True):
        if not isinstance(item, dict) or not all(isinstance(item.get(key), str) for key in ("apiVersion", "kind")):
            line = item_node.start_mark.line + 1
            raise UsageError(f"{file}:{line}: the item is not an object: it needs apiVersion and kind")
        yield Document(file=file, tree=item, node=item_node)


def line_of(node: yaml.Node, path: str) -> int:
    r"""Return the line of a field path such as ``spec.ports[0].name`` or ``metadata.labels[a/b]``, from 1.

    >>> line_of(yaml.compose("a:\n- b: 1\n  c.d: 2", yaml.SafeLoader), "a[0].c.d")
    3
    """
    line = node.start_mark.line
    while path:
        step = _step(node, path.removeprefix("."))
        if step is None:
            break
        line, node, path = step
    return line + 1


def _step(node: yaml.Node, path: str) -> tuple[int, yaml.Node, str] | None:
    """Return line, node and rest of a path below a node; None if the node has no such field."""
    if isinstance(node, yaml.SequenceNode):
        match = _INDEX.match(path)
        if match is None or int(match[1]) >= len(node.value):
            return None
        item = node.value[int(match[1])]
        return item.start_mark.line, item, path[match.end() :]
    if not isinstance(node, yaml.MappingNode):
        return None
    # The longest key counts: names of fields may have dots.
    for key, value in sorted(node.value, key=lambda pair: -len(str(pair[0].value))):
        for form in (str(key.value), f"[{key.value}]"):
            if path.startswith(form) and path[len(form) : len(form) + 1] in ("", ".", "["):
                return key.start_mark.line, value, path[len(form) :]
    return None
