"""Places in a tree: field paths as error messages print them, and JSON pointers (RFC 6901)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from opsdk.errors import PatchError

MISSING: Final = object()
"""What `get_path` returns by default where there is nothing: None is a JSON value."""


@dataclass(frozen=True, slots=True)
class FieldPath:
    """An immutable path for messages.

    >>> str(FieldPath("spec").child("containers").index(0).child("name"))
    'spec.containers[0].name'
    >>> str(FieldPath("metadata", "labels").key("a/b"))
    'metadata.labels[a/b]'
    """

    text: str = ""

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "text", ".".join(name for name in names if name))

    def child(self, *names: str) -> FieldPath:
        """The path of a field below this one."""
        return FieldPath(self.text, *names)

    def index(self, index: int) -> FieldPath:
        """The path of a list element."""
        return FieldPath(f"{self.text}[{index}]")

    def key(self, key: str) -> FieldPath:
        """The path of a map entry, whose key is data rather than a field's name."""
        return FieldPath(f"{self.text}[{key}]")

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return bool(self.text)


def parse_pointer(pointer: str) -> tuple[str, ...]:
    """The unescaped parts of a JSON pointer; the empty pointer is the whole document.

    >>> parse_pointer("/metadata/annotations/example.com~1a")
    ('metadata', 'annotations', 'example.com/a')

    Raises:
        PatchError: the pointer does not start with a slash.
    """
    if not pointer:
        return ()
    if not pointer.startswith("/"):
        raise PatchError(f"JSON pointer {pointer!r} must be empty or start with '/'", path=pointer)
    return tuple(unescape_part(part) for part in pointer[1:].split("/"))


def unescape_part(part: str) -> str:
    """One part of a pointer, with ``~1`` and ``~0`` resolved in the one order that is right."""
    return part.replace("~1", "/").replace("~0", "~")


def format_pointer(parts: Iterable[str | int]) -> str:
    """The JSON pointer for these parts.

    >>> format_pointer(["metadata", "annotations", "example.com/a"])
    '/metadata/annotations/example.com~1a'
    """
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def get_path(tree: Any, parts: Sequence[str | int], default: Any = MISSING) -> Any:
    """What stands at `parts` below `tree`, or `default`; an int selects in a list, a str in an object.

    >>> get_path({"spec": {"ports": [{"port": 80}]}}, ["spec", "ports", 0, "port"])
    80
    """
    for part in parts:
        if not _has(tree, part):
            return default
        tree = tree[part]
    return tree


def _has(tree: Any, part: str | int) -> bool:
    if isinstance(tree, dict):
        return part in tree
    return isinstance(tree, list) and isinstance(part, int) and -len(tree) <= part < len(tree)
