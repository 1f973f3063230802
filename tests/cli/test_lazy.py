"""Commands are imported when they run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import typer
from rich.text import Text

from opsdk.cli import lazy
from opsdk.cli.__main__ import main
from opsdk.cli.app import app

HEAVY = ("opsdk.builder", "opsdk.client", "rich.console", "watchfiles", "yaml")


def modules_after(words: list[str], environment: dict[str, str]) -> set[str]:
    """Run the command in a process of its own, and return the modules that are imported at its end."""
    script = (
        "import atexit, json, sys\n"
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
        "from opsdk.cli.__main__ import main\n"
        "sys.exit(main())\n"
    )
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    assert done.stdout.strip()
    return set(json.loads(done.stderr))


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["--help"], {}),
        (["generate", "--help"], {}),
        ([], {"_OPSDK_COMPLETE": "complete_bash", "COMP_WORDS": "opsdk g", "COMP_CWORD": "1"}),
    ],
    ids=["help", "help of a group", "completion"],
)
def test_help_and_completion_import_no_operator(words: list[str], environment: dict[str, str]) -> None:
    """Help and completion import neither the operator nor the client, rich or YAML, which are slow."""
    imported = modules_after(words, environment)
    assert [name for name in imported if name.startswith(HEAVY)] == []


def test_the_command_that_runs_is_the_imported_one() -> None:
    """The imported command has its parameters; the help of its group shows a summary within 80 columns."""
    root = typer.main.get_command(app)
    for group in (root, root.load("create"), root.load("generate")):  # type: ignore[attr-defined]
        for name, stub in group.commands.items():  # type: ignore[attr-defined]
            command = group.load(name)  # type: ignore[attr-defined]
            assert command.name == name
            assert len(stub.help) <= 65, name
            if not hasattr(command, "commands"):
                assert "\n\nopsdk " in command.help, name


def command_lines() -> list[str]:
    """Return the words of each command."""
    root = typer.main.get_command(app)
    groups = {"": root, "create ": root.load("create"), "generate ": root.load("generate")}  # type: ignore[attr-defined]
    return [prefix + name for prefix, group in groups.items() for name in group.lazy_commands]


@pytest.mark.parametrize("line", command_lines())
def test_help_shows_each_text_as_it_is_written(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The description, the epilog and the help of each option; brackets are not markup."""
    command: Any = typer.main.get_command(app)
    with monkeypatch.context() as context:
        context.setattr(lazy, "literal", lambda text: text)
        for word in line.split():
            command = command.load(word)
    texts = [*command.help.split("\n\n"), command.epilog, *(getattr(p, "help", None) for p in command.params)]
    monkeypatch.setenv("COLUMNS", "500")
    assert main([*line.split(), "--help"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert [text for text in texts if text and " ".join(text.split()) not in printed] == []


@pytest.mark.parametrize(
    "text", ["pip install 'opsdk[cli]'", r"C:\[path]", "[MODULE:NAME]", "a[0]", "[/]", "[#fff]x", "[bold"]
)
def test_brackets_are_literal(text: str) -> None:
    """Rich shows the escaped text as the text is written."""
    assert Text.from_markup(lazy.literal(text)).plain == text
