"""Makes Markdown of what docstrings contain beside Markdown: doctests and literal blocks.

A doctest would become a nested quotation, and the ``::`` before a literal block a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import griffe

_DOCTEST = re.compile(r"^(?P<indent> *)>>> ")
_LITERAL_BLOCK = re.compile(r"(^|(?<=[\w`)]))::$")


_MAINTAINER_NOTE = re.compile(r"^[ ]*(?:Upstream|Deviates): .*(?:\n[ ]*\S.*)*\n?", re.MULTILINE)
"""The paragraph of a note, to the next empty line."""


class DoctestExtension(griffe.Extension):
    """An extension of griffe, which reads the docstrings for mkdocstrings."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object after it is collected."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(without_maintainer_notes(obj.docstring.value))
            if isinstance(obj, griffe.Class):
                obj.docstring.value += fields_block(obj)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Remove private fields before griffe makes signatures of fields: their owner sets them, no caller does."""
        for cls in classes_of(pkg):
            for name in [name for name, member in cls.members.items() if member.is_attribute]:
                if name.startswith("_") and not name.startswith("__") and name != "_":
                    del cls.members[name]


def classes_of(parent: griffe.Object) -> Iterator[griffe.Class]:
    """Yield the classes of a module or a class, with those inside of them."""
    for member in parent.members.values():
        if isinstance(member, griffe.Class):
            yield member
        if isinstance(member, griffe.Module | griffe.Class):
            yield from classes_of(member)


def fields_block(cls: griffe.Class) -> str:
    """Return a code block with the fields of a model, or the members of an enum, that no docstring describes.

    Empty for classes with a signature, which shows their fields: dataclasses, and those with ``__init__``.
    """
    documented = cls.docstring is not None and "Attributes:" in cls.docstring.value
    if documented or "dataclass" in cls.labels or "__init__" in cls.members:
        return ""
    lines = [
        f"{name}{_after(': ', field.annotation)}{_after(' = ', field.value)}"
        for name, field in cls.members.items()
        if isinstance(field, griffe.Attribute) and field.docstring is None
        if not name.startswith("_") and "property" not in field.labels
    ]
    return "\n".join(["", "", "```python", *lines, "```"]) if lines else ""


def _after(mark: str, expression: object) -> str:
    return "" if expression is None else f"{mark}{expression}"


def without_maintainer_notes(text: str) -> str:
    r"""Return a docstring without its paragraphs about upstream sources, which only maintainers need.

    >>> without_maintainer_notes("Runs.\n\nUpstream: client-go (v1.36).\nDeviates: never.\n\nSlow.")
    'Runs.\n\nSlow.'
    """
    return re.sub(r"\n\n+", "\n\n", _MAINTAINER_NOTE.sub("", text)).rstrip() if _MAINTAINER_NOTE.search(text) else text


def to_markdown(text: str) -> str:
    """Return a docstring with its doctests in code blocks and without the marks of literal blocks."""
    lines: list[str] = []
    indent: str | None = None
    for line in text.splitlines():
        example = _DOCTEST.match(line)
        if indent is None and example:
            indent = example["indent"]
            lines.append(f"{indent}```pycon")
        elif indent is not None and not line.strip():
            lines.append(f"{indent}```")
            indent = None
        lines.append(line if indent is not None else _LITERAL_BLOCK.sub(_end_of_sentence, line))
    if indent is not None:
        lines.append(f"{indent}```")
    return "\n".join(lines)


def _end_of_sentence(mark: re.Match[str]) -> str:
    return ":" if mark.start() else ""
