"""Commands that change a cluster or files of a project: the options ``--yes`` and ``--dry-run``, and the question."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="make the changes without a question")]
"""The option ``--yes``."""
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="print the changes without making them")]
"""The option ``--dry-run``."""


def check_consent(*, yes: bool, dry_run: bool, changed: str) -> None:
    """Check the options of a command line.

    Args:
        yes: of ``--yes``.
        dry_run: of ``--dry-run``.
        changed: what the command changes, for the message: ``a cluster``.

    Raises:
        typer.BadParameter: both are set, or neither is and there is no terminal for the question.
    """
    if yes and dry_run:
        raise typer.BadParameter("--yes and --dry-run are mutually exclusive: pass one of them")
    if not (yes or dry_run or sys.stdin.isatty()):
        raise typer.BadParameter(
            f"this command changes {changed}, and there is no terminal for the question: "
            "pass --yes, or --dry-run to print the changes"
        )


def ask() -> None:
    """Ask whether to make the printed changes. Raises `typer.Exit` with 1 if the answer is no."""
    print("Make these changes? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        print("nothing was changed", file=sys.stderr)
        raise typer.Exit(1)
