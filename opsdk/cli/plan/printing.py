"""Prints plans, and makes exit statuses of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from rich.console import Console

from opsdk.cli.exit_status import ExitStatus
from opsdk.cli.output import print_json
from opsdk.cli.plan.options import PlanFormat
from opsdk.engine.plan import ConsequenceKind, Plan
from opsdk.engine.plan_text import StyledLine, markdown_lines, text_lines

__all__ = ["plan_status", "print_lines", "print_plan"]


def print_plan(planned: Plan, output: PlanFormat) -> None:
    """Print a plan to standard output."""
    if output is PlanFormat.JSON:
        print_json(msgspec.to_builtins(planned))
    elif output is PlanFormat.MARKDOWN:
        print("\n".join(markdown_lines(planned)))
    else:
        print_lines(text_lines(planned))


def print_lines(lines: Iterable[StyledLine]) -> None:
    """Print styled lines to standard output."""
    console = Console(soft_wrap=True, highlight=False)
    for line in lines:
        console.print(line.text, style=line.style, markup=False)


def plan_status(planned: Plan, *, allow_unseen: bool = False, fail_on: Sequence[ConsequenceKind] = ()) -> int:
    """Return the exit status: 0 if nothing changes, 2 if something does, 3 for danger, 1 if the plan is not whole.

    What the operator writes to kinds that were not read may be a change: then the status is not 0. Beside another
    version, both may write the same.
    """
    if planned.connections or (planned.blind and not allow_unseen):
        return ExitStatus.ERROR
    if any(each.kind in fail_on for each in planned.consequences) if fail_on else planned.is_dangerous:
        return ExitStatus.DANGER
    may_change = bool(planned.unknown) and not planned.against
    return ExitStatus.SUCCESS if planned.is_empty and not may_change else ExitStatus.FOUND
