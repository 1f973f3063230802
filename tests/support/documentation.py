"""The pages of the documentation: their blocks, links and headings, as plain values."""

from __future__ import annotations

import contextlib
import logging
import re
import shlex
import sys
import types
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CHANGES = DOCS / "changes"
"""A file for each unreleased change: not part of the site."""
PAGES = [ROOT / "README.md", *sorted(page for page in DOCS.rglob("*.md") if CHANGES not in page.parents)]

_FENCE = re.compile(
    r"^(?P<fence>`{3,})(?P<language>\w*)[ \t]*(?P<rest>[^\n]*)\n(?P<text>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL
)
"""A block. One with a fence in its text has a longer fence."""
_TITLE = re.compile(r'title="([^"]+)"')
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """A code block: its language, the file that it shows (empty if none), its text, and the line above."""

    language: str
    title: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a console block, and the output that the page shows."""

    line: str
    output: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """Its words, without comments."""
        return shlex.split(self.line, comments=True)


def name_of(page: Path) -> str:
    """Return the path of a page from the root of the repository."""
    return page.relative_to(ROOT).as_posix()


@contextlib.contextmanager
def page_module(page: Path) -> Iterator[types.ModuleType]:
    """A module for the blocks of a page: msgspec resolves annotations in the module of a class."""
    module = types.ModuleType(re.sub(r"\W", "_", name_of(page).removesuffix(".md")))
    level = logging.getLogger().level
    sys.modules[module.__name__] = module
    try:
        yield module
    finally:
        del sys.modules[module.__name__]
        logging.getLogger().setLevel(level)


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page in order."""
    source = page.read_text()
    return [
        Block(
            language=fence["language"],
            title=title[1] if (title := _TITLE.search(fence["rest"])) else "",
            text=fence["text"],
            line=source.count("\n", 0, fence.start("text")),
        )
        for fence in _FENCE.finditer(source)
    ]


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a console block: lines that begin with ``$ ``; the lines below them are their output."""
    line, output = "", list[str]()
    for text in block.text.splitlines():
        if line.endswith("\\"):
            line = line[:-1] + text.strip()
        elif text.startswith("$ "):
            if line:
                yield Command(line, tuple(output))
            line, output = text[2:], []
        else:
            output.append(text)
    if line:
        yield Command(line, tuple(output))


def matches(expected: tuple[str, ...], output: str) -> bool:
    """Whether the output has the lines that the page shows, in order; ``...`` is any text, also of many lines."""
    pattern = "\n".join(re.escape(line.rstrip()) for line in expected if line.strip())
    lines = "\n".join(line.rstrip() for line in output.splitlines() if line.strip())
    return re.fullmatch(pattern.replace(r"\.\.\.", ".*"), lines, re.DOTALL) is not None


def links(page: Path) -> list[str]:
    """Return the targets of a page's links, without those in code."""
    text = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", page.read_text()))
    return _LINK.findall(text)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as Markdown's toc extension and forges make them."""
    text = _FENCE.sub("", page.read_text())
    names: dict[str, int] = {}
    slugs = set()
    for heading in re.findall(r"^#{1,6} (.+)$", text, re.MULTILINE):
        anchor = slug(heading)
        count = names[anchor] = names.get(anchor, -1) + 1
        slugs.add(f"{anchor}_{count}" if count else anchor)
    return slugs


def slug(heading: str) -> str:
    """Return the anchor of a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    ascii_text = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_text).strip().lower())


def reference_entries() -> Mapping[str, Path]:
    """Return the names that the reference describes, with their pages."""
    return {
        name: page
        for page in sorted((DOCS / "reference").glob("*.md"))
        for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE)
    }
