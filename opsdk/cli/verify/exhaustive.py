"""``opsdk verify --exhaustive``: every schedule of short workloads."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from opsdk.cli.exit_status import ExitStatus
from opsdk.cli.output import OutputFormat, print_result, show_progress
from opsdk.cli.plan.processes import stopped_by_sigterm
from opsdk.cli.verify.files import ReportedBug, ReportOutputs, VerifyResult
from opsdk.cli.verify.inputs import AttackLimits, OperatorInputs
from opsdk.cli.verify.printed_tests import transition_test
from opsdk.cli.verify.report import test_lines
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.exploration.explore import Exploration, explore
from opsdk.verification.generated import GeneratedRun, GeneratedVerification
from opsdk.verification.workload_gaps import WorkloadGaps

_RANDOM: Final = (
    "the operator draws random numbers, which are others in each order: "
    "let the custom resource alone decide what it writes"
)


@stopped_by_sigterm()
def explore_workloads(
    inputs: OperatorInputs,
    verification: GeneratedVerification,
    limits: AttackLimits,
    outputs: ReportOutputs,
) -> int:
    """Explore one workload after the other until the time is over. Returns the status of the command.

    The search ends with the first workload that the operator does not survive. The seed is that of the order of tasks.
    """
    deadline = time.monotonic() + limits.seconds
    explorations: dict[str, Exploration] = {}
    tests: dict[str, list[str]] = {}
    gaps = WorkloadGaps(verification.generated)
    for run in verification.runs:
        name = _name_of(run)
        exploration = explorations[name] = explore(
            verification.declared,
            run.workload,
            order=inputs.seed or None,
            time_limit=deadline - time.monotonic(),
            processes=limits.all_processes,
            progress=lambda states, name=name: show_progress(f"{name}: {states} states"),  # type: ignore[misc]
        )
        show_progress("")
        gaps.note(run, exploration.reference)
        transition = run.transition()
        tests[name] = [
            transition_test(inputs, "exhaustive", transition, schedule=each.schedule)
            for each in exploration.counterexamples
        ]
        if outputs.output is OutputFormat.TEXT:
            print_result(outputs.output, None, _lines(name, exploration, tests[name]))
        if exploration.counterexamples or time.monotonic() > deadline:
            break
    omitted = len(verification.runs) - len(explorations)
    advice = list(gaps.advice())
    if any(each.counterexamples and each.reference.draws_random for each in explorations.values()):
        advice.append(_RANDOM)
    reason = "for lack of time" if time.monotonic() > deadline else "after the first bug"
    lines = [*advice, f"{omitted} workloads left {reason}"] if omitted else advice
    workloads = {name: _as_json(each, tests[name]) for name, each in explorations.items()}
    result = {"workloads": workloads, "omitted": omitted, "advice": advice}
    bugs = [
        ReportedBug(rule="exhaustive", title=f"{name}: {each.violations[0]}", text=str(each))
        for name, exploration in explorations.items()
        for each in exploration.counterexamples
    ]
    left_out = {"workloads": omitted} if omitted and not bugs else {}
    tried = {"exhaustive": len(explorations)}
    outputs.publish(
        result, lines, VerifyResult(name=inputs.reference, tried=tried, bugs=tuple(bugs), left_out=left_out)
    )
    if any(each.counterexamples for each in explorations.values()):
        return ExitStatus.FOUND
    if not gaps.says_something(has_systems=verification.has_systems):
        return ExitStatus.ERROR
    return ExitStatus.UNFINISHED if omitted else ExitStatus.SUCCESS


def _name_of(run: GeneratedRun) -> str:
    """Return what a workload changes between the creation and the deletion of its object."""
    return "; ".join(each.step.name for each in run.steps[1:-1]) or run.steps[0].step.name


def _lines(name: str, exploration: Exploration, tests: Sequence[str]) -> Iterator[str]:
    yield f"{name}: {exploration}"
    for counterexample, test in zip(exploration.counterexamples, tests, strict=True):
        yield str(counterexample)
        yield from test_lines(test)


def _as_json(exploration: Exploration, tests: Sequence[str]) -> JsonObject:
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
                "test": test,
            }
            for each, test in zip(exploration.counterexamples, tests, strict=True)
        ],
    }
