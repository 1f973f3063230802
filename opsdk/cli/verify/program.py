"""``opsdk verify -- COMMAND``: attacks an operator in another process, in any language."""

from __future__ import annotations

import asyncio
import shlex
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from opsdk.apimachinery.serializer.documents import SyntaxProblemError
from opsdk.apimachinery.serializer.yaml_documents import parse_yaml
from opsdk.cli.exit_status import ExitStatus
from opsdk.cli.generate.sources import read_all_definitions
from opsdk.cli.output import show_progress
from opsdk.cli.validate.documents import read_files
from opsdk.cli.verify.files import ReportedBug, ReportOutputs, VerifyResult
from opsdk.cli.verify.inputs import AttackLimits
from opsdk.engine.environments import defined_environment
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.checks import parse_check
from opsdk.verification.disturbances import NOTHING_ATTACKED, counts_of, rule_of, title_of
from opsdk.verification.foreign.child import open_command
from opsdk.verification.foreign.report import APPLY_IT, ForeignSummary
from opsdk.verification.foreign.run import ForeignSubject, Timing
from opsdk.verification.foreign.verify import ForeignVerification
from opsdk.verification.foreign.workload import UserWorkload, generated_workloads, parse_workload
from opsdk.verification.workload.operations import GeneratedWorkload
from opsdk.verification.workload.transitions import WorkloadOptions, generate_workload

_DISTURBANCES: Final = 40
"""Disturbances by default: each takes seconds of real time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandInputs:
    """What is verified of a command, as the command line names it.

    Attributes:
        words: the command.
        workloads: files with steps; without any, they are generated from the definitions.
        definitions: sources of CustomResourceDefinitions, as `read_definitions` reads them.
        examples: custom resources to begin generated workloads with.
        checks: as ``KIND:EXPRESSION``.
        operations: number of generated operations on each kind.
        seed: chooses the order of the fields.
        kubernetes: the version of the local API server; None for the default.
    """

    words: Sequence[str]
    workloads: Sequence[Path]
    definitions: Sequence[str]
    examples: Sequence[Path]
    checks: Sequence[str]
    operations: int
    seed: int
    kubernetes: str | None = None

    @property
    def name(self) -> str:
        """The command, as one line."""
        return shlex.join(self.words)

    def read_workloads(self, definitions: Sequence[JsonObject]) -> tuple[list[UserWorkload], list[str]]:
        """Return the workloads, and what generated ones leave out.

        Raises:
            UsageError: there is no command, or nothing to do for it.
            WorkloadError: a workload cannot be read.
            NoCustomResourceError: a schema admits nothing.
        """
        if not self.words:
            raise UsageError("there is no command: add it at the end, after --")
        if self.workloads:
            return [_read_workload(file) for file in self.workloads], []
        if not definitions:
            raise UsageError("a command needs --workload, with the steps of a user, or --crds to generate them")
        workloads, left_out = list[UserWorkload](), list[str]()
        for definition in definitions:
            generated = self._generated(definition)
            names, group = definition["spec"]["names"], definition["spec"]["group"]
            workloads += generated_workloads(f"{names['plural']}.{group}", generated)
            left_out += (f"{names['kind']}: {text}" for text in generated.left_out())
        return workloads, left_out

    def _generated(self, definition: JsonObject) -> GeneratedWorkload:
        kind = definition["spec"]["names"]["kind"]
        examples = [each.tree for each in read_files(self.examples) if each.tree["kind"] == kind]
        options = WorkloadOptions(operations=self.operations, seed=self.seed)
        return generate_workload(definition, examples=examples, options=options)


def verify_command(inputs: CommandInputs, timing: Timing, limits: AttackLimits, outputs: ReportOutputs) -> int:
    """Verify a command, print what it does not survive, and return the exit status.

    Raises:
        OpsdkError: it cannot be verified.
    """
    with outputs.with_errors(inputs.name):
        summary = asyncio.run(_until_sigterm(_verification(inputs, timing, limits)))
    show_progress("")
    outputs.publish(summary.as_json(), summary.lines(), _result(inputs.name, summary))
    if summary.broken:
        return ExitStatus.FOUND
    if not summary.runs or summary.absent_namespaces.names:
        return ExitStatus.ERROR
    return ExitStatus.UNFINISHED if summary.unfinished else ExitStatus.SUCCESS


async def _until_sigterm(verification: ForeignVerification) -> ForeignSummary:
    """Run a verification. SIGTERM cancels it at its next await, as Ctrl-C does: its processes are killed by then.

    An exception from a handler could come between the start of a process and the list of processes.
    """
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread can set handlers.
        return await verification.run()
    loop, task, received = asyncio.get_running_loop(), asyncio.current_task(), list[int]()
    assert task is not None

    def stop() -> None:
        received.append(signal.SIGTERM)
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        return await verification.run()
    except asyncio.CancelledError:
        if received:
            raise SystemExit(128 + signal.SIGTERM) from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def _verification(inputs: CommandInputs, timing: Timing, limits: AttackLimits) -> ForeignVerification:
    # A restart into the past needs old revisions. A program in another process takes no virtual time.
    make = defined_environment(kubernetes=inputs.kubernetes, compaction_interval=0, hot_loop_limit=0)
    definitions = read_all_definitions(inputs.definitions)
    workloads, left_out = inputs.read_workloads(definitions)

    subject = ForeignSubject(
        environment=partial(make, definitions),
        open_operator=open_command(inputs.words),
        checks=[parse_check(text) for text in inputs.checks],
        timing=timing,
    )
    verification = ForeignVerification(
        subject, workloads, budget=limits.disturbances or _DISTURBANCES, time_limit=limits.seconds,
        parallel=limits.processes or 1, progress=_show_progress,
    )  # fmt: skip
    verification.summary.left_out = left_out
    return verification


def _result(name: str, summary: ForeignSummary) -> VerifyResult:
    """Return what files get."""
    bugs = tuple(
        ReportedBug(rule=rule_of(run.disturbance), title=title_of(run.disturbance), text=str(run))
        for run in summary.broken
    )
    left_out = counts_of(summary.omitted)
    if summary.omitted_workloads:
        left_out["workloads"] = summary.omitted_workloads
    tried = counts_of(summary.runs)
    absent = [] if bugs else summary.absent_namespaces.texts(APPLY_IT)
    error = "\n".join([*absent, *([] if bugs or summary.runs else [NOTHING_ATTACKED])])
    return VerifyResult(
        name=name, tried=tried, bugs=bugs, left_out=left_out, error=error, seconds=summary.seconds
    )  # fmt: skip


def _show_progress(summary: ForeignSummary) -> None:
    planned = summary.planned.total() or "?"
    show_progress(f"{summary.workloads} workloads, {summary.runs.total()} of {planned} disturbances, {summary.bugs}")


def _read_workload(file: Path) -> UserWorkload:
    try:
        tree = parse_yaml(file.read_bytes()).tree
    except (OSError, SyntaxProblemError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
    return parse_workload(str(file), tree, lambda name: [each.tree for each in read_files([file.parent / name])])
