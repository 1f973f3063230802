"""Positions in a JSON tree: field paths as error messages print them, and JSON pointers (RFC 6901).

Upstream: k8s.io/apimachinery/pkg/util/validation/field/path.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from opsdk.structured_merge.value import JsonValue

MISSING: Final = object()
"""Default result of `get_path` for a missing value, because None is a JSON value."""


@dataclass(frozen=True, slots=True)
class FieldPath:
    """An immutable field path for messages (``field.Path``).

    >>> str(FieldPath("spec").child("containers").index(0).child("name"))
    'spec.containers[0].name'
    >>> str(FieldPath("metadata", "labels").key("a/b"))
    'metadata.labels[a/b]'
    """

    text: str = ""

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "text", ".".join(name for name in names if name))

    def child(self, *names: str) -> FieldPath:
        """Return the path of a field below this path."""
        return FieldPath(self.text, *names)

    def index(self, index: int) -> FieldPath:
        """Return the path of a list element."""
        return FieldPath(f"{self.text}[{index}]")

    def key(self, key: str) -> FieldPath:
        """Return the path of a map entry."""
        return FieldPath(f"{self.text}[{key}]")

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return bool(self.text)


def unescape_part(part: str) -> str:
    """Resolve ``~1`` and ``~0`` in one part of a pointer, in this order (RFC 6901, section 4)."""
    return part.replace("~1", "/").replace("~0", "~")


def format_pointer(parts: Iterable[str | int]) -> str:
    """Return the JSON pointer of these parts.

    >>> format_pointer(["metadata", "annotations", "example.com/a"])
    '/metadata/annotations/example.com~1a'
    """
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def get_path(tree: JsonValue, parts: Sequence[str | int], default: JsonValue = MISSING) -> JsonValue:
    """Return the value at `parts` below `tree`, or `default`. An int selects in a list, a str in an object.

    >>> get_path({"spec": {"ports": [{"port": 80}]}}, ["spec", "ports", 0, "port"])
    80
    """
    for part in parts:
        if isinstance(tree, dict):
            if part not in tree:
                return default
        elif not (isinstance(tree, list) and isinstance(part, int) and -len(tree) <= part < len(tree)):
            return default
        tree = tree[part]
    return tree
