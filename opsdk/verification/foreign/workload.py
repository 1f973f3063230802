"""Workloads of another process: what a user does to the cluster, step by step.

A file of a workload has a list of steps::

    steps:
    - apply: site.yaml
    - patch: sites.demo.opsdk.dev/default/example
      merge: {spec: {replicas: 3}}
    - wait: 5
    - delete: sites.demo.opsdk.dev/default/example
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import Unstructured
from opsdk.apimachinery.tree_names import key_of_tree, subject_of_tree
from opsdk.client.client import Client
from opsdk.client.patch import merge_patch
from opsdk.engine.kubectl_apply import apply_as_kubectl
from opsdk.errors import OpsdkError
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.verification.foreign.errors import WorkloadError
from opsdk.verification.objects import USER
from opsdk.verification.referenced_objects import reference_trees
from opsdk.verification.workload.operations import GeneratedWorkload, Operation, OperationKind
from opsdk.verification.workload.schema_fields import NAMESPACE
from opsdk.verification.workload.values import ValueClass

__all__ = ["UserStep", "UserWorkload", "generated_workloads", "parse_workload"]

_POLL_SECONDS: Final = 0.2
_FORM: Final = "write one of apply, patch with merge, delete and wait"


class UserStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step. Exactly one of apply, patch, delete and wait is set.

    Attributes:
        apply: objects to apply.
        patch: the object to patch with `merge`, as ``KIND/NAMESPACE/NAME``, or ``KIND/NAME`` without a namespace.
        merge: the JSON merge patch.
        delete: the object to delete, named in the same way. The step ends when it is gone.
        wait: seconds to wait.
        is_harmful: checks need not hold after it.
    """

    apply: tuple[JsonObject, ...] = ()
    patch: str = ""
    merge: JsonObject = {}
    delete: str = ""
    wait: float = 0.0
    is_harmful: bool = False

    def __str__(self) -> str:
        if self.apply:
            return f"apply {', '.join(map(subject_of_tree, self.apply))}"
        if self.patch:
            return f"patch {self.patch}: {json.dumps(self.merge)}"
        return f"delete {self.delete}" if self.delete else f"wait {self.wait:g} s"

    async def take(self, client: Client, *, seconds: float) -> None:
        """Take the step.

        Args:
            client: of the user.
            seconds: in which a deleted object must be gone.

        Raises:
            OpsdkError: the API server refuses it, or the deleted object stays.
        """
        for tree in self.apply:
            await apply_as_kubectl(client, tree, field_owner=USER)
        if self.patch:
            target = await _target(client, self.patch)
            await client.patch(target, merge_patch(self.merge), field_owner=USER)
        if self.delete:
            target = await _target(client, self.delete)
            await client.delete(target, missing_ok=True)
            await _until_gone(client, target, seconds)
        await asyncio.sleep(self.wait)


class UserWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """Steps, one after the other.

    Attributes:
        name: for readers.
        steps: at least one.
        tolerant: the server may refuse a step: a rule that the generator does not know.
    """

    name: str
    steps: tuple[UserStep, ...]
    tolerant: bool = False


# ------------------------------------------------------------------ steps on the server
async def _target(client: Client, reference: str) -> Unstructured:
    resource, *names = reference.split("/")
    gvk = (await client.mapper.kind_for(resource)).gvk
    metadata = {"name": names[-1]} | ({"namespace": names[0]} if len(names) > 1 else {})
    return Unstructured.from_tree({"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata})


async def _until_gone(client: Client, target: Unstructured, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    kind, metadata = unstructured_kind(target.gvk.api_version, target.gvk.kind), target.metadata
    while (remaining := await client.get_or_none(kind, metadata.name, namespace=metadata.namespace)) is not None:
        if loop.time() > end:
            finalizers = ", ".join(remaining.metadata.finalizers or ()) or "none"
            raise OpsdkError(f"the deleted object is still there after {seconds:g} s; its finalizers: {finalizers}")
        await asyncio.sleep(_POLL_SECONDS)


# ------------------------------------------------------------------ files
class _Step(msgspec.Struct, forbid_unknown_fields=True):
    """One step as a file has it."""

    apply: str | JsonObject | None = None
    patch: str = ""
    merge: JsonObject | None = None
    delete: str = ""
    wait: float = 0.0


class _File(msgspec.Struct, forbid_unknown_fields=True):
    """A file with a workload."""

    steps: list[_Step]


def parse_workload(name: str, tree: JsonValue, objects_in: Callable[[str], Sequence[JsonObject]]) -> UserWorkload:
    """Return the workload of a file.

    Args:
        name: of the file, for messages.
        tree: its content.
        objects_in: returns the objects of a file that a step applies. Its errors are passed on.

    Raises:
        WorkloadError: the content has another form.

    >>> print(*parse_workload("w.yaml", {"steps": [{"delete": "nodes/a"}, {"wait": 5}]}, list).steps, sep="; ")
    delete nodes/a; wait 5 s
    """
    try:
        file = msgspec.convert(tree, type=_File)
    except msgspec.ValidationError as error:
        raise WorkloadError(f"{name}: {error}: a workload has a list `steps`, and each step {_FORM}") from error
    if not file.steps:
        raise WorkloadError(f"{name} has no steps: add one, such as `- apply: site.yaml`")
    steps = [_step_of(f"{name}: step {number}", step, objects_in) for number, step in enumerate(file.steps, 1)]
    return UserWorkload(name=name, steps=tuple(steps))


def _step_of(where: str, step: _Step, objects_in: Callable[[str], Sequence[JsonObject]]) -> UserStep:
    """Return a step of a file. Raises `WorkloadError`."""
    if sum(map(bool, (step.apply, step.patch, step.delete, step.wait))) != 1 or bool(step.patch) != bool(step.merge):
        raise WorkloadError(f"{where}: {_FORM}")
    if step.wait < 0:
        raise WorkloadError(f"{where}: wait is {step.wait:g}: write seconds")
    for reference in filter(None, (step.patch, step.delete)):
        parts = reference.split("/")
        if len(parts) not in (2, 3) or not all(parts):
            raise WorkloadError(f"{where}: {reference!r} does not name an object: write KIND/NAMESPACE/NAME")
    applied = objects_in(step.apply) if isinstance(step.apply, str) else [step.apply] if step.apply else []
    for tree in applied:
        metadata = tree.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not all(isinstance(value, str) and value for value in (tree.get("apiVersion"), tree.get("kind"), name)):
            raise WorkloadError(f"{where}: an object to apply needs apiVersion, kind and metadata.name")
    if step.apply and not applied:
        raise WorkloadError(f"{where}: {step.apply} has no objects")
    return UserStep(
        apply=tuple(applied), patch=step.patch, merge=step.merge or {}, delete=step.delete, wait=step.wait
    )  # fmt: skip


# ------------------------------------------------------------------ generated custom resources
def generated_workloads(resource: str, generated: GeneratedWorkload) -> Iterator[UserWorkload]:
    """Yield short workloads of generated operations: each creates a custom resource, changes and deletes it.

    Args:
        resource: of the custom resources, such as ``sites.demo.opsdk.dev``.
        generated: the operations. Those with values beyond the schema are left out: they change nothing.
    """
    references = tuple(reference_trees(generated, NAMESPACE))
    for number, operations in enumerate(generated.short_runs()):
        first, last = operations[0], operations[-1]
        created = (*references, *([first.before] if first.before is not None else []))
        steps = [UserStep(apply=created)] if created else []
        steps += _steps(resource, operations)
        steps.append(UserStep(delete=f"{resource}/{key_of_tree(last.after)}"))
        yield UserWorkload(name=f"{resource} {number}", steps=tuple(steps), tolerant=True)


def _steps(resource: str, operations: Iterable[Operation]) -> Iterator[UserStep]:
    for operation in operations:
        if operation.kind is OperationKind.RECREATE:
            yield UserStep(delete=f"{resource}/{key_of_tree(operation.after)}")
        yield UserStep(apply=(operation.after,), is_harmful=operation.value_class is ValueClass.MISOPERATION)
