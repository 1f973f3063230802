"""Formats new files as the project's own check does: the lines of a template break where the names are long."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


def formatted(folder: Path, path: str, text: str) -> str:
    """Return the text of a file with ruff's format. Other files than Python stay, and all without ruff.

    Args:
        folder: of the project, whose pyproject.toml has the settings.
        path: of the file, relative to it.
        text: what a template gave.
    """
    ruff = _ruff() if path.endswith(".py") else None
    if ruff is None:
        return text
    command = [ruff, "format", "--quiet", "--no-cache", "--stdin-filename", path, "-"]
    done = subprocess.run(command, cwd=folder, input=text.encode(), capture_output=True, check=False)  # noqa: S603 - own files
    # What ruff cannot format is code of the author: its own check says so.
    return done.stdout.decode() if done.returncode == 0 else text


def _ruff() -> str | None:
    """Return the program that the project lists for development, or None."""
    beside = Path(sys.executable).with_name("ruff")
    return str(beside) if beside.is_file() else shutil.which("ruff")
