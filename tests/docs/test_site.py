"""The site is complete: every page is in the navigation, every link leads somewhere, every public name has an entry."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pytest
import typer
import yaml
from documentation import DOCS, PAGES, ROOT, Command, anchors, blocks, commands, links, name_of, reference_entries
from site_pages import SitePage, dead_links, read_site, untyped_rows

import opsdk
from opsdk.builder.reconciler_options import ReconcilerOptions
from opsdk.cli.app import app
from tests.docs.site_browser import CHROMIUM, too_wide
from tests.docs.site_search import SiteSearch
from tools.generate.public_api import read_products
from tools.generate.reference import page_of_site

INNER = {"Fence", "as_handler", "is_async"}
"""Names of the reference that opsdk needs, and authors do not."""
OPTIONS = re.compile(r"^::: ([\w.]+)\n((?:    .*\n)*)", re.MULTILINE)
"""An entry of the reference, and the block of its options."""
FOUND_FIRST = {
    "retry": "howto/retries",
    "daemon": "howto/daemons",
    "cron": "howto/daemons",
    "rate limit": "howto/retries",
    "install": "howto/install",
    "kind": "howto/questions",
    "debug": "howto/develop",
    "upgrade": "howto/upgrade",
    "finalizer": "howto/finalizers",
    "webhook": "webhooks",
    "status": "howto/status",
    "condition": "howto/retries",
    "leader election": "howto/leader-election",
    "metrics": "howto/metrics-and-health",
    "rbac": "rbac",
    "namespace": "howto/cache",
    "secret": "howto/secrets",
    "backoff": "howto/retries",
    "pause": "howto/pause",
    "simulation": "simulation",
    "two operators": "howto/leader-election",
    "fastapi": "howto/answers",
    "share code": "howto/answers",
    "slow api": "howto/answers",
    "password": "howto/secrets",
    "immutable": "howto/answers",
    "sidecar": "howto/answers",
    "inject container": "howto/answers",
    "mypy settings": "howto/answers",
    "finalizer stuck": "howto/finalizers",
    "multiple namespaces": "howto/cache",
    "mock": "howto/doubles",
    "secret rotation": "howto/secrets",
}
"""The page that the site's search ranks first, by query."""
ON_PHONES = [
    f"{page}.html"
    for page in (
        "index",
        "tutorial/2-children-and-status",
        "howto/from-kopf",
        "howto/questions",
        "reference/command",
        "reference/operator",
        "behaviours",
        "custom-resources",
    )
]
"""Pages with long code, tables, signatures and names, which are opened in the width of a phone."""
PROGRAMS = frozenset(
    [
        "opsdk",
        "git",
        "kubectl",
        "etcd",
        "etcdctl",
        "openssl",
        "pip",
        "python",
        "sed",
        "pytest",
        "cd",
        "cp",
        "export",
        "go",
        "make",
        "podman",
        "kill",
        "cat",
        "mkdir",
        "ls",
    ]
)


def nav_pages(entry: object) -> Iterator[str]:
    """Yield the pages of a part of the navigation."""
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, list):
        for part in entry:
            yield from nav_pages(part)
    elif isinstance(entry, dict):
        for part in entry.values():
            yield from nav_pages(part)


def test_every_page_is_in_the_navigation() -> None:
    """The navigation names each page once, and nothing else."""
    text = (ROOT / "mkdocs.yml").read_text()
    pages = list(nav_pages(yaml.safe_load(text)["nav"]))
    assert sorted(pages) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES if DOCS in page.parents)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_to_a_page_and_a_heading(page: Path) -> None:
    """Links are relative, their files exist, and their anchors are headings; so they work on a forge too."""
    for link in links(page):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name_of(page)} links to {link}, which does not exist"
        assert page.parent == ROOT or DOCS in target.parents, f"{name_of(page)} links to {link}, outside the site"
        if anchor:
            assert anchor in anchors(target), f"{name_of(page)} links to {link}: {name_of(target)} has no such heading"


def test_every_public_name_has_a_reference_entry() -> None:
    """Each public name and module has exactly one reference entry."""
    entries = reference_entries()
    texts = "".join(page.read_text() for page in sorted((DOCS / "reference").glob("*.md")))
    assert len(re.findall(r"^::: ", texts, re.MULTILINE)) == len(entries)
    described = {name.removeprefix("opsdk.") for name in entries}
    for name in entries:
        if importlib.util.find_spec(name) is not None:
            module = importlib.import_module(name)
            own = [n for n, member in vars(module).items() if getattr(member, "__module__", "") == name]
            described |= set(getattr(module, "__all__", own))
    assert [name for name in opsdk.__all__ if name not in described] == []
    modules = [module for product in read_products(ROOT) for module in product.modules]
    in_packages = {name.rpartition(".")[0] for name in entries}
    assert [module for module in modules if module not in entries and module not in in_packages] == []


def names_of_entry(entry: str, options: str) -> set[str]:
    """Return the public names below an entry: the members that it selects, those of `__all__`, or all of its module."""
    if importlib.util.find_spec(entry) is None:
        return {entry.rpartition(".")[2]}
    selected = (yaml.safe_load(options) or {}).get("options", {}).get("members")
    module = importlib.import_module(entry)
    if selected is not None:
        assert [name for name in selected if not hasattr(module, name)] == [], entry
        return set(selected)
    own = {
        name
        for name, member in vars(module).items()
        if getattr(member, "__module__", "") == entry and not isinstance(member, TypeVar)
    }
    return {name for name in getattr(module, "__all__", own) if not name.startswith("_")}


def test_every_public_name_is_explained_on_a_page() -> None:
    """Each name of `opsdk` and each name in the reference stands in a page beside the reference."""
    words = set(re.findall(r"\w+", "".join(page.read_text() for page in PAGES if page.parent.name != "reference")))
    assert sorted(public_names() - INNER - words) == []


def console_commands() -> Iterator[tuple[str, Command]]:
    """Yield each command of each console block, with its page."""
    for page in PAGES:
        for block in blocks(page):
            if block.language == "console":
                for command in commands(block):
                    yield name_of(page), command


@pytest.mark.parametrize(("page", "command"), list(console_commands()), ids=lambda value: str(value)[:50])
def test_every_command_exists(page: str, command: Command) -> None:
    """A command line begins with a known program; subcommands and options of opsdk exist."""
    words = command.words
    assert words[0] in PROGRAMS, f"{page}: {command.line}"
    if words[0] != "opsdk":
        return
    current: object = typer.main.get_command(app)
    rest = words[1:]
    while rest and hasattr(current, "commands") and not rest[0].startswith("-"):
        assert rest[0] in current.commands, f"{page}: opsdk has no command {rest[0]}: {command.line}"
        current = current.load(rest.pop(0))  # type: ignore[attr-defined]
    known_names = {option for parameter in current.params for option in parameter.opts} | {"--help"}  # type: ignore[attr-defined]
    for word in rest:
        if word in {"--", ">", "|", "&&"}:
            break
        assert not word.startswith("--") or word.partition("=")[0] in known_names, (
            f"{page}: no option {word}: {command.line}"
        )


def public_names() -> set[str]:
    """Return the names of `opsdk` and those in the reference."""
    texts = "".join(page.read_text() for page in sorted((DOCS / "reference").glob("*.md")))
    return set(opsdk.__all__).union(*(names_of_entry(*match.groups()) for match in OPTIONS.finditer(texts)))


@pytest.mark.parametrize(
    ("path", "row"),
    [
        ("reference/command.md", "| `--fail-on` | consequences that exit with 3; default: all dangerous ones |"),
        ("reference/metrics.md", "| `opsdk_informer_objects` | gauge | `informer` | Objects in the store. |"),
    ],
)
def test_the_site_has_the_help_of_commands_and_metrics(path: str, row: str) -> None:
    """The pages that are committed have the same commands and metrics, without it."""
    page, site = (DOCS / path).read_text(), page_of_site(path) or ""
    entries = "^(?:## opsdk .*|\\| `[a-z_]+` \\| (?:counter|gauge|histogram|summary) )"
    assert re.findall(entries, page, re.MULTILINE) == re.findall(entries, site, re.MULTILINE) != []
    assert row in site
    assert row not in page


@pytest.mark.slow
def test_the_site_builds(tmp_path: Path) -> None:
    """``mkdocs build --strict`` has no warnings, the pages load nothing from other hosts, fit phones, and are found."""
    pytest.importorskip("mkdocs", reason="needs mkdocs: pip install opsdk[docs]")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    anchors_of_reference = "".join(page.read_text() for page in (tmp_path / "site/reference").glob("*.html"))
    anchored = set(re.findall(r'id="[\w.]+\.(\w+)"', anchors_of_reference))
    assert sorted(public_names() - anchored) == []
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= len(PAGES) - 1
    for page in pages:
        loaded = re.findall(
            r'<(?:script|img|iframe)[^>]+src="(https?://[^"]+)|<link[^>]+href="(https?://[^"]+)', page.read_text()
        )
        assert not loaded, f"{page.name} loads {loaded}"
    references = "".join(page.read_text() for page in (tmp_path / "site/reference").glob("*.html"))
    assert "Options of several commands" in references
    assert re.findall(r"(?:Upstream|Deviates): [^<]*", references) == []
    assert_reference(read_site(tmp_path / "site"), tmp_path / "site")
    if CHROMIUM is not None and importlib.util.find_spec("playwright") is not None:
        (tmp_path / "site/wide.html").write_text(
            '<meta name="viewport" content="width=device-width"><pre>' + "wide " * 99
        )
        assert [line.partition(":")[0] for line in too_wide(tmp_path / "site", [*ON_PHONES, "wide.html"])] == [
            "wide.html"
        ]
    search = SiteSearch(tmp_path / "site/search/search_index.json")
    first = {query: search.pages(query)[0].location.partition(".html")[0] for query in FOUND_FIRST}
    assert first == FOUND_FIRST
    listed = re.findall(r"^- \[.+\]\(([^)]+)\): .+$", (tmp_path / "site/llms.txt").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(page.relative_to(DOCS).with_suffix(".html").as_posix() for page in PAGES[1:])


def assert_reference(pages: Mapping[Path, SitePage], site: Path) -> None:
    """Each row has a type, each keyword a default, each link a target, and each module in a text is a link."""
    assert list(untyped_rows(pages)) == []
    rows = [row for page in pages.values() for row in page.rows]
    assert {row.section for row in rows} == {"Attributes:", "Keywords:", "Parameters:", "Raises:", "Returns:"}
    assert [row for row in rows if row.section == "Keywords:" and not row.cells["Default"]] == []
    keywords = {row.cells.get("Name") for row in rows if row.entry == "opsdk.Operator.reconciler"}
    assert keywords >= ReconcilerOptions.__annotations__.keys()
    assert list(dead_links(pages, site)) == []
    in_reference = [
        (path.name, code) for path, page in pages.items() if "reference" in path.parts for code in page.unlinked
    ]
    assert [each for each in in_reference if re.fullmatch(r"(?:opsdk|envtest)(?:\.\w+)+", each[1])] == []
