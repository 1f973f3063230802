"""Output of commands: text for people, or JSON for programs.

A command with a result for programs has the option ``--output``. With ``json`` it prints one JSON document to standard
output, and nothing else; errors go to standard error in both forms.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from opsdk.structured_merge.value import JsonValue


class OutputFormat(StrEnum):
    """For people, or for programs."""

    TEXT = "text"
    JSON = "json"


Output = Annotated[OutputFormat, typer.Option(help="output format: text or json")]
"""The option ``--output``."""


def show_progress(text: str) -> None:
    """Show what runs, in the place of the last such text. Only a terminal shows it; an empty text removes it."""
    if sys.stderr.isatty():
        print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)


def print_result(output: OutputFormat, result: JsonValue, lines: Iterable[str]) -> None:
    """Print the result of a command as one JSON document, or as lines.

    >>> print_result(OutputFormat.TEXT, ["a"], ["wrote a"])
    wrote a
    >>> print_result(OutputFormat.JSON, ["a"], ["wrote a"])
    [
      "a"
    ]
    """
    if output is OutputFormat.JSON:
        print_json(result)
    else:
        for line in lines:
            print(line)


def print_json(result: JsonValue) -> None:
    """Print a result for programs."""
    print(json.dumps(result, indent=2))


def print_files(output: OutputFormat, actions: Mapping[Path, str]) -> None:
    """Print the files that a command wrote: rows with ``path`` and ``action``, or one per line.

    Args:
        output: the form.
        actions: ``wrote`` or ``changed`` by path. Paths below the current folder are printed relative to it.

    >>> print_files(OutputFormat.TEXT, {Path.cwd() / "dist" / "install.yaml": "wrote"})
    wrote dist/install.yaml
    """
    here = Path.cwd()
    names = {str(p.relative_to(here) if p.is_relative_to(here) else p): action for p, action in actions.items()}
    rows: list[JsonValue] = [{"path": name, "action": action} for name, action in names.items()]
    print_result(output, rows, (f"{action} {name}" for name, action in names.items()))


def print_table(rows: Table) -> None:
    """Print a table: as wide as the terminal, or as wide as its cells need when standard output is not a terminal."""
    console = Console()
    if not sys.stdout.isatty():
        unlimited = console.options.update(width=sys.maxsize)
        console = Console(width=Measurement.get(console, unlimited, rows).maximum)
    console.print(rows)
