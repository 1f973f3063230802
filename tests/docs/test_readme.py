"""What the README shows is what runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from documentation import ROOT, blocks

README = ROOT / "README.md"
FILES = {block.title: block for block in blocks(README) if block.title}


def test_the_operator_on_the_first_screen_is_the_sample() -> None:
    """The README's operator is samples/greeter to the letter, in at most 18 lines of code, on the first screen."""
    example = FILES["greeter.py"]
    assert example.text == (ROOT / "samples/greeter/greeter.py").read_text()
    assert len([line for line in example.text.splitlines() if line.strip()]) <= 18
    assert example.line <= 10


def test_the_test_in_the_readme_passes(tmp_path: Path) -> None:
    """The README's test passes beside its operator, with the command that the README names."""
    for block in FILES.values():
        (tmp_path / block.title).write_text(block.text)
    command = re.findall(r"`(pytest [^`]+)`", README.read_text())
    assert command == ["pytest -p opsdk.testing.plugin"]
    done = subprocess.run(
        [sys.executable, "-m", *command[0].split()],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert "warning" not in done.stdout, done.stdout


def test_each_block_of_commands_starts_where_the_one_before_ends() -> None:
    """The commands of the samples return to the clone, and the operator ends before its API server."""
    commands = [line.strip() for line in README.read_text().splitlines() if line.startswith("    ")]
    folder = Path("clone")
    for line in commands[: commands.index("opsdk init demo && cd demo")]:
        for target in re.findall(r"(?:^|&& )cd (\S+)", line):
            folder = Path(os.path.normpath(folder / target))
    assert folder == Path("clone")
    ends = [line.partition("#")[0].strip() for line in commands if line.startswith("kill ")]
    assert ends == ["kill %2; wait %2; kill %1"]
