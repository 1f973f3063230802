"""Hooks of the site's build (mkdocs.yml)."""

from __future__ import annotations

import re
from typing import Any

_CELL = re.compile(r"<td[^>]*>.*?</td>", re.DOTALL)
_CODE = re.compile(r"<code>([^<]*)</code>")
_BREAK = re.compile(r"(?<=\w)(_|::|/|\.|\()(?=\w)")


def on_page_content(html: str, **_: Any) -> str:
    """Let long names in tables wrap behind underscores, dots, colons and slashes: a name of a test has 80 characters."""
    return _CELL.sub(lambda cell: _CODE.sub(_breakable, cell[0]), html)


def _breakable(code: re.Match[str]) -> str:
    text = _BREAK.sub(r"\1<wbr>", code[1])
    return f"<code>{text}</code>"
