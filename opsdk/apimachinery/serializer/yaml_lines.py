"""Lines of the fields of a YAML document. Pure."""

from __future__ import annotations

import re
from typing import Final

from opsdk.structured_merge.value import JsonValue

_INDEX: Final = re.compile(r"\[(\d+)\]")


class FieldLines:
    """The lines of the fields of a document, from 1, by the identity of the mapping or list that has them.

    Its trees must stay alive and unchanged. Copies that an alias makes have no lines of their own.
    """

    def __init__(self) -> None:
        self._starts: dict[int, int] = {}
        self._members: dict[int, dict[str, int] | list[int]] = {}

    def add(self, value: JsonValue, start: int, members: dict[str, int] | list[int]) -> None:
        """Note the line of a mapping or list, and those of its members."""
        self._starts[id(value)] = start
        self._members[id(value)] = members

    def line_of(self, tree: JsonValue, path: str) -> int:
        """Return the line of a field such as ``spec.ports[0].name`` or ``metadata.labels[a/b]``.

        If the field is missing, it is the line of the nearest existing field above it; 0 if none is known.
        """
        line = self._starts.get(id(tree), 0)
        while path:
            step = self._step(tree, path.removeprefix("."))
            if step is None:
                break
            step_line, tree, path = step
            line = step_line or line
        return line

    def _step(self, tree: JsonValue, path: str) -> tuple[int, JsonValue, str] | None:
        """Return line, value and rest of a path below a value; None if the value has no such field."""
        lines = self._members.get(id(tree))
        if isinstance(tree, list):
            match = _INDEX.match(path)
            if match is None or int(match[1]) >= len(tree):
                return None
            index = int(match[1])
            return lines[index] if isinstance(lines, list) else 0, tree[index], path[match.end() :]
        if not isinstance(tree, dict):
            return None
        # The longest key counts: names of fields may have dots.
        for key in sorted(tree, key=len, reverse=True):
            for form in (key, f"[{key}]"):
                if path.startswith(form) and path[len(form) : len(form) + 1] in ("", ".", "["):
                    return lines.get(key, 0) if isinstance(lines, dict) else 0, tree[key], path[len(form) :]
        return None
