"""What the README shows is what runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from documentation import ROOT, blocks

README = ROOT / "README.md"
COMMANDS = [line.partition("#")[0].strip() for line in README.read_text().splitlines() if line.startswith("    ")]
"""The lines of the indented blocks, without their comments."""
FILES = {block.title: block for block in blocks(README) if block.title}


def test_the_operator_on_the_first_screen_is_the_sample() -> None:
    """The README's operator is samples/greeter to the letter, in at most 18 lines of code, on the first screen."""
    example = FILES["greeter.py"]
    assert example.text == (ROOT / "samples/greeter/greeter.py").read_text()
    assert len([line for line in example.text.splitlines() if line.strip()]) <= 18
    assert example.line <= 10


def test_the_test_in_the_readme_passes(tmp_path: Path) -> None:
    """The README's test is beside its operator in samples/greeter, and passes there with the command of the README."""
    sample = tmp_path / "greeter"
    shutil.copytree(ROOT / "samples/greeter", sample, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
    assert FILES["test_greeter.py"].text == (sample / "test_greeter.py").read_text()
    assert [line for line in COMMANDS if line.startswith("pytest")] == ["pytest"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest"], cwd=sample, capture_output=True, text=True, check=False, timeout=120
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert "warning" not in done.stdout, done.stdout


def test_each_block_of_commands_starts_where_the_one_before_ends() -> None:
    """The commands lead from the clone to an existing folder."""
    folder = Path("clone")
    for line in COMMANDS:
        for target in re.findall(r"(?:^|&& )cd (\S+)", line):
            folder = Path(os.path.normpath(folder / target))
    assert folder == Path("clone/samples/greeter")
