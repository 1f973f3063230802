"""What the states of an operator at rest must have in common, whatever custom resources it gets. Pure.

An operator is right if the last custom resource alone decides what it makes of it, if each field decides something, and
if it reports a custom resource that it cannot follow.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from opsdk.engine.world.rest_state import RestState, subject_of
from opsdk.structured_merge.paths import get_path
from opsdk.structured_merge.value import JsonValue
from opsdk.verification.causes import Cause, cause_lines
from opsdk.verification.state_comparison import state_differences
from opsdk.verification.transition import Transition

__all__ = [
    "Oracle",
    "OracleFinding",
    "StateDifference",
    "changes_anything",
    "harm_of",
    "is_refused",
    "is_reported",
    "state_differences_of",
    "text_without_names",
]

_CREATED_SO: Final = "if it is created with this content"
_INDEX: Final = re.compile(r"\[[^\[\]]*\]")
_REFUSAL: Final = re.compile(r"\b(?:400 BadRequest|422 Invalid)\b")
_VARIABLE: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")


class Oracle(StrEnum):
    """A law of generated custom resources."""

    PATH_INDEPENDENCE = "path independence"
    """Two objects with the same content have the same children, whatever their content was before."""
    RECOVERY = "recovery"
    """After a change is taken back, all is as before it."""
    FIELD_REACH = "field reach"
    """A field of the spec changes something: a child, the status or an Event."""
    MISOPERATION = "misoperation"
    """A harmful value is refused, or reported in the status or in an Event."""
    ERROR_CHECK = "error check"
    """After a harmless value, reconciles succeed and workloads are ready, or the operator reports why not."""
    AT_REST = "at rest"
    """Nothing is written when nothing has changed, also by the next process, and the status is of this generation."""
    NEIGHBOURS = "neighbours"
    """Each object converges as it does alone, whatever others are called."""
    LEFT_OVER = "left over"
    """What belongs to a deleted object goes, in the cluster and in doubles, and nothing else does."""
    REFERENCES = "references"
    """Objects that a custom resource or a pod names may come late, change, and go and come back."""
    FOREIGN_OBJECTS = "foreign objects"
    """An object of another controller stays as it is, and so does what others add to the operator's own."""
    DELETION = "deletion"
    """However an object is deleted, it goes, and not before another controller lets it."""
    PROCESSES = "processes"
    """Another process, with other hashes of strings, decides the same."""


class OracleFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A law that the operator breaks.

    Attributes:
        oracle: the law.
        kind: of the custom resource.
        operation: the last operation, in words.
        differences: what is wrong, one sentence each.
        workload: the names of the steps.
        transition: the custom resources that lead to it, for a test.
        places: what identifies the bug: fields without indices, or a text without names.
        causes: the writes that led to it, and the code that sent them.
    """

    oracle: Oracle
    kind: str
    operation: str
    differences: tuple[str, ...]
    workload: tuple[str, ...] = ()
    transition: Transition | None = None
    places: frozenset[str] = frozenset()
    causes: tuple[Cause, ...] = ()

    def __str__(self) -> str:
        differences = "".join(f"  {each}\n" for each in self.differences)
        steps = "".join(f"  {each}\n" for each in self.workload)
        code = "".join(f"{line}\n" for line in cause_lines(self.causes))
        workload = f"The workload:\n{steps}" if steps else ""
        return f"{self.oracle.value}: {self.operation}\n{differences}{code}{workload}"

    def is_among(self, others: Collection[OracleFinding]) -> bool:
        """Whether another finding shows the same bug: one shows after many operations."""
        return any(
            self.oracle is each.oracle and self.kind == each.kind and self.places <= each.places for each in others
        )


class StateDifference(msgspec.Struct, frozen=True):
    """One difference of two states.

    Attributes:
        place: object and field, without indices.
        text: for readers.
    """

    place: str
    text: str


def state_differences_of(expected: RestState, state: RestState, usually: str = _CREATED_SO) -> list[StateDifference]:
    """Return how a state differs from the expected one.

    Args:
        expected: such as that of an object which is created with the same content.
        state: the other one.
        usually: says where the expected state comes from.
    """
    differences = [
        StateDifference(f"{key} {_INDEX.sub('[]', path)}", f"{subject_of(key)} {text}")
        for key, path, text in state_differences(expected, state, usually)
    ]
    for key, reason in sorted(state.unready.items()):
        if key not in expected.unready:
            text = f"{subject_of(key)} is not ready: {reason}; it is ready {usually}"
            differences.append(StateDifference(f"{key} ready", text))
    for key, error in sorted(state.failing.items()):
        if key not in expected.failing:
            text = f"the reconcile of {key} fails: {error}; it succeeds {usually}"
            differences.append(StateDifference(f"{key} fails", text))
    return differences


def is_troubled(state: RestState) -> bool:
    """Whether a state is not one of rest: a workload is not ready, or reconciles fail."""
    return bool(state.unready or state.failing)


def changes_anything(before: RestState, after: RestState) -> bool:
    """Whether the operator reacted to a change: in an object, in a status, with an Event or with an error."""
    return (
        before.objects != after.objects
        or before.ignored != after.ignored
        or before.events != after.events
        or before.unready != after.unready
        or before.failing != after.failing
    )


def harm_of(before: RestState, after: RestState) -> list[StateDifference]:
    """Return what does not work any more after an operation."""
    unready = [
        StateDifference(f"{key} ready", f"{subject_of(key)} is not ready: {reason}")
        for key, reason in sorted(after.unready.items())
        if key not in before.unready
    ]
    failing = [
        StateDifference(f"{text_without_names(error)}", f"the reconcile of {key} fails: {error}")
        for key, error in sorted(after.failing.items())
        if key not in before.failing
    ]
    return [*failing, *unready]


def is_refused(harm: Sequence[StateDifference]) -> bool:
    """Whether the API server refuses what the operator makes of a value, and nothing else is wrong."""
    return all(_REFUSAL.search(each.text) for each in harm)


def is_reported(before: RestState, after: RestState, key: str) -> bool:
    """Whether the operator says that something is wrong: in the status of the custom resource, or in an Event.

    Args:
        before: the state before the operation.
        after: the state after it.
        key: of the custom resource.
    """
    return before.events != after.events or _status(before, key) != _status(after, key)


def _status(state: RestState, key: str) -> JsonValue:
    objects: Sequence[JsonValue] = state.objects.get(key, ())
    return [get_path(obj, ("status",), None) for obj in objects]


def text_without_names(text: str) -> str:
    """Return an error without the names and numbers in it: those of one bug differ in them.

    >>> text_without_names('secrets "a" not found') == text_without_names('secrets "b" not found')
    True
    """
    return _VARIABLE.sub("...", text)
