"""What ``opsdk verify`` reports of an operator of opsdk, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from opsdk.cli.exit_status import ExitStatus
from opsdk.cli.verify.files import ReportedBug, VerifyResult
from opsdk.cli.verify.inputs import OperatorInputs
from opsdk.cli.verify.printed_tests import life_test, transition_test
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.causes import Cause
from opsdk.verification.disturbances import NEEDS_STANDBY, NOTHING_ATTACKED, counts_of, rule_of
from opsdk.verification.generated import GeneratedVerification
from opsdk.verification.generated_run import GeneratedSummary
from opsdk.verification.guided_run import outside_text
from opsdk.verification.oracles import Oracle, OracleFinding
from opsdk.verification.state_comparison import RECORD_NAMES
from opsdk.verification.verify import BrokenRun, VerificationSummary

__all__ = ["GeneratedReport", "test_lines"]


_NEVER: Final = (
    "objects without a controller that have the name of a child: ctx.apply adopts them",
    f"fields that record the past by their names: {', '.join(RECORD_NAMES)}",
    "a default or a version of a definition that changes while objects exist",
    "what pods, nodes and networks do: pods are ready at once, and nothing runs in them",
    "races of threads, and what many objects cost",
)


_OF_THE_WAY: Final = (Oracle.PATH_INDEPENDENCE, Oracle.RECOVERY, Oracle.LEFT_OVER)
_ON_PURPOSE: Final = (
    "objects that record the past on purpose: --ignore RESOURCE, or --ignore RESOURCE:PATH for a field; "
    "verify-ignore in pyproject.toml declares it once"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedReport:
    """What the workloads of an operator show.

    Attributes:
        inputs: the operator, as the command line names it.
        verification: its workloads.
        undisturbed: what runs without a disturbance show.
        disturbed: what the others show.
    """

    inputs: OperatorInputs
    verification: GeneratedVerification
    undisturbed: GeneratedSummary
    disturbed: VerificationSummary

    @property
    def connections(self) -> list[str]:
        """Targets outside of the simulated cluster, each once."""
        return list({**self.undisturbed.connections, **self.disturbed.connections})

    @property
    def advice(self) -> list[str]:
        """What makes the verification weak, and what to do."""
        return [*self.undisturbed.advice, *self.disturbed.advice()]

    @property
    def without_standby(self) -> str:
        """Why the kinds that need a standby were left out; empty if they were run."""
        if self.disturbed.with_standby or not self.disturbed.runs:
            return ""
        kinds = " and ".join(sorted(kind.value for kind in NEEDS_STANDBY))
        if self.verification.elects_leader:
            return f"{kinds}, for lack of time: pass a longer --time-limit"
        return f"{kinds}: the operator elects no leader; set leader_election in its options"

    @property
    def status(self) -> int:
        """The exit status of the command."""
        if self.disturbed.broken or self.undisturbed.findings:
            return ExitStatus.FOUND
        if self.connections or not self.undisturbed.says_something or not self.disturbed.runs:
            return ExitStatus.ERROR
        return ExitStatus.UNFINISHED if self.unfinished else ExitStatus.SUCCESS

    @property
    def unfinished(self) -> bool:
        """Whether the time limit has left out a part."""
        no_standby = self.verification.elects_leader and not self.disturbed.with_standby
        return bool(self.disturbed.omitted or self.undisturbed.omitted or no_standby)

    @property
    def never(self) -> list[str]:
        """What no run of this command can show."""
        if self.verification.has_systems:
            external = "what a real external system does that its double does not"
        else:
            external = "external systems: declare doubles if the operator has some"
        return [external, *_NEVER]

    def lines(self) -> Iterator[str]:
        """Yield the report for people."""
        for finding in self.undisturbed.findings:
            yield str(finding)
            yield from test_lines(self._test_of_finding(finding))
        if any(finding.oracle in _OF_THE_WAY for finding in self.undisturbed.findings):
            yield _ON_PURPOSE
        yield from self.advice
        yield str(self.undisturbed)
        yield from map(outside_text, self.connections)
        for run in self.disturbed.broken:
            yield str(run)
            yield from test_lines(self._test_of_run(run))
        for kind, workload in self.verification.generated.items():
            yield f"{kind}: {len(workload.operations)} operations"
            yield from (f"  {sentence}" for sentence in workload.left_out())
        if self.without_standby:
            yield f"left out: {self.without_standby}"
        yield "never shown here:"
        yield from (f"  {each}" for each in self.never)
        if not self.disturbed.runs:
            yield NOTHING_ATTACKED
        elif self.unfinished:
            yield "unfinished: pass a longer --time-limit"
        yield str(self.disturbed)

    def result(self) -> VerifyResult:
        """Return what files get."""
        findings, disturbed = self.undisturbed.findings, self.disturbed
        bugs = [_bug(each.oracle.value, f"{each.oracle.value}: {each.operation}", each) for each in findings]
        bugs += [_bug(rule_of(run.disturbance), run.title, run) for run in disturbed.broken]
        tried = {oracle.value: self.undisturbed.checks[oracle] for oracle in Oracle}
        tried |= counts_of(disturbed.runs)
        left_out = counts_of(disturbed.omitted)
        if self.undisturbed.omitted:
            left_out["workloads"] = self.undisturbed.omitted
        is_bare = self.status == ExitStatus.ERROR
        error = "\n".join([*map(outside_text, self.connections), *self.advice] or [NOTHING_ATTACKED]) if is_bare else ""
        return VerifyResult(
            name=self.inputs.reference, tried=tried, bugs=tuple(bugs), left_out=left_out, error=error,
            seconds=self.undisturbed.seconds + disturbed.seconds,
        )  # fmt: skip

    def as_json(self) -> JsonObject:
        """Return the report for programs."""
        disturbed = self.disturbed
        return {
            "findings": [self._finding_as_json(each) for each in self.undisturbed.findings],
            "oracles": {oracle.value: self.undisturbed.checks[oracle] for oracle in Oracle},
            "advice": self.advice,
            "connections": self.connections,
            "broken": [self._run_as_json(run) for run in disturbed.broken],
            "workloads": disturbed.workloads,
            "with_standby": disturbed.with_standby,
            "runs": counts_of(disturbed.runs),
            "omitted": counts_of(disturbed.omitted),
            "beyond": counts_of(disturbed.beyond),
            "never": self.never,
            "unfinished": self.unfinished,
            "seconds": round(disturbed.seconds, 1),
            "kinds": {
                kind: {
                    "operations": len(workload.operations),
                    "cut": list(workload.cut),
                    "unchanged": [str(field) for field in workload.unchanged],
                }
                for kind, workload in self.verification.generated.items()
            },
        }

    def _finding_as_json(self, finding: OracleFinding) -> JsonObject:
        return {
            "oracle": finding.oracle.value,
            "operation": finding.operation,
            "differences": list(finding.differences),
            "causes": [_cause_as_json(each) for each in finding.causes],
            "workload": list(finding.workload),
            "test": self._test_of_finding(finding),
        }

    def _run_as_json(self, run: BrokenRun) -> JsonObject:
        return {
            "disturbance": str(run.disturbance or ""),
            "replicas": run.replicas,
            "violations": list(run.violations),
            "causes": [_cause_as_json(each) for each in run.causes],
            "workload": [step.name for step in run.steps],
            "journal": run.journal,
            "test": self._test_of_run(run),
        }

    def _test_of_finding(self, finding: OracleFinding) -> str:
        if finding.transition is None:
            return life_test(self.inputs, finding)
        return transition_test(self.inputs, f"{finding.oracle.value}: {finding.operation}", finding.transition)

    def _test_of_run(self, run: BrokenRun) -> str:
        transition = self.verification.run_of(run.steps).transition()
        return transition_test(self.inputs, run.title, transition, run.disturbance, replicas=run.replicas)


def _bug(rule: str, title: str, shown: OracleFinding | BrokenRun) -> ReportedBug:
    sender = shown.causes[-1].sender if shown.causes else None
    file, line = (sender.file, sender.line) if sender is not None else ("", 0)
    return ReportedBug(rule=rule, title=title, text=str(shown), file=file, line=line)


def _cause_as_json(cause: Cause) -> JsonObject:
    sender = cause.sender
    return {
        "role": cause.role,
        "request": cause.request,
        "function": sender.function,
        "file": sender.file,
        "line": sender.line,
        "reads": list(sender.reads),
    }


def test_lines(test: str) -> Iterator[str]:
    """Yield a test for people."""
    yield f"Paste this test to repeat it:\n\n{test}"
