"""docs/explanation/side-by-side.md counts the ported examples right."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from documentation import DOCS, ROOT

from tools.house import Module

PAGE = DOCS / "explanation" / "side-by-side.md"
EXAMPLES = ROOT / "tests" / "examples"
SHARED = {"conftest.py", "logs.py", "objects.py", "running.py", "test_side_by_side.py"}
ROW = re.compile(
    r"^\| \[(?P<example>[^\]]+)\]\((?P<link>[^)]+)\) \| \w+ \| (?P<original>\d+) \| (?P<files>`[^|]+`) "
    r"\| (?P<lines>\d+) \| (?P<differs>[^|]+) \|$",
    re.MULTILINE,
)


def lines_of(path: Path) -> int:
    """Return the number of lines with code."""
    return Module(path.stem, path, path.read_text()).code_lines


def test_the_table_counts_right() -> None:
    """Each row has the lines of its files, says whether opsdk is longer, and links a commit."""
    rows = list(ROW.finditer(PAGE.read_text()))
    assert len(rows) == sum(line.startswith("| [") for line in PAGE.read_text().splitlines())
    for row in rows:
        counted = sum(lines_of(ROOT / name) for name in re.findall(r"`([^`]+)`", row["files"]))
        assert int(row["lines"]) == counted, f"{row['example']}: the table has {row['lines']} lines, counted {counted}"
        assert ("**Longer.**" in row["differs"]) == (counted > int(row["original"])), row["example"]
        assert re.search(r"/tree/[0-9a-f]{40}/", row["link"]), row["example"]


def test_the_table_is_complete() -> None:
    """Each operator is in the table, and a test imports it."""
    files = {path for path in EXAMPLES.rglob("*.py") if path.name not in SHARED}
    tests = {path for path in files if path.name.startswith("test_")}
    listed = {ROOT / name for row in ROW.finditer(PAGE.read_text()) for name in re.findall(r"`([^`]+)`", row["files"])}
    assert files - tests == listed - tests
    imported = {name for path in tests for name in imports_of(path)}
    operators = {path.stem for path in listed if "def make_operator" in path.read_text()}
    assert operators - imported == set()


def imports_of(path: Path) -> set[str]:
    """Return the last parts of the modules that a file imports from, and the names that it imports."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    modules = {(node.module or "").rpartition(".")[2] for node in nodes}
    return modules | {alias.name for node in nodes for alias in node.names}
