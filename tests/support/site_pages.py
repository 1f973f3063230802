"""The built site as values: tables of the reference, links and anchors of each page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

_OPEN = frozenset(["br", "hr", "img", "input", "link", "meta", "wbr", "source"])
"""Elements without an end."""


@dataclass
class Row:
    """A row of a table in the reference: its entry, the title of its section, and its cells by column."""

    entry: str
    section: str
    cells: dict[str, str]


@dataclass
class SitePage:
    """What a page has: the ids of its elements, the targets of its links, and the tables of its docstrings.

    Attributes:
        anchors: ids.
        links: the values of ``href`` and ``src``.
        rows: of the tables behind a section's title.
        unlinked: code spans outside of links and code blocks.
    """

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    unlinked: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = SitePage()
        self._stack: list[str] = []
        self._entry = self._section = self._text = ""
        self._columns: list[str] | None = None
        self._cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if name := values.get("id", ""):
            self.page.anchors.add(name)
            if tag in {"h2", "h3", "h4", "h5", "h6"}:
                self._entry = name
        self.page.links += [values[name] for name in ("href", "src") if values.get(name)]
        if tag == "span" and values.get("class") == "doc-section-title":
            self._section, self._columns = "", []
            tag = "section-title"
        if tag in {"td", "th", "code", "section-title"}:
            self._text = "" if tag != "code" or "td" not in self._stack else self._text
        if tag not in _OPEN:
            self._stack.append(tag)

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag in _OPEN or not self._stack:
            return
        opened = self._stack.pop()
        text = self._text.strip()
        if opened == "section-title":
            self._section = text
        elif tag == "code" and not {"a", "pre", "td"} & set(self._stack):
            self.page.unlinked.append(text)
        elif self._columns is not None:
            self._table(tag, text)

    def _table(self, tag: str, text: str) -> None:
        assert self._columns is not None
        if tag == "th":
            self._columns.append(text)
        elif tag == "td":
            self._cells.append(text)
        elif tag == "tr" and self._cells:
            self.page.rows.append(Row(self._entry, self._section, dict(zip(self._columns, self._cells, strict=True))))
            self._cells = []
        elif tag == "table":
            self._columns = None


def read_page(text: str) -> SitePage:
    """Return the parts of a page."""
    reader = _Reader()
    reader.feed(text)
    return reader.page


def read_site(site: Path) -> dict[Path, SitePage]:
    """Return the pages of a site by their files."""
    return {path.resolve(): read_page(path.read_text()) for path in sorted(site.rglob("*.html"))}


def dead_links(pages: dict[Path, SitePage], site: Path) -> Iterator[str]:
    """Yield each link inside of the site whose file or anchor does not exist.

    The page for unknown addresses is left out: its links begin at the root of a host.
    """
    for path, page in pages.items():
        for link in page.links if path.name != "404.html" else ():
            target, _, anchor = link.partition("#")
            if "://" in link or target.startswith(("mailto:", "data:", "javascript:")):
                continue
            file = (path.parent / target.partition("?")[0]).resolve() if target else path
            file = file / "index.html" if file.is_dir() else file
            linked_page = pages.get(file)
            if not file.exists() or (anchor and linked_page is not None and anchor not in linked_page.anchors):
                yield f"{path.relative_to(site.resolve())} links to {link}"


def untyped_rows(pages: dict[Path, SitePage]) -> Iterator[str]:
    """Yield each parameter, attribute, return value and exception of the reference without a type."""
    for path, page in pages.items():
        for row in page.rows:
            if not row.cells.get("Type"):
                yield f"{path.name}: {row.entry}: {row.section} {row.cells.get('Name', '')}"
