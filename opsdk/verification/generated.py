"""The workloads of an operator from its declaration alone: operations on generated custom resources, in short runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from opsdk.apimachinery.crd import crds_for
from opsdk.apimachinery.kinds import Kind, unstructured_kind
from opsdk.apimachinery.object import Unstructured, to_dict
from opsdk.apimachinery.patch.merge_patch import create_merge_patch
from opsdk.builder.operator import Operator
from opsdk.client.client import Client
from opsdk.client.patch import merge_patch
from opsdk.engine.doubles import EMPTY_CLUSTER, Doubles, DoublesFactory
from opsdk.engine.environments import DefinedEnvironment
from opsdk.engine.snapshot import ClusterSnapshot
from opsdk.engine.webhooks import CLIENT_CONFIG
from opsdk.engine.world.declaration import SimulatedOperator, World
from opsdk.errors import ApiError, UsageError
from opsdk.manager.leader_election.lease_options import LeaseOptions
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.checks import ObjectCheck, rest_checks
from opsdk.verification.guided_run import WorkloadStep
from opsdk.verification.objects import USER, create_missing
from opsdk.verification.referenced_objects import reference_trees
from opsdk.verification.transition import Transition, Written, operations_of, written_as
from opsdk.verification.workload.operations import PER_WORKLOAD, GeneratedWorkload, Operation, OperationKind
from opsdk.verification.workload.schema_fields import NAMESPACE
from opsdk.verification.workload.transitions import WorkloadOptions, generate_workload

__all__ = [
    "GeneratedRun",
    "GeneratedStep",
    "GeneratedVerification",
    "VerifiedOperator",
]

_GONE_SECONDS: Final = 120
_LEASE: Final = LeaseOptions(lease_duration=30, renew_deadline=20, retry_period=10)
"""With client-go's durations, two of three requests of a run would be renewals."""
_KEPT: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
"""What a user does not write, and what is joined with what others write."""


@dataclass(frozen=True, kw_only=True)
class GeneratedStep:
    """One step of a workload.

    Attributes:
        action: what it does.
        operation: what it changes; None for the first object of a workload, and for its deletion.
        is_uncertain: see `WorkloadStep`.
    """

    action: Operate
    operation: Operation | None = None
    is_uncertain: bool = False

    @property
    def step(self) -> WorkloadStep:
        """The step for `run_guided`."""
        is_harmful = self.operation is not None and self.operation.is_harmful
        return WorkloadStep(self.action.__name__, is_harmful=is_harmful, is_uncertain=self.is_uncertain)


@dataclass(frozen=True, kw_only=True)
class GeneratedRun:
    """A workload with what is known of each step.

    Attributes:
        kind: of its custom resource.
        steps: in order. The first one creates the object, the last one deletes it.
    """

    kind: str
    steps: Sequence[GeneratedStep]

    @property
    def workload(self) -> list[WorkloadStep]:
        """The steps for `run_guided`."""
        return [each.step for each in self.steps]

    def transition(self, count: int = -1) -> Transition:
        """Return the first steps as a test has them; without a count, all but the deletion."""
        steps = self.steps[:count]
        first = steps[0].action
        written = (
            written_as(each.operation) if each.operation is not None else Written(obj=first.obj, operation="Create")
            for each in steps
        )  # fmt: skip
        return Transition(tuple(written), tuple(first.references))


@dataclass(frozen=True, kw_only=True)
class GeneratedVerification:
    """What is verified of an operator.

    Attributes:
        declared: the operator, with one action for each operation.
        runs: each creates an object, changes it a few times, and deletes it.
        generated: the operations by kind, with the fields that are left out, and why.
        definitions: the operator's own kinds, with the version that is verified.
        examples: custom resources of the author.
        has_systems: the operator changes external systems, whose state is not compared.
    """

    declared: SimulatedOperator
    runs: Sequence[GeneratedRun]
    generated: Mapping[str, GeneratedWorkload]
    definitions: Mapping[str, tuple[JsonObject, str]]
    examples: Sequence[JsonObject] = ()
    has_systems: bool = False

    @property
    def workloads(self) -> list[list[WorkloadStep]]:
        """The steps of each run."""
        return [run.workload for run in self.runs]

    @property
    def elects_leader(self) -> bool:
        """Whether one of several replicas leads: then a second one may take over."""
        return self.declared.new_doubles().operator().options.leader_election

    def run_of(self, steps: Sequence[WorkloadStep]) -> GeneratedRun:
        """Return the run that has some steps."""
        return next(run for run in self.runs if run.workload == list(steps))


class VerifiedOperator:
    """An operator that is verified with custom resources of its kinds.

    Args:
        doubles: creates the operator, and the doubles of its external systems.
        environment: makes an environment that serves some definitions.
        allowed_hosts: that the operator may reach.
        checks: that hold at each rest, except after a harmful operation.
        ignored: what is not compared: see `Simulation`.
        definitions: of kinds without a class.

    Attributes:
        kinds: its own kinds: their definitions, with the version that it uses.

    Raises:
        UsageError: the operator declares no kinds of its own.
    """

    def __init__(
        self, doubles: DoublesFactory, *, environment: DefinedEnvironment, allowed_hosts: Sequence[str] = (),
        checks: Sequence[ObjectCheck] = (), ignored: Sequence[str] = (), definitions: Sequence[JsonObject] = (),
    ) -> None:  # fmt: skip
        doubles = _with_long_leases(doubles)
        doubled = doubles(EMPTY_CLUSTER)
        operator = doubled.operator()
        versions = {kind.gvk.kind: kind.gvk.version for kind in operator.custom_kinds()}
        if not versions and not definitions:
            raise UsageError(
                "the operator declares no kind of its own: pass the definitions of kinds without a class with --crds, "
                "or write a Simulation with actions, and verify that"
            )
        own = operator.definitions(CLIENT_CONFIG)
        # An operator with webhooks installs its definitions itself, with their conversion.
        served = [*crds_for(operator.related_kinds()), *(() if operator.has_webhooks else own), *definitions]
        installed = {each["metadata"]["name"]: each for each in served}
        names = [(definition["spec"]["names"]["kind"], definition) for definition in own]
        self.kinds = {kind: (definition, versions[kind]) for kind, definition in names if kind in versions}
        self.kinds |= {each["spec"]["names"]["kind"]: (each, _stored(each)) for each in definitions}
        self._has_systems = doubled.systems is not None
        self._declared = SimulatedOperator(
            doubles=doubles,
            environment=lambda: environment(list(installed.values())),
            check=_anything,
            at_rest=rest_checks(checks),
            allowed_hosts=allowed_hosts,
            ignored=ignored,
        )

    def generated(
        self, *, examples: Sequence[JsonObject] = (), operations: int = 60, per_workload: int = PER_WORKLOAD,
        seed: int = 0,
    ) -> GeneratedVerification:  # fmt: skip
        """Return the verification with workloads that are generated.

        Args:
            examples: custom resources of the author, of any of the operator's kinds; objects of other kinds are created
                before them.
            operations: the most operations for each kind.
            per_workload: the most operations between the creation and the deletion of an object.
            seed: chooses the order of the fields.

        Raises:
            NoCustomResourceError: a schema admits nothing, or refuses an example.
        """
        others = [example for example in examples if example.get("kind") not in self.kinds]
        runs: list[GeneratedRun] = []
        generated: dict[str, GeneratedWorkload] = {}
        for kind, (definition, version) in self.kinds.items():
            own = [example for example in examples if example.get("kind") == kind]
            options = WorkloadOptions(operations=operations, seed=seed)
            workload = generated[kind] = generate_workload(definition, version=version, examples=own, options=options)
            references = [*others, *reference_trees(workload, NAMESPACE)]
            for number, operations_of_run in enumerate(workload.short_runs(per_workload)):
                steps = list(_steps(operations_of_run, references, f"{kind} {number}"))
                runs.append(GeneratedRun(kind=kind, steps=steps))
        return self._verification(runs, generated, examples)

    def transition(self, transition: Transition) -> GeneratedVerification:
        """Return the verification with one workload, whose custom resources a test has.

        Raises:
            UsageError: the operator does not declare the kind of the custom resources.
        """
        kind = str(transition.steps[0].obj.get("kind"))
        if kind not in self.kinds:
            raise UsageError(f"the operator does not declare {kind}: write custom resources of {', '.join(self.kinds)}")
        operations = tuple(operations_of(transition.steps))
        runs = [GeneratedRun(kind=kind, steps=list(_steps(operations, transition.references, kind)))]
        return self._verification(runs, {kind: GeneratedWorkload(operations=operations)})

    def _verification(
        self, runs: Sequence[GeneratedRun], generated: Mapping[str, GeneratedWorkload],
        examples: Sequence[JsonObject] = (),
    ) -> GeneratedVerification:  # fmt: skip
        return GeneratedVerification(
            declared=replace(self._declared, actions=[each.action for run in runs for each in run.steps]),
            runs=runs,
            generated=generated,
            definitions={kind: self.kinds[kind] for kind in generated},
            examples=examples,
            has_systems=self._has_systems,
        )


def _with_long_leases(doubles: DoublesFactory) -> DoublesFactory:
    """Return a factory of operators that renew their Lease seldom."""

    def created(snapshot: ClusterSnapshot) -> Doubles[Any]:
        doubled = doubles(snapshot)

        def operator() -> Operator:
            new = doubled.operator()
            if new.options.retry_period < _LEASE.retry_period:
                new.options = msgspec.structs.replace(new.options, **msgspec.structs.asdict(_LEASE))
            return new

        return Doubles(operator=operator, systems=doubled.systems)

    return created


def _stored(definition: JsonObject) -> str:
    """Return the name of the stored version; empty without one."""
    return next((str(each["name"]) for each in definition["spec"]["versions"] if each.get("storage")), "")


async def _anything(_: World) -> None:
    """Hold always: the run without a disturbance tells what is right."""


def _steps(run: Sequence[Operation], references: Sequence[JsonObject], name: str) -> Iterator[GeneratedStep]:
    first = run[0]
    if first.before is not None:
        yield GeneratedStep(action=Operate(f"{name}: create", OperationKind.CREATE, first.before, references))
    keeps_volume = False
    for each in run:
        action = Operate(f"{name}: {each}", each.kind, each.after, references, before=each.before)
        # Once a volume would be smaller, the object may keep the larger one, and its claim may outlive it.
        keeps_volume = each.kind is not OperationKind.RECREATE and (keeps_volume or each.shrinks)
        yield GeneratedStep(action=action, operation=each, is_uncertain=keeps_volume)
    yield GeneratedStep(action=Operate(f"{name}: delete", None, run[-1].after), is_uncertain=keeps_volume)


class Operate:
    """One operation of a user on a custom resource.

    Args:
        name: of the action.
        kind: of the operation; None deletes the object.
        obj: the custom resource as it is written.
        references: objects that it names; those that do not exist are created.
        before: the custom resource as it was written before: labels and annotations that are left out now go.

    Attributes:
        obj: the custom resource.
        references: objects that it names.
        refusal: the error of the server when it was called last; empty if the server accepted it.
    """

    def __init__(
        self, name: str, kind: OperationKind | None, obj: JsonObject, references: Sequence[JsonObject] = (), *,
        before: JsonObject | None = None,
    ) -> None:  # fmt: skip
        self.__name__ = name
        self.obj = obj
        self.refusal = ""
        self.references = references
        self._kind = kind
        self._before = before

    def creating(self, obj: JsonObject) -> Operate:
        """Return an action that creates another object, with the same references."""
        return Operate("create", OperationKind.CREATE, obj, self.references)

    def updating(self, obj: JsonObject) -> Operate:
        """Return an action that writes another state of the object."""
        return Operate("update", OperationKind.UPDATE, obj, self.references, before=self.obj)

    def deleting(self) -> Operate:
        """Return an action that deletes the object."""
        return Operate("delete", None, self.obj)

    async def __call__(self, world: World) -> None:
        self.refusal = ""
        client, obj = world.client, Unstructured.from_tree(self.obj)
        kind = unstructured_kind(self.obj["apiVersion"], self.obj["kind"])
        if self._kind in (None, OperationKind.RECREATE):
            await client.delete(obj, missing_ok=True)
        if self._kind is None:
            return
        if self._kind is OperationKind.RECREATE:
            await _until_gone(client, kind, obj)
        for tree in self.references:
            await create_missing(client, tree)
        try:
            await self._write(client, kind)
        except ApiError as error:
            # A webhook may refuse it, or a rule that is not in the schema, as it may refuse a user's request.
            if error.code not in (400, 403, 422):
                raise
            self.refusal = str(error)

    async def _write(self, client: Client, kind: Kind[Any]) -> None:
        """Create the object, or send its difference to the stored one, as ``kubectl apply`` does.

        A server-side apply would keep defaults inside of objects that are left out now: they have no owner.
        """
        desired = self.obj
        metadata: JsonObject = desired["metadata"]
        existing = await client.get_or_none(kind, metadata["name"], namespace=metadata.get("namespace", ""))
        if existing is None:
            await client.create(Unstructured.from_tree(desired), field_owner=USER)
            return
        stored = to_dict(existing)
        kept: JsonObject = {name: value for name, value in stored.items() if name in _KEPT}
        changed = kept | {name: value for name, value in desired.items() if name not in _KEPT}
        changed["metadata"] = dict(stored["metadata"])
        former = self._before["metadata"] if self._before is not None else {}
        for name in ("labels", "annotations"):
            present, removed = stored["metadata"].get(name, {}), former.get(name, {})
            others = {key: value for key, value in present.items() if key not in removed}
            changed["metadata"][name] = others | metadata.get(name, {})
        patch = merge_patch(create_merge_patch(stored, changed))
        await client.patch(existing, patch, field_owner=USER)


async def _until_gone(client: Client, kind: Kind[Any], obj: Unstructured) -> None:
    for _ in range(_GONE_SECONDS):
        if await client.get_or_none(kind, obj.metadata.name, namespace=obj.metadata.namespace) is None:
            return
        await asyncio.sleep(1.0)
