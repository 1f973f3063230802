"""Runs the workloads of generated custom resources without a disturbance, and judges each state at rest.

Each state is compared with that of an object which is created with the same content in an empty cluster. A difference
counts if two other runs show it too: times, random values and resource versions differ in them. The invariants of a
run, such as that of hot loops, are judged by `opsdk.verification.verify`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from opsdk.apimachinery.object import Unstructured
from opsdk.engine.world.declaration import Action, SimulatedOperator, World, name_of
from opsdk.engine.world.outcome import Outcome
from opsdk.engine.world.rest_state import RestState
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.causes import causes_of
from opsdk.verification.field_reach import FieldReach, trials
from opsdk.verification.generated import GeneratedRun, GeneratedVerification, Operate
from opsdk.verification.guided_run import WorkloadStep, run_guided
from opsdk.verification.objects import USER
from opsdk.verification.oracles import (
    Oracle,
    OracleFinding,
    StateDifference,
    changes_anything,
    harm_of,
    is_refused,
    is_reported,
    is_troubled,
    state_differences_of,
)
from opsdk.verification.transition import Transition, Written, written_as
from opsdk.verification.workload.definition import DefinitionVersion
from opsdk.verification.workload.operations import Operation, OperationKind
from opsdk.verification.workload.schema_fields import NAMESPACE, SchemaBudget, field_path
from opsdk.verification.workload.values import ValueClass
from opsdk.verification.workload_gaps import WorkloadGaps

__all__ = ["GeneratedSummary", "check_generated", "run_undisturbed"]

_MAX_SHOWN: Final = 5
_EMPTY: Final = RestState()


@dataclass(kw_only=True)
class GeneratedSummary:
    """What generated custom resources show.

    Attributes:
        findings: each bug once.
        checks: how often each oracle applied.
        advice: what the workload lacks, one sentence each.
        says_something: the operator did something that the runs show.
        runs: number of runs.
        omitted: number of workloads for which there was no time.
        connections: targets outside of the simulated cluster that were refused, each once. The states of runs that
            reach for them are not judged.
        seconds: of real time.
        outcomes: of the workloads, by the name of their first step: each is that of a reference run.
    """

    findings: list[OracleFinding] = field(default_factory=list)
    checks: Counter[Oracle] = field(default_factory=Counter)
    advice: list[str] = field(default_factory=list)
    says_something: bool = False
    runs: int = 0
    omitted: int = 0
    connections: dict[str, None] = field(default_factory=dict)
    seconds: float = 0.0
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    def add(self, finding: OracleFinding) -> None:
        """Add a finding, unless another one shows the same bug."""
        if not finding.is_among(self.findings):
            self.findings.append(finding)

    def __str__(self) -> str:
        checks = ", ".join(f"{self.checks[oracle]} {oracle.value}" for oracle in Oracle)
        omitted = f", {self.omitted} workloads left for lack of time" if self.omitted else ""
        bugs = f"{len(self.findings)} bug{'' if len(self.findings) == 1 else 's'}"
        return f"{self.runs} runs without a disturbance ({checks}{omitted}), {bugs}, {self.seconds:.1f} s"


def check_generated(
    verification: GeneratedVerification, *, time_limit: float = 200.0, stop_at_first: bool = False,
    progress: Callable[[GeneratedSummary], None] = lambda _: None,
) -> GeneratedSummary:  # fmt: skip
    """Run each workload without a disturbance, and judge its states.

    Args:
        verification: the operator and its workloads.
        time_limit: real seconds after which no further workload is run.
        stop_at_first: end with the first finding.
        progress: called after each workload.
    """
    summary, began = GeneratedSummary(), time.monotonic()
    check = _Check(verification, summary)
    for run in verification.runs:
        if time.monotonic() - began > time_limit:
            summary.omitted += 1
            continue
        check.run(run)
        progress(summary)
        if stop_at_first and summary.findings:
            break
    # An operator without its external systems does not do what its fields say.
    if not summary.connections:
        if not (stop_at_first and summary.findings):
            check.confirm_suspects(began + time_limit)
        summary.advice.extend(check.advice())
    summary.says_something = check.gaps.says_something(has_systems=verification.has_systems)
    summary.seconds = time.monotonic() - began
    return summary


class _Check:
    """The state of one check: the runs of single objects, and what is known of each field."""

    def __init__(self, verification: GeneratedVerification, summary: GeneratedSummary) -> None:
        self._verification, self._summary = verification, summary
        self._alone: dict[tuple[bytes, bool], RestState | None] = {}
        self._reach = {kind: FieldReach() for kind in verification.generated}
        self._definitions = {
            kind: DefinitionVersion(definition, version, SchemaBudget())
            for kind, (definition, version) in verification.definitions.items()
        }
        self.gaps = WorkloadGaps(verification.generated)
        self._is_astray = False
        """A state of the present run differs from that of an object which is created so: later ones differ too."""

    def run(self, run: GeneratedRun) -> None:
        """Run one workload, and judge it."""
        actions = [each.action for each in run.steps]
        self._is_astray = False
        outcome = self._guided(actions, run.workload)
        self._summary.outcomes[run.workload[0].name] = outcome
        refused = [action.refusal for action in actions]
        self.gaps.note(run, outcome)
        for number, step in enumerate(run.steps[:-1]):
            before, after = outcome.states.get(number), outcome.states.get(number + 1)
            if refused[number]:
                if step.operation is not None and step.operation.value_class is ValueClass.MISOPERATION:
                    self._summary.checks[Oracle.MISOPERATION] += 1
                continue
            if before is None or after is None:
                continue
            # What the server refused is not what the next operation changes.
            self._judge_step(run, number, None if number and refused[number - 1] else before, after)

    def _judge_step(self, run: GeneratedRun, number: int, before: RestState | None, after: RestState) -> None:
        operation = run.steps[number].operation
        is_update = operation is not None and operation.kind not in (OperationKind.CREATE, OperationKind.RECREATE)
        if before is not None:
            self._judge_harm(run, number, before if is_update else _EMPTY, after)
        if operation is None:
            return
        if before is not None and is_update and not self._verification.has_systems:
            self._reach[run.kind].add(operation, effective=changes_anything(before, after))
        # Once a volume would be smaller, the object may keep the larger one until its end.
        self._is_astray = self._is_astray or operation.shrinks
        if not operation.is_harmful and operation.kind is not OperationKind.CREATE:
            self._judge_path(run, number, operation, after)

    # -------------------------------------------------------------- errors and misoperations
    def _judge_harm(self, run: GeneratedRun, number: int, before: RestState, after: RestState) -> None:
        operation = run.steps[number].operation
        is_bad = operation is not None and operation.value_class is ValueClass.MISOPERATION
        oracle = Oracle.MISOPERATION if is_bad else Oracle.ERROR_CHECK
        self._summary.checks[oracle] += 1
        harm = harm_of(before, after)
        if not harm or is_reported(before, after, self._key(run.kind)):
            return
        if operation is not None and operation.value_class is ValueClass.BOUNDARY and is_refused(harm):
            self.gaps.note_edge(operation, harm[0].text)
            return
        texts = [*(each.text for each in harm[:_MAX_SHOWN]), "neither the status nor an Event says so"]
        self._add(run, oracle, number, texts, {each.place for each in harm})

    # -------------------------------------------------------------- the way to a state
    def _judge_path(self, run: GeneratedRun, number: int, operation: Operation, after: RestState) -> None:
        is_back = operation.kind is OperationKind.ROLLBACK
        oracle = Oracle.RECOVERY if is_back else Oracle.PATH_INDEPENDENCE
        if self._is_astray:
            return
        alone = self._state_alone(run.steps[number].action, shifted=False)
        # What does not work anyway depends on what worked before.
        if alone is None or is_troubled(alone):
            return
        self._summary.checks[oracle] += 1
        differences = [each for each in state_differences_of(alone, after) if self._is_decided(run.kind, each)]
        if not differences or not (differences := self._confirmed(run, number, differences)):
            return
        self._is_astray = True
        texts = [each.text for each in differences[:_MAX_SHOWN]]
        self._add(run, oracle, number, texts, {each.place for each in differences})

    def _is_decided(self, kind: str, difference: StateDifference) -> bool:
        """Whether the operator decided a value: a status may repeat what an external system counts."""
        status = f"{self._key(kind)} status."
        is_status = difference.place.startswith(status) and not difference.place.startswith(f"{status}conditions")
        return not (is_status and self._verification.has_systems)

    def _confirmed(
        self, run: GeneratedRun, number: int, differences: Sequence[StateDifference]
    ) -> list[StateDifference]:
        """Return the differences that two other runs have in common with these."""
        actions = [each.action for each in run.steps]
        again = self._guided(actions, run.workload, shifted=True).states.get(number + 1)
        alone = self._state_alone(run.steps[number].action, shifted=False)
        alone_again = self._state_alone(run.steps[number].action, shifted=True)
        if again is None or alone is None or alone_again is None:
            return []
        varying = {each.place for each in state_differences_of(alone, alone_again)}
        lasting = {each.place for each in state_differences_of(alone_again, again)}
        return [each for each in differences if each.place in lasting - varying]

    def _state_alone(self, action: Operate, *, shifted: bool) -> RestState | None:
        """Return the state of an object that is created with the content after an action; None if it is refused."""
        key = msgspec.json.encode(action.obj, order="deterministic"), shifted
        if key not in self._alone:
            creating = action.creating(action.obj)
            outcome = self._guided([creating, action.deleting()], shifted=shifted)
            self._alone[key] = None if creating.refusal else outcome.states.get(1)
        return self._alone[key]

    # -------------------------------------------------------------- fields
    def confirm_suspects(self, deadline: float) -> None:
        """Report the fields that change nothing, whatever their neighbours are."""
        for kind, reach in self._reach.items():
            if any(self.gaps.absent_objects(kind)):
                continue  # a field may act on them, as on the pods of another kind
            self._summary.checks[Oracle.FIELD_REACH] += reach.checks
            for path, operation in reach.suspects():
                if time.monotonic() > deadline:
                    return
                if kind in self.gaps.written and not self._has_effect(kind, path, operation):
                    text = f"{field_path(path)} changes, and no object, status or Event does"
                    finding = OracleFinding(
                        oracle=Oracle.FIELD_REACH, kind=kind, operation=f"{kind}: {operation}",
                        differences=(text,), places=frozenset({str(field_path(path))}),
                        transition=self._transition_of(kind, operation),
                    )  # fmt: skip
                    self._summary.add(finding)

    def _transition_of(self, kind: str, operation: Operation) -> Transition:
        """Return an object as it is before an operation, and the operation."""
        assert operation.before is not None
        created = Written(obj=operation.before, operation=OperationKind.CREATE.value)
        return Transition((created, written_as(operation)), tuple(self._template(kind).references))

    def _template(self, kind: str) -> Operate:
        """Return an action on an object of a kind."""
        return next(run.steps[0].action for run in self._verification.runs if run.kind == kind)

    def _has_effect(self, kind: str, path: tuple[str | int, ...], operation: Operation) -> bool:
        template = self._template(kind)
        examples = [each for each in self._verification.examples if each.get("kind") == kind]
        for before, after in trials(self._definitions[kind], operation, path, examples):
            actions = [template.creating(before), template.updating(after), template.deleting()]
            states = self._guided(actions).states
            refused = any(each.refusal for each in actions)
            if not refused and 1 in states and 2 in states and changes_anything(states[1], states[2]):
                return True
            # A field may decide what the deletion of the object leaves.
            actions = [template.creating(before), template.deleting()]
            gone = self._guided(actions).states
            if not refused and 2 in gone and 3 in states and gone[2].objects.keys() != states[3].objects.keys():
                return True
        return False

    def advice(self) -> Iterator[str]:
        """Yield what the workload lacks."""
        yield from self.gaps.advice()
        if self._verification.has_systems:
            yield "fields that change only an external system are not told from those that change nothing"

    # -------------------------------------------------------------- helpers
    def _guided(
        self, actions: Sequence[Operate], steps: Sequence[WorkloadStep] = (), *,
        shifted: bool = False, with_senders: bool = False,
    ) -> Outcome:  # fmt: skip
        steps = steps or [WorkloadStep(action.__name__) for action in actions]
        declared = replace(self._verification.declared, actions=actions)
        return run_undisturbed(declared, steps, self._summary, shifted=shifted, with_senders=with_senders)

    def _key(self, kind: str) -> str:
        """Return the storage key of the custom resource."""
        definition, _ = self._verification.definitions[kind]
        spec = definition["spec"]
        obj = self._template(kind).obj
        place = f"{NAMESPACE}/" if spec["scope"] == "Namespaced" else ""
        return f"{spec['group']}/{spec['names']['plural']}/{place}{obj['metadata']['name']}"

    def _add(
        self, run: GeneratedRun, oracle: Oracle, number: int, texts: Sequence[str], places: set[str] | frozenset[str]
    ) -> None:
        names = tuple(each.step.name for each in run.steps[: number + 1])
        finding = OracleFinding(
            oracle=oracle, kind=run.kind, operation=names[-1], differences=tuple(texts), workload=names,
            transition=run.transition(number + 1), places=frozenset(places),
        )  # fmt: skip
        if not finding.is_among(self._summary.findings):
            steps = run.steps[: number + 1]
            actions, workload = [each.action for each in steps], [each.step for each in steps]
            outcome = self._guided(actions, workload, with_senders=True)
            self._summary.add(msgspec.structs.replace(finding, causes=tuple(causes_of(outcome, texts))))


def run_undisturbed(
    declared: SimulatedOperator, steps: Sequence[WorkloadStep], summary: GeneratedSummary, *, shifted: bool,
    with_senders: bool,
) -> Outcome:  # fmt: skip
    """Run a workload once, and count the run.

    Args:
        declared: the operator, with the actions of the workload in their order.
        steps: the workload.
        summary: gets the run and the targets that it was refused.
        shifted: with other random numbers, and other resource versions.
        with_senders: see `WorldRun`.
    """
    summary.runs += 1
    if shifted:
        first, *others = declared.actions
        declared = replace(declared, actions=[_Shifted(first), *others])
    outcome = run_guided(declared, steps, seed=int(shifted), with_senders=with_senders)
    summary.connections.update(dict.fromkeys(outcome.connections))
    return outcome


class _Shifted:
    """The first action, after a write that gives all later objects other resource versions."""

    def __init__(self, action: Action) -> None:
        self.__name__ = name_of(action)
        self._action = action

    async def __call__(self, world: World) -> None:
        tree: JsonObject = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "verify-shift", "namespace": NAMESPACE},
        }
        await world.client.create(Unstructured.from_tree(tree), field_owner=USER)
        await self._action(world)
