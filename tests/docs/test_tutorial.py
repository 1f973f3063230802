"""The tutorial runs as it stands: its files are written and its commands run, in order, in one new project."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from documentation import DOCS, Command, blocks, commands, matches

from opsdk.testing.webhooks import free_port

PAGES = sorted((DOCS / "tutorial").glob("*.md"))
PATIENCE = 60.0
"""Seconds in which the output of kubectl becomes what the page shows; `opsdk dev` reloads in between."""
DEV = "opsdk dev"


class Terminal:
    """Runs commands as a reader would: folder and variables persist, ``opsdk dev`` stays in the background."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.debug_port, self.webhook_port = str(free_port()), str(free_port())
        debug_url = f"http://127.0.0.1:{self.debug_port}"
        self.environment = {**os.environ, "PATH": path, "OPSDK_DEBUG_URL": debug_url}
        self.dev: subprocess.Popen[bytes] | None = None

    def run(self, command: Command) -> None:
        """Run a command, and compare its output with the page's. kubectl is repeated until they are equal."""
        words = command.words
        if words[0] == "cd":
            self.folder /= words[1]
        elif words[0] == "export":
            name, _, value = words[1].partition("=")
            self.environment[name] = value
        elif words[0] == "pip":
            self.environment["PYTHONPATH"] = str(self.folder)  # the packages are installed here; no network
        elif command.line == DEV:
            self._start_dev()
        else:
            self._compare(command, time.monotonic() + (PATIENCE if words[0] == "kubectl" else 0))

    def _compare(self, command: Command, deadline: float) -> None:
        while True:
            done = subprocess.run(
                ["bash", "-c", command.line],
                cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, check=False, timeout=120,
            )  # fmt: skip
            if done.returncode == 0 and (not command.output or matches(command.output, done.stdout)):
                return
            displayed = "\n".join(command.output)
            repeatable = done.returncode != 0 or "apply" not in command.words  # a second apply prints something else
            if not repeatable or time.monotonic() > deadline:
                pytest.fail(f"$ {command.line}\n{done.stdout}\nThe page shows:\n{displayed}\n{self._log()}")
            time.sleep(0.5)

    def _start_dev(self) -> None:
        ports = ["--debug-port", self.debug_port, "--webhook-port", self.webhook_port]
        with (self.folder / "dev.log").open("wb") as log:
            self.dev = subprocess.Popen(
                [sys.executable, "-m", "opsdk.cli", "dev", "--plain", *ports],
                cwd=self.folder, env=self.environment, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def _log(self) -> str:
        log = self.folder / "dev.log"
        return f"opsdk dev:\n{log.read_text()[-3000:]}" if log.exists() else ""

    def close(self) -> None:
        """End ``opsdk dev``."""
        if self.dev is not None:
            self.dev.terminate()
            self.dev.wait(60)


def assert_style(folder: Path) -> None:
    """Run the project's own type checker and linter on its files, as its author would."""
    for arguments in (["ruff", "check", "."], ["mypy", "--no-error-summary"]):
        done = subprocess.run(
            [sys.executable, "-m", *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, f"{' '.join(arguments)}:\n{done.stdout}{done.stderr}"


@pytest.mark.slow
@pytest.mark.e2e
def test_the_tutorial_runs(tmp_path: Path) -> None:
    """Each command of the pages succeeds and prints what the page shows; ruff and mypy pass after each page."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl in PATH")
    terminal = Terminal(tmp_path)
    try:
        for page in PAGES:
            for block in blocks(page):
                if block.title:
                    path = terminal.folder / block.title
                    path.parent.mkdir(exist_ok=True)
                    path.write_text(block.text)
                elif block.language == "console":
                    for command in commands(block):
                        terminal.run(command)
            assert_style(terminal.folder)
    finally:
        terminal.close()


def test_expected_output() -> None:
    """Dots stand for any text; lines without dots are equal, but for spaces at their end."""
    assert matches(("a", "..."), "a\nb\nc\n")
    assert matches(("a ... c",), "a b c  \n")
    assert not matches(("a",), "a\nb\n")
    assert not matches(("a.b",), "axb")
