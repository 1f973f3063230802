"""The ported examples are counted right: each in README.md of this folder, and their sums on the page of the site."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from documentation import DOCS

from tools.house import Module

EXAMPLES = Path(__file__).parent
LIST = (EXAMPLES / "README.md").read_text()
PAGE = DOCS / "explanation" / "side-by-side.md"
SHARED = {"conftest.py", "logs.py", "objects.py", "running.py", "test_side_by_side.py"}
ROW = re.compile(
    r"^\| \[(?P<example>[^\]]+)\]\((?P<link>[^)]+)\) \| \w+ \| (?P<original>\d+) \| (?P<files>`[^|]+`) "
    r"\| (?P<lines>\d+) \| (?P<differs>[^|]+) \|$",
    re.MULTILINE,
)
SUM = re.compile(
    r"^\| \[[^\]]+\]\((?P<link>[^)]+)\)[^|]* \| (?P<number>\d+) \| (?P<original>\d+) \| (?P<lines>\d+) \|", re.MULTILINE
)


def lines_of(path: Path) -> int:
    """Return the number of lines with code."""
    return Module(path.stem, path, path.read_text()).code_lines


def test_the_table_counts_right() -> None:
    """Each row has the lines of its files, says whether opsdk is longer, and links a commit."""
    rows = list(ROW.finditer(LIST))
    assert len(rows) == sum(line.startswith("| [") for line in LIST.splitlines())
    for row in rows:
        counted = sum(lines_of(EXAMPLES / name) for name in re.findall(r"`([^`]+)`", row["files"]))
        assert int(row["lines"]) == counted, f"{row['example']}: the table has {row['lines']} lines, counted {counted}"
        assert ("**Longer.**" in row["differs"]) == (counted > int(row["original"])), row["example"]
        assert re.search(r"/tree/[0-9a-f]{40}/", row["link"]), row["example"]


def test_the_page_has_the_sums() -> None:
    """A row for each project, by the repository and the commit of its examples."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in ROW.finditer(LIST):
        repository = "/".join(row["link"].split("/")[:7])
        for place, number in enumerate((1, int(row["original"]), int(row["lines"]))):
            sums[repository][place] += number
    page = {
        "/".join(row["link"].split("/")[:7]): [int(row["number"]), int(row["original"]), int(row["lines"])]
        for row in SUM.finditer(PAGE.read_text())
    }
    assert page == sums


def test_the_table_is_complete() -> None:
    """Each operator is in the table, and a test imports it."""
    files = {path for path in EXAMPLES.rglob("*.py") if path.name not in SHARED}
    tests = {path for path in files if path.name.startswith("test_")}
    listed = {EXAMPLES / name for row in ROW.finditer(LIST) for name in re.findall(r"`([^`]+)`", row["files"])}
    assert files - tests == listed - tests
    imported = {name for path in tests for name in imports_of(path)}
    operators = {path.stem for path in listed if "def make_operator" in path.read_text()}
    assert operators - imported == set()


def imports_of(path: Path) -> set[str]:
    """Return the last parts of the modules that a file imports from, and the names that it imports."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    modules = {(node.module or "").rpartition(".")[2] for node in nodes}
    return modules | {alias.name for node in nodes for alias in node.names}
