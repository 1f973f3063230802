"""``opsdk verify``: attacks an operator at each place of many short runs."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

import typer

from opsdk.cli.loading import OperatorArgument
from opsdk.cli.output import Output, OutputFormat, show_progress
from opsdk.cli.plan.options import AllowedHosts, DoublesName
from opsdk.cli.plan.processes import stopped_by_sigterm
from opsdk.cli.target import KubernetesOption
from opsdk.cli.validate.documents import read_files
from opsdk.cli.verify import options
from opsdk.cli.verify.exhaustive import explore_workloads
from opsdk.cli.verify.files import ReportOutputs
from opsdk.cli.verify.inputs import OPERATIONS, AttackLimits, OperatorInputs
from opsdk.cli.verify.process import check_processes
from opsdk.cli.verify.program import CommandInputs, verify_command
from opsdk.cli.verify.report import GeneratedReport
from opsdk.verification.disturbances import DEFAULT_KINDS, DisturbanceKind
from opsdk.verification.foreign.run import Timing
from opsdk.verification.generated import GeneratedVerification
from opsdk.verification.generated_run import GeneratedSummary, check_generated
from opsdk.verification.life.run import check_life
from opsdk.verification.verify import DISTURBANCES, VerificationSummary, run_verification

_COMMAND_OPERATIONS: Final = 6
"""Operations on each kind of a command, whose runs take real time."""
_UNDISTURBED: Final = 0.4
"""The part of the time that runs without a disturbance may take."""


def verify(
    operator: OperatorArgument = "",
    command: options.Command = None,
    *,
    example: options.Examples = None,
    operations: options.Operations = None,
    disturbances: options.Budget = None,
    time_limit: options.TimeLimit = 600,
    doubles: DoublesName = "",
    allow_host: AllowedHosts = None,
    seed: options.Seed = 0,
    foreign_changes: options.ForeignChanges = False,
    exhaustive: options.Exhaustive = False,
    workload: options.Workloads = None,
    crds: options.Definitions = None,
    check: options.Checks = None,
    ignore: options.Ignored = None,
    kubernetes: KubernetesOption = None,
    quiet: options.Quiet = 2,
    patience: options.Patience = 75,
    parallel: options.Parallel = None,
    output: Output = OutputFormat.TEXT,
    junit: options.Junit = None,
    sarif: options.Sarif = None,
) -> None:
    """Attack an operator: crash it after each write, lose answers, refuse writes, hold back and hide events.

    Custom resources are generated from the definitions, and written to a local API server in virtual time. The last one
    alone must decide what the operator makes of it. Then each short run is repeated with disturbances, and must end as
    without. With --exhaustive, each is repeated in every order of what happens at once.

    Exits with status 0 if the operator survives all of them, 2 if not, 4 if the time ended before, 1 if it cannot run.

    opsdk verify

    opsdk verify greeter.py --example greeting.yaml --time-limit 60

    opsdk verify --exhaustive --operations 4

    opsdk verify --crds crds --workload workload.yaml -- ./manager --metrics-bind-address :{port}
    """
    limits = AttackLimits(disturbances=disturbances, seconds=time_limit, processes=parallel)
    outputs = ReportOutputs(output=output, junit=junit, sarif=sarif)
    is_here = not operator or operator.endswith(".py") or ":" in operator
    if workload or command or (crds and not is_here):
        inputs = CommandInputs(
            words=[*filter(None, [operator]), *(command or ())], workloads=workload or (), definitions=crds or (),
            examples=example or (), checks=check or (), operations=operations or _COMMAND_OPERATIONS, seed=seed,
            kubernetes=kubernetes,
        )  # fmt: skip
        raise typer.Exit(verify_command(inputs, Timing(quiet=quiet, patience=patience), limits, outputs))
    chosen = OperatorInputs(
        operator=operator, doubles=doubles, allowed_hosts=allow_host or (), checks=check or (), exhaustive=exhaustive,
        examples=[each.tree for each in read_files(example or ())], operations=operations or OPERATIONS, seed=seed,
        ignored=ignore or (), definitions=crds or (), kubernetes=kubernetes,
    )  # fmt: skip
    attack = explore_workloads if exhaustive else partial(_attack, foreign_changes=foreign_changes)
    with outputs.with_errors(chosen.reference):
        raise typer.Exit(attack(chosen, chosen.generated(), limits, outputs))


@stopped_by_sigterm()
def _attack(
    inputs: OperatorInputs,
    verification: GeneratedVerification,
    limits: AttackLimits,
    outputs: ReportOutputs,
    *,
    foreign_changes: bool,
) -> int:
    """Run the workloads without and with each disturbance. Returns the status of the command."""
    began = time.monotonic()
    undisturbed = check_generated(verification, time_limit=limits.seconds * _UNDISTURBED, progress=_show_check)
    check_life(verification, undisturbed)
    if not undisturbed.connections:
        check_processes(inputs, undisturbed)
    disturbed = run_verification(
        verification.declared,
        verification.workloads,
        kinds=tuple(DisturbanceKind) if foreign_changes else DEFAULT_KINDS,
        time_limit=limits.seconds - (time.monotonic() - began),
        budget=limits.disturbances or DISTURBANCES,
        processes=limits.all_processes,
        with_standby=verification.elects_leader,
        outcomes=undisturbed.outcomes,
        progress=_show_progress,
    )
    show_progress("")
    report = GeneratedReport(inputs=inputs, verification=verification, undisturbed=undisturbed, disturbed=disturbed)
    outputs.publish(report.as_json(), report.lines(), report.result())
    return report.status


def _show_progress(summary: VerificationSummary) -> None:
    show_progress(f"{summary.workloads} workloads, {sum(summary.runs.values())} disturbances, {summary.bugs}")


def _show_check(summary: GeneratedSummary) -> None:
    show_progress(f"{summary.runs} runs without a disturbance, {len(summary.findings)} bugs")
