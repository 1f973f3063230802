"""Compares generated texts with the files of the repository."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tools.generate.header import MARK
from tools.generate.outputs import KINDS, TABLES, Outputs

_SHOWN_LINES = 12
_WIDTH = 160


def changed(root: Path, texts: Outputs) -> list[str]:
    """The paths whose files are missing or have other bytes, sorted."""
    return sorted(path for path, text in texts.items() if _read(root / path) != text)


def obsolete(root: Path, texts: Outputs) -> list[str]:
    """The generated files of the repository that are not among all `texts`, sorted."""
    tables = (root / TABLES).rglob("*.txt")
    modules = (path for path in (root / KINDS).rglob("*.py") if MARK in path.read_text()[:1000])
    paths = {path.relative_to(root).as_posix() for path in (*tables, *modules)}
    return sorted(paths - set(texts))


def difference(root: Path, path: str, text: str) -> Iterator[str]:
    """The first lines of a unified diff from the file to the generated text."""
    old = _read(root / path).splitlines()
    lines = difflib.unified_diff(old, text.splitlines(), path, "generated", n=0, lineterm="")
    yield from (line[:_WIDTH] for line in islice(lines, _SHOWN_LINES))


def _read(path: Path) -> str:
    return path.read_bytes().decode() if path.is_file() else ""
