"""``opsdk verify``: attacks an operator at each place of many short runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Final

import typer

from opsdk.builder.operator import Operator
from opsdk.cli.loading import load_operator, operator_reference
from opsdk.cli.output import Output, OutputFormat, print_result, show_progress
from opsdk.cli.plan.inputs import load_doubles
from opsdk.cli.plan.options import AllowedHosts, DoublesName, OperatorArgument
from opsdk.cli.validate.documents import read_files
from opsdk.cli.verify_all import Exhaustive, explore_workloads
from opsdk.cli.verify_command import (
    Checks,
    Command,
    CommandInputs,
    Definitions,
    Parallel,
    Patience,
    Quiet,
    Workloads,
    verify_command,
)
from opsdk.engine.environments import import_envtest
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.doubles import factory_of
from opsdk.testing.simulation.declaration import RunningEnvironment
from opsdk.verification.checks import parse_check
from opsdk.verification.disturbances import DEFAULT_KINDS, DisturbanceKind
from opsdk.verification.foreign.run import Timing
from opsdk.verification.generated import GeneratedVerification, generated_verification
from opsdk.verification.generated_run import GeneratedSummary, check_generated
from opsdk.verification.guided_run import outside_text
from opsdk.verification.oracles import Oracle
from opsdk.verification.verify import BrokenRun, VerificationSummary, run_verification

_BROKEN: Final = 2
_UNVERIFIED: Final = 1
_OPERATIONS: Final = 60
_COMMAND_OPERATIONS: Final = 6
"""Operations on each kind of a command, whose runs take real time."""
_UNDISTURBED: Final = 0.4
"""The part of the time that runs without a disturbance may take."""
ForeignChanges = Annotated[
    bool, typer.Option("--foreign-changes", help="also delete and edit each child, as a foreign client")
]
"""The option ``--foreign-changes``."""


def verify(
    operator: OperatorArgument = "",
    command: Command = None,
    *,
    example: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="custom resources to begin with, and to take values from")
    ] = None,
    operations: Annotated[
        int | None, typer.Option(min=1, help="operations on each kind; default: 60, of a command 6")
    ] = None,
    time_limit: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="time for all runs")] = 600,
    doubles: DoublesName = "",
    allow_host: AllowedHosts = None,
    seed: Annotated[int, typer.Option(help="chooses the order of the fields")] = 0,
    foreign_changes: ForeignChanges = False,
    exhaustive: Exhaustive = False,
    workload: Workloads = None,
    crds: Definitions = None,
    check: Checks = None,
    quiet: Quiet = 2,
    patience: Patience = 75,
    parallel: Parallel = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Attack an operator: crash it after each write, lose answers, refuse writes, hold back and hide events.

    Custom resources are generated from the definitions: objects are created, changed, rolled back and deleted, on a
    local API server in virtual time. The last custom resource alone must decide what the operator makes of it. Then
    each short run is repeated with each disturbance. What the operator decided must be the same as without. With
    --exhaustive, each run is repeated in every order of what happens at once, with one crash and one stale view.

    Exits with status 0 if the operator survives, 2 if it does not, and 1 if it cannot be verified.

    opsdk verify

    opsdk verify greeter.py --example greeting.yaml --time-limit 60

    opsdk verify --exhaustive --operations 4

    opsdk verify --crds crds --workload workload.yaml -- ./manager --metrics-bind-address :{port}
    """
    if workload or crds or command:
        inputs = CommandInputs(
            words=[*filter(None, [operator]), *(command or ())], workloads=workload or (), definitions=crds or (),
            examples=example or (), checks=check or (), operations=operations or _COMMAND_OPERATIONS, seed=seed,
        )  # fmt: skip
        timing = Timing(quiet=quiet, patience=patience)
        raise typer.Exit(verify_command(inputs, timing, time_limit=time_limit, parallel=parallel or 1, output=output))
    verification = _generated(
        operator, doubles, example or (), operations=operations or _OPERATIONS, seed=seed, exhaustive=exhaustive,
        allowed_hosts=allow_host or (), checks=check or (),
    )  # fmt: skip
    if exhaustive:
        raise typer.Exit(explore_workloads(verification, time_limit=time_limit, processes=parallel or 0, output=output))
    kinds = tuple(DisturbanceKind) if foreign_changes else DEFAULT_KINDS
    raise typer.Exit(_attack(verification, kinds, time_limit=time_limit, parallel=parallel, output=output))


def _attack(
    verification: GeneratedVerification, kinds: Sequence[DisturbanceKind], *,
    time_limit: float, parallel: int | None, output: OutputFormat,
) -> int:  # fmt: skip
    """Run the workloads without and with each disturbance. Returns the status of the command."""
    undisturbed = check_generated(verification, time_limit=time_limit * _UNDISTURBED, progress=_show_check)
    summary = run_verification(
        verification.declared, verification.workloads, kinds=kinds, time_limit=time_limit - undisturbed.seconds,
        processes=parallel or os.cpu_count() or 1, progress=_show_progress,
    )  # fmt: skip
    show_progress("")
    connections = list({**undisturbed.connections, **summary.connections})
    lines = [*_undisturbed_lines(undisturbed), *map(outside_text, connections), *_lines(verification, summary)]
    report = {**_undisturbed_as_json(undisturbed), "connections": connections, **_as_json(verification, summary)}
    print_result(output, report, lines)
    if summary.broken or undisturbed.findings:
        return _BROKEN
    return _UNVERIFIED if connections else 0


def _generated(
    operator: str, doubles: str, examples: Sequence[Path], *, operations: int, seed: int, exhaustive: bool,
    allowed_hosts: Sequence[str], checks: Sequence[str],
) -> GeneratedVerification:  # fmt: skip
    """Return the workloads of an operator of opsdk: short ones without pods, if all their schedules are run."""
    reference = operator_reference(operator)
    envtest = import_envtest("a verification runs the operator")

    def environment(definitions: Sequence[JsonObject]) -> AbstractAsyncContextManager[RunningEnvironment]:
        running: AbstractAsyncContextManager[RunningEnvironment] = envtest.Environment(
            controllers="none" if exhaustive else "cluster", controller_events=False, crds=definitions
        )
        return running

    own_doubles = load_doubles(operator, doubles)
    return generated_verification(
        factory_of(None if own_doubles else lambda: fresh_operator(reference), own_doubles),
        environment=environment,
        examples=[document.tree for document in read_files(examples)],
        operations=operations,
        per_workload=1 if exhaustive else 3,
        seed=seed,
        allowed_hosts=allowed_hosts,
        checks=[parse_check(text) for text in checks],
    )


def fresh_operator(reference: str) -> Operator:
    """Return an operator from a package that is imported anew: a process that starts again remembers nothing."""
    package = Path(reference.partition(":")[0]).stem.partition(".")[0]
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]
    return load_operator(reference)


def _show_progress(summary: VerificationSummary) -> None:
    show_progress(f"{summary.workloads} workloads, {sum(summary.runs.values())} disturbances, {summary.bugs}")


def _show_check(summary: GeneratedSummary) -> None:
    show_progress(f"{summary.runs} runs without a disturbance, {len(summary.findings)} bugs")


def _undisturbed_lines(summary: GeneratedSummary) -> Iterator[str]:
    yield from map(str, summary.findings)
    yield from summary.advice
    yield str(summary)


def _undisturbed_as_json(summary: GeneratedSummary) -> JsonObject:
    return {
        "findings": [
            {
                "oracle": each.oracle.value,
                "operation": each.operation,
                "differences": list(each.differences),
                "workload": list(each.workload),
            }
            for each in summary.findings
        ],
        "oracles": {oracle.value: summary.checks[oracle] for oracle in Oracle},
        "advice": list(summary.advice),
    }


def _lines(verification: GeneratedVerification, summary: VerificationSummary) -> Iterator[str]:
    for run in summary.broken:
        yield str(run)
    for kind, workload in verification.generated.items():
        yield f"{kind}: {len(workload.operations)} operations"
        yield from (f"  {sentence}" for sentence in workload.cut)
        yield from (f"  not changed: {field}" for field in workload.unchanged)
    yield str(summary)


def _as_json(verification: GeneratedVerification, summary: VerificationSummary) -> JsonObject:
    return {
        "broken": [_broken_as_json(run) for run in summary.broken],
        "workloads": summary.workloads,
        "runs": {kind.value: count for kind, count in sorted(summary.runs.items())},
        "omitted": summary.omitted,
        "seconds": round(summary.seconds, 1),
        "kinds": {
            kind: {
                "operations": len(workload.operations),
                "cut": list(workload.cut),
                "unchanged": [str(field) for field in workload.unchanged],
            }
            for kind, workload in verification.generated.items()
        },
    }


def _broken_as_json(run: BrokenRun) -> JsonObject:
    return {
        "disturbance": str(run.disturbance or ""),
        "violations": list(run.violations),
        "workload": [step.name for step in run.steps],
        "journal": run.journal,
    }
