"""Hooks of the site's build (mkdocs.yml)."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from tools.generate.reference import page_of_site
from tools.site.links import link_names, targets_of

_CELL = re.compile(r"<td[^>]*>.*?</td>", re.DOTALL)
_CODE = re.compile(r"<code>([^<]*)</code>")
_BREAK = re.compile(r"(?<=\w)(_|::|/|\.|\()(?=\w)")


_BOOSTS = {"howto/": 2.0, "reference/": 0.2, "behaviours.md": 0.2, "architecture.md": 0.5, "measurements.md": 0.5}
"""Weights of the search, by the start of a page's path: a word of a question is the name of many attributes too."""


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Set how high the search ranks a page, unless its front matter does; write the help of commands and metrics."""
    for start, boost in _BOOSTS.items():
        if page.file.src_uri.startswith(start):
            page.meta.setdefault("search", {"boost": boost})
    return page_of_site(page.file.src_uri) or markdown


def on_page_content(html: str, *, page: Any = None, config: Any = None, **_: Any) -> str:
    """Link names to the reference, and let long names in tables wrap behind underscores, dots, colons and slashes."""
    if page is not None and not page.file.src_uri.startswith("reference/"):
        html = link_names(html, _targets(Path(config.docs_dir) / "reference"))
    return _CELL.sub(lambda cell: _CODE.sub(_breakable, cell[0]), html)


@lru_cache(maxsize=1)
def _targets(reference: Path) -> dict[str, str]:
    return targets_of(reference)


def _breakable(code: re.Match[str]) -> str:
    text = _BREAK.sub(r"\1<wbr>", code[1])
    return f"<code>{text}</code>"


def on_env(env: Any, *, config: Any, files: Any, **_: Any) -> Any:
    """Write ``llms.txt`` to the site's root: title, link and first line of each page, sorted by path."""
    pages = sorted((file.page for file in files.documentation_pages()), key=lambda page: page.file.src_uri)
    lines = [f"- [{page.title}]({page.file.dest_uri}): {first_line(page.markdown)}" for page in pages]
    text = "\n".join([f"# {config.site_name}", "", f"> {config.site_description}", "", *lines, ""])
    folder = Path(config.site_dir)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "llms.txt").write_text(text)
    return env


def first_line(markdown: str) -> str:
    r"""Return the first line of text below the title, without links.

    >>> first_line("# Title\n\nSee [the page](a.md). More.")
    'See the page. More.'
    """
    paragraphs = (part for part in re.split(r"\n\n+", markdown) if not part.startswith(("#", "<!--", "```", "|")))
    line = " ".join(next(paragraphs, "").split())
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line)
