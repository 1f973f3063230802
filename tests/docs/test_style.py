"""The examples of the pages pass the type checker and the linter of a project that ``opsdk init`` writes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from documentation import DOCS, PAGES, Block, blocks, name_of

from opsdk.cli.scaffold.templates import PYPROJECT

TUTORIAL = DOCS / "tutorial"
"""Its blocks are the files of a project that grows from page to page: test_tutorial.py checks it after each page."""
EXAMPLES = [
    (page, python)
    for page in PAGES
    if page.parent != TUTORIAL and (python := [block for block in blocks(page) if block.language == "python"])
]


class Project:
    """A scaffolded project that holds the examples, each line of them at the same line as in its page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pages: dict[str, str] = {}
        """The page of each file, by the file's path from the folder."""
        self.write("pyproject.toml", PYPROJECT.substitute(name="examples", package="examples"))
        self.write("examples/__init__.py", "")

    def write(self, path: str, text: str) -> None:
        """Write one file."""
        file = self.folder / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)

    def show(self, page: Path, path: str, shown: Iterable[Block]) -> None:
        """Write blocks of a page into one file, with empty lines for the text between them."""
        text = ""
        for block in shown:
            text += "\n" * (block.line - text.count("\n")) + block.text
        self.write(path, text)
        self.pages[path] = name_of(page)

    def assert_passes(self, *arguments: str) -> None:
        """Run a tool of the project on all files; its errors name pages instead of files."""
        done = subprocess.run(
            [sys.executable, "-m", *arguments, "."],
            cwd=self.folder, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        lines = done.stdout.splitlines()
        errors = [self._on_page(line) for line in lines if re.match(r"\S+\.py:\d+:(?! note:)", line)]
        assert not errors, "\n".join(["", *errors])
        assert done.returncode == 0, done.stdout + done.stderr

    def _on_page(self, line: str) -> str:
        path, _, message = line.partition(":")
        return f"{self.pages[path]}:{message}"


def module_of(page: Path) -> str:
    """Return the name of a page as the name of a module."""
    return re.sub(r"\W", "_", name_of(page).removesuffix(".md"))


def test_the_linter_accepts_each_example(tmp_path: Path) -> None:
    """Each block is a file; the linter does not see the names of earlier blocks, and the type checker does."""
    project = Project(tmp_path)
    for page, example in EXAMPLES:
        for number, block in enumerate(example):
            project.show(page, block.title or f"examples/{module_of(page)}_{number}.py", [block])
    project.assert_passes("ruff", "check", "--extend-ignore=F821", "--output-format=concise", "--no-cache")


@pytest.mark.slow
def test_the_type_checker_accepts_each_page(tmp_path: Path) -> None:
    """The blocks of a page share names, so they are one module; blocks with a title are files of their own."""
    project = Project(tmp_path)
    for page, example in EXAMPLES:
        project.show(page, f"examples/{module_of(page)}.py", [block for block in example if not block.title])
        for block in example:
            if block.title:
                project.show(page, block.title, [block])
    project.assert_passes("mypy", "--no-error-summary")


def test_an_error_names_the_line_of_the_page(tmp_path: Path) -> None:
    """A page's line numbers are those of its blocks."""
    project = Project(tmp_path)
    page, (first, *_) = EXAMPLES[0]
    project.show(page, "examples/first.py", [first])
    lines = (tmp_path / "examples/first.py").read_text().splitlines()
    assert lines[first.line :] == page.read_text().splitlines()[first.line : len(lines)]
