"""Hooks of the site's build (mkdocs.yml)."""

from __future__ import annotations

import re
from typing import Any

_CELL = re.compile(r"<td[^>]*>.*?</td>", re.DOTALL)
_CODE = re.compile(r"<code>([^<]*)</code>")
_BREAK = re.compile(r"(?<=\w)(_|::|/|\.|\()(?=\w)")


_BOOSTS = {"howto/": 2.0, "reference/": 0.2, "behaviours.md": 0.2, "architecture.md": 0.5, "measurements.md": 0.5}
"""Weights of the search, by the start of a page's path: a word of a question is the name of many attributes too."""


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Set how high the search ranks a page, unless its front matter does."""
    for start, boost in _BOOSTS.items():
        if page.file.src_uri.startswith(start):
            page.meta.setdefault("search", {"boost": boost})
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Let long names in tables wrap behind underscores, dots, colons and slashes: names of tests are long."""
    return _CELL.sub(lambda cell: _CODE.sub(_breakable, cell[0]), html)


def _breakable(code: re.Match[str]) -> str:
    text = _BREAK.sub(r"\1<wbr>", code[1])
    return f"<code>{text}</code>"
