"""The operations of a workload: custom resources one after the other, and what changes between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import zip_longest
from typing import Final

import msgspec

from opsdk.base.shortened import shortened
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.verification.workload.schema_fields import Path, field_path
from opsdk.verification.workload.values import ABSENT, ValueClass

PER_WORKLOAD: Final = 3
"""Operations of one run. Each place of a run is disturbed, so short ones show which operation it needs."""
_MAX_SHOWN: Final = 5
_MAX_VALUE: Final = 60
PAUSE_NAMES: Final = ("pause", "paused", "suspend", "suspended")
"""Names of flags with which users take an object out of the operator's hands: it stays as it is until then."""


class OperationKind(Enum):
    """What is done with the custom resource."""

    CREATE = "Create"
    """It is created, as the first operation."""
    UPDATE = "Update"
    """It is updated. The server refuses the update if the value is beyond the schema; the object stays as it was."""
    ROLLBACK = "Rollback"
    """The state before the last operation is written again."""
    RECREATE = "Recreate"
    """It is deleted, and created again with the same name."""


class ChangedField(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One field that an operation changes.

    Attributes:
        path: of the field.
        before: its value, or `ABSENT`.
        after: its new value, or `ABSENT`.
    """

    path: Path
    before: JsonValue = ABSENT
    after: JsonValue = ABSENT

    def __str__(self) -> str:
        return f"{field_path(self.path)}: {_shown(self.before)} -> {_shown(self.after)}"


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a workload.

    Attributes:
        kind: what is done.
        value_class: what the verification expects.
        reason: the purpose in a few words.
        changes: the fields that change: usually one, or those that depend on each other.
        before: the custom resource before; None if it does not exist.
        after: the custom resource that is written.
        shrinks: it makes a volume smaller, which Kubernetes refuses: an operator may keep the larger one.

    >>> change = ChangedField(path=("spec", "size"), before=1, after=0)
    >>> print(Operation(kind=OperationKind.UPDATE, value_class=ValueClass.BOUNDARY, reason="the minimum",
    ...                 changes=(change,), before={}, after={}))
    Update spec.size: 1 -> 0 (Boundary: the minimum)
    """

    kind: OperationKind
    value_class: ValueClass
    reason: str
    changes: tuple[ChangedField, ...]
    before: JsonObject | None
    after: JsonObject
    shrinks: bool = False

    @property
    def is_harmful(self) -> bool:
        """Whether the state afterwards may depend on those before: it cannot be followed, or the object is paused."""
        return self.value_class is ValueClass.MISOPERATION or self.shrinks or is_paused(self.after.get("spec"))

    def __str__(self) -> str:
        changes = ", ".join(map(str, self.changes))
        return f"{self.kind.value}{changes and ' '}{changes} ({self.value_class.value}: {self.reason})"


def is_paused(spec: JsonValue) -> bool:
    """Whether a flag pauses an object, or a part of it.

    >>> is_paused({"backup": {"suspend": True}}), is_paused({"paused": False})
    (True, False)
    """
    if not isinstance(spec, dict):
        return False
    return any(value is True if name in PAUSE_NAMES else is_paused(value) for name, value in spec.items())


class UnchangedField(msgspec.Struct, frozen=True):
    """A field that no operation changes, and why."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{field_path(self.path)}: {self.reason}"


class ReferencedObject(msgspec.Struct, frozen=True):
    """An object that a harmless custom resource names, and that a run must create."""

    path: Path
    kind: str
    name: str


class GeneratedWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """The operations on one custom resource, and what they leave out.

    Attributes:
        operations: in order. Each begins where the last one that the server admitted ended.
        unchanged: the fields that no operation changes.
        references: the objects that harmless custom resources name.
        cut: what was left out because of a budget, one sentence each; empty if nothing was.
        complete: whether all values of all fields are used.
    """

    operations: tuple[Operation, ...]
    unchanged: tuple[UnchangedField, ...] = ()
    references: tuple[ReferencedObject, ...] = ()
    cut: tuple[str, ...] = ()
    complete: bool = True

    def left_out(self) -> Iterator[str]:
        """Yield what is left out, one sentence for each reason: a kind may have thousands of fields."""
        yield from self.cut
        fields: dict[str, list[str]] = {}
        for each in self.unchanged:
            fields.setdefault(each.reason, []).append(str(field_path(each.path)))
        for reason, paths in fields.items():
            rest = len(paths) - _MAX_SHOWN
            more = f" and {rest:,} more fields" if rest > 0 else ""
            yield f"not changed: {', '.join(paths[:_MAX_SHOWN])}{more}: {reason}"

    def short_runs(self, count: int = PER_WORKLOAD) -> Iterator[Sequence[Operation]]:
        """Yield a few operations at a time. What the server refuses is left out: it changes nothing.

        A change that is taken back is in one run with its rollback: none begins with a harmful object.
        """
        run: list[Operation] = []
        admitted = [each for each in self.operations if each.value_class is not ValueClass.BEYOND]
        for operation, following in zip_longest(admitted, admitted[1:]):
            is_pair = following is not None and following.kind is OperationKind.ROLLBACK
            if run and len(run) + is_pair >= count:
                yield run
                run = []
            run.append(operation)
        if run:
            yield run


def _shown(value: JsonValue) -> str:
    """Return a value as one short text."""
    if value is ABSENT:
        return "absent"
    return shortened(msgspec.json.encode(value).decode(), _MAX_VALUE)
