"""Custom resources one after the other, as a printed test has them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from opsdk.structured_merge.paths import get_path
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.workload.operations import ChangedField, Operation, OperationKind
from opsdk.verification.workload.schema_fields import Path
from opsdk.verification.workload.values import ABSENT, ValueClass

__all__ = ["Transition", "Written", "operations_of", "written_as"]


class Written(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A custom resource that a user writes.

    Attributes:
        obj: the custom resource.
        operation: a value of `OperationKind`.
        expected: a value of `ValueClass`.
        field: the one field that it changes; empty if it changes several.

    >>> Written(obj={"kind": "Site"}, operation="Create")
    Written(obj={'kind': 'Site'}, operation='Create')
    """

    obj: JsonObject
    operation: str = OperationKind.UPDATE.value
    expected: str = ValueClass.VALID.value
    field: Path = ()


class Transition(msgspec.Struct, frozen=True):
    """The way to a state.

    Attributes:
        steps: in order; the first one creates the custom resource.
        references: objects that the custom resources name.
    """

    steps: tuple[Written, ...]
    references: tuple[JsonObject, ...] = ()


def written_as(operation: Operation) -> Written:
    """Return an operation as a printed test has it."""
    changes = operation.changes
    return Written(
        obj=operation.after,
        operation=operation.kind.value,
        expected=operation.value_class.value,
        field=changes[0].path if len(changes) == 1 else (),
    )


def operations_of(steps: Sequence[Written]) -> Iterator[Operation]:
    """Yield the operations that lead from one custom resource to the next.

    >>> first = Written(obj={"spec": {}}, operation="Create")
    >>> [str(each) for each in operations_of([first, Written(obj={"spec": {"a": 1}}, field=("spec", "a"))])]
    ['Create (Valid: step 1)', 'Update spec.a: absent -> 1 (Valid: step 2)']
    """
    before: JsonObject | None = None
    for number, step in enumerate(steps, 1):
        path = step.field
        change = ChangedField(
            path=path, before=get_path(before or {}, path, ABSENT), after=get_path(step.obj, path, ABSENT)
        )  # fmt: skip
        yield Operation(
            kind=OperationKind(step.operation),
            value_class=ValueClass(step.expected),
            reason=f"step {number}",
            changes=(change,) if path else (),
            before=before,
            after=step.obj,
        )
        before = step.obj
