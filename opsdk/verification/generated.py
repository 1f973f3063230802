"""The workloads of an operator from its declaration alone: operations on generated custom resources, in short runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final

from opsdk.apimachinery.kinds import Kind, unstructured
from opsdk.apimachinery.object import Unstructured
from opsdk.client.client import Client
from opsdk.engine.webhooks import CLIENT_CONFIG
from opsdk.errors import AlreadyExistsError, ApiError, UsageError
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.doubles import EMPTY_CLUSTER, DoublesFactory
from opsdk.testing.simulation.declaration import Action, RunningEnvironment, SimulatedOperator, World
from opsdk.verification.guided_run import WorkloadStep
from opsdk.verification.workload.operations import GeneratedWorkload, Operation, OperationKind, ReferencedObject
from opsdk.verification.workload.transitions import WorkloadOptions, generate_workload
from opsdk.verification.workload.values import ValueClass

__all__ = ["GeneratedVerification", "generated_verification"]

_PER_WORKLOAD: Final = 3
"""Operations of one workload. Each place of a workload is disturbed, so short ones show which operation it needs."""
_GONE_SECONDS: Final = 120.0
_NAMESPACE: Final = "default"
_FIELD_OWNER: Final = "user"


DefinedEnvironment = Callable[[Sequence[JsonObject]], AbstractAsyncContextManager[RunningEnvironment]]
"""Makes an environment that serves some definitions."""


@dataclass(frozen=True, kw_only=True)
class GeneratedVerification:
    """What is verified of an operator.

    Attributes:
        declared: the operator, with one action for each operation.
        workloads: each creates an object, changes it a few times, and deletes it.
        generated: the operations by kind, with the fields that are left out, and why.
    """

    declared: SimulatedOperator
    workloads: Sequence[Sequence[WorkloadStep]]
    generated: Mapping[str, GeneratedWorkload]


def generated_verification(
    doubles: DoublesFactory, *, environment: DefinedEnvironment, examples: Sequence[JsonObject] = (),
    operations: int = 60, seed: int = 0,
) -> GeneratedVerification:  # fmt: skip
    """Return the workloads of an operator.

    Args:
        doubles: creates the operator, and the doubles of its external systems.
        environment: makes an environment that serves some definitions.
        examples: custom resources of the author, of any of the operator's kinds.
        operations: the most operations for each kind.
        seed: chooses the order of the fields.

    Raises:
        NoCustomResourceError: a schema admits nothing, or refuses an example.
        UsageError: the operator declares no kinds of its own.
    """
    operator = doubles(EMPTY_CLUSTER).operator()
    kinds = {kind.gvk.kind: kind.gvk for kind in operator.custom_kinds()}
    definitions = operator.definitions(CLIENT_CONFIG)
    if not kinds:
        raise UsageError("the operator declares no kind of its own: write a Simulation with actions, and verify that")
    actions: list[Action] = []
    workloads: list[Sequence[WorkloadStep]] = []
    generated: dict[str, GeneratedWorkload] = {}
    for definition in definitions:
        kind = definition["spec"]["names"]["kind"]
        if kind not in kinds:
            continue
        own = [example for example in examples if example.get("kind") == kind]
        options = WorkloadOptions(operations=operations, seed=seed)
        workload = generated[kind] = generate_workload(
            definition, version=kinds[kind].version, examples=own, options=options
        )
        for number, run in enumerate(_runs(workload)):
            own_actions = list(_actions(run, workload.references, f"{kind} {number}"))
            actions += own_actions
            workloads.append([WorkloadStep(action.__name__) for action in own_actions])
    declared = SimulatedOperator(
        doubles=doubles,
        # An operator with webhooks installs its definitions itself, with their conversion.
        environment=lambda: environment(() if operator.has_webhooks else definitions),
        actions=actions,
        check=_anything,
    )
    return GeneratedVerification(declared=declared, workloads=workloads, generated=generated)


async def _anything(_: World) -> None:
    """Hold always: the run without a disturbance tells what is right."""


def _runs(workload: GeneratedWorkload) -> Iterator[Sequence[Operation]]:
    """Yield a few operations at a time. What the server refuses is left out: it changes nothing."""
    admitted = [each for each in workload.operations if each.value_class is not ValueClass.BEYOND]
    for begin in range(0, len(admitted), _PER_WORKLOAD):
        yield admitted[begin : begin + _PER_WORKLOAD]


def _actions(run: Sequence[Operation], references: Iterable[ReferencedObject], name: str) -> Iterator[_Operate]:
    first = run[0]
    if first.before is not None:
        yield _Operate(f"{name}: create", OperationKind.CREATE, first.before, tuple(references))
    for operation in run:
        yield _Operate(f"{name}: {operation}", operation.kind, operation.after, tuple(references))
    yield _Operate(f"{name}: delete", None, run[-1].after)


class _Operate:
    """One operation of a user on a custom resource; without a kind, it is deleted."""

    def __init__(
        self, name: str, kind: OperationKind | None, obj: JsonObject, references: Sequence[ReferencedObject] = ()
    ) -> None:
        self.__name__ = name
        self._kind, self._obj, self._references = kind, obj, references

    async def __call__(self, world: World) -> None:
        client, obj = world.client, Unstructured.from_tree(self._obj)
        kind = unstructured(self._obj["apiVersion"], self._obj["kind"])
        if self._kind in (None, OperationKind.RECREATE):
            await client.delete(obj, missing_ok=True)
        if self._kind is None:
            return
        if self._kind is OperationKind.RECREATE:
            await _until_gone(client, kind, obj)
        await _create_references(client, self._references)
        try:
            await client.apply(obj, field_owner=_FIELD_OWNER, force=True)
        except ApiError as error:
            # A webhook, or a rule that the generator does not know, may refuse it: as a user's request.
            if error.code not in (400, 403, 422):
                raise


async def _until_gone(client: Client, kind: Kind[Any], obj: Unstructured) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + _GONE_SECONDS
    metadata = obj.metadata
    while loop.time() < end:
        if await client.get_or_none(kind, metadata.name, namespace=metadata.namespace) is None:
            return
        await asyncio.sleep(1.0)


async def _create_references(client: Client, references: Iterable[ReferencedObject]) -> None:
    for reference in references:
        tree: JsonObject = {
            "apiVersion": "v1",
            "kind": reference.kind,
            "metadata": {"name": reference.name, "namespace": _NAMESPACE},
        }
        try:
            await client.create(Unstructured.from_tree(tree), field_owner=_FIELD_OWNER)
        except AlreadyExistsError:
            continue
