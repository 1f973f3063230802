"""Files, modules and names that the pages mention exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_path_exists(page: Path) -> None:
    """A path in backticks is a file or a folder of the project; links lead somewhere."""
    text = page.read_text()
    paths = re.findall(r"`((?:opsdk|envtest|tests|samples|tools)/[\w./]+)`", text)
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_module_can_be_imported(page: Path) -> None:
    """A dotted name in backticks is a module, or a name in one."""
    for name in re.findall(r"`((?:opsdk|envtest)(?:\.\w+)+)`", page.read_text()):
        module, rest = name, []
        while not _imports(module):
            module, _, last = module.rpartition(".")
            rest.insert(0, last)
            assert module, f"{name} in {page.name} is not a module"
        target = importlib.import_module(module)
        for part in rest:
            target = getattr(target, part)


def _imports(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError:
        return False
    return True


def test_where_to_find_what() -> None:
    """Each answer of the architecture page names a definition that is in its file."""
    rows = re.findall(
        r"^\| [^|]+\? \| `([^`]+)`(.*) \|$", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE
    )
    assert len(rows) >= 5
    for path, names in rows:
        text = (ROOT / path).read_text()
        for name in re.findall(r"`(?:\w+\.)?(\w+)`", names):
            assert re.search(rf"(def|class) {name}\b", text), f"{path} has no {name}"
