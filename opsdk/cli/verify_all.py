"""``opsdk verify --exhaustive``: every schedule of short workloads."""

from __future__ import annotations

import time
from typing import Annotated, Final

import typer

from opsdk.cli.output import OutputFormat, print_result, show_progress
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.exploration.explore import Exploration, explore
from opsdk.verification.generated import GeneratedRun, GeneratedVerification

_BROKEN: Final = 2

Exhaustive = Annotated[bool, typer.Option("--exhaustive", help="run every schedule with one crash and one stale view")]
"""The option ``--exhaustive``."""


def explore_workloads(
    verification: GeneratedVerification, *, order: int | None, time_limit: float, processes: int, output: OutputFormat
) -> int:
    """Explore one workload after the other until the time is over. Returns the status of the command.

    The search ends with the first workload that the operator does not survive. For `order` see `explore`.
    """
    deadline = time.monotonic() + time_limit
    explorations: dict[str, Exploration] = {}
    for run in verification.runs:
        name = _name_of(run)
        exploration = explorations[name] = explore(
            verification.declared,
            run.workload,
            order=order,
            time_limit=deadline - time.monotonic(),
            processes=processes,
            progress=lambda states, name=name: show_progress(f"{name}: {states} states"),  # type: ignore[misc]
        )
        show_progress("")
        if output is OutputFormat.TEXT:
            print_result(output, None, [f"{name}: {exploration}", *map(str, exploration.counterexamples)])
        if exploration.counterexamples or time.monotonic() > deadline:
            break
    omitted = len(verification.runs) - len(explorations)
    lines = [f"{omitted} workloads left for lack of time"] if omitted else []
    result = {"workloads": {name: _as_json(each) for name, each in explorations.items()}, "omitted": omitted}
    print_result(output, result, lines)
    return _BROKEN if any(each.counterexamples for each in explorations.values()) else 0


def _name_of(run: GeneratedRun) -> str:
    """Return what a workload changes between the creation and the deletion of its object."""
    return "; ".join(each.step.name for each in run.steps[1:-1]) or run.steps[0].step.name


def _as_json(exploration: Exploration) -> JsonObject:
    return {
        "complete": exploration.complete,
        "states": exploration.states,
        "runs": exploration.runs,
        "seconds": round(exploration.seconds, 1),
        "counterexamples": [
            {
                "schedule": [str(choice) for choice in each.schedule],
                "violations": list(each.violations),
                "journal": each.journal,
            }
            for each in exploration.counterexamples
        ],
    }
