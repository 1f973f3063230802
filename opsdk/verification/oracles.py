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

from opsdk.structured_merge.paths import get_path
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.verification.rest_state import RestState, state_differences, subject_of
from opsdk.verification.workload.values import ABSENT

__all__ = [
    "Difference",
    "Finding",
    "Oracle",
    "changes_anything",
    "harm_of",
    "is_empty",
    "is_reported",
    "state_differences_of",
    "text_without_names",
]

_CREATED_SO: Final = "if it is created with this content"
_INDEX: Final = re.compile(r"\[[^\[\]]*\]")
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


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A law that the operator breaks.

    Attributes:
        oracle: the law.
        kind: of the custom resource.
        operation: the last operation, in words.
        differences: what is wrong, one sentence each.
        workload: the names of the steps.
        places: what identifies the bug: fields without indices, or a text without names.
    """

    oracle: Oracle
    kind: str
    operation: str
    differences: tuple[str, ...]
    workload: tuple[str, ...] = ()
    places: frozenset[str] = frozenset()

    def __str__(self) -> str:
        differences = "".join(f"  {each}\n" for each in self.differences)
        steps = "".join(f"  {each}\n" for each in self.workload)
        return f"{self.oracle.value}: {self.operation}\n{differences}" + (f"The workload:\n{steps}" if steps else "")

    def is_among(self, others: Collection[Finding]) -> bool:
        """Whether another finding shows the same bug: one shows after many operations."""
        return any(
            self.oracle is each.oracle and self.kind == each.kind and self.places <= each.places for each in others
        )


class Difference(msgspec.Struct, frozen=True):
    """One difference of two states.

    Attributes:
        place: object and field, without indices.
        text: for readers.
    """

    place: str
    text: str


def state_differences_of(alone: RestState, state: RestState) -> list[Difference]:
    """Return how a state differs from that of an object which is created with the same content."""
    differences = [
        Difference(f"{key} {_INDEX.sub('[]', path)}", f"{subject_of(key)} {text}")
        for key, path, text in state_differences(
            _without_false(alone, state), _without_false(state, alone), _CREATED_SO
        )
    ]
    for key, reason in sorted(state.unready.items()):
        if key not in alone.unready:
            text = f"{subject_of(key)} is not ready: {reason}; it is ready {_CREATED_SO}"
            differences.append(Difference(f"{key} ready", text))
    for key, error in sorted(state.failing.items()):
        if key not in alone.failing:
            text = f"the reconcile of {key} fails: {error}; it succeeds {_CREATED_SO}"
            differences.append(Difference(f"{key} fails", text))
    return differences


def _without_false(state: RestState, other: RestState) -> RestState:
    """Return a state without the conditions that are False and that the other one does not have.

    A condition of an error stays as False after the error is gone.
    """
    objects: dict[str, list[JsonObject]] = {}
    for key, parts in state.objects.items():
        types = {each["type"] for obj in other.objects.get(key, ()) for each in _conditions(obj)}
        remaining = [_with_conditions(obj, types) for obj in parts]
        if key in other.objects or not all(is_empty(obj) for obj in remaining):
            objects[key] = remaining
    return msgspec.structs.replace(state, objects=objects)


def _conditions(obj: JsonObject) -> list[JsonObject]:
    conditions = get_path(obj, ("status", "conditions"), None)
    return [each for each in conditions if isinstance(each, dict) and "type" in each] if conditions else []


def _with_conditions(obj: JsonObject, types: Collection[str]) -> JsonObject:
    """Return an object with the conditions of these types, and those that are not False."""
    conditions = _conditions(obj)
    kept = [each for each in conditions if each["type"] in types or each.get("status") != "False"]
    if len(kept) == len(conditions):
        return obj
    status = {name: value for name, value in obj["status"].items() if name != "conditions"}
    if kept:
        status["conditions"] = kept
    rest = {name: value for name, value in obj.items() if name != "status"}
    return {**rest, "status": status} if status else rest


def is_troubled(state: RestState) -> bool:
    """Whether a state is not one of rest: a workload is not ready, or reconciles fail."""
    return bool(state.unready or state.failing)


def changes_anything(before: RestState, after: RestState) -> bool:
    """Whether the operator reacted to a change: in an object, in a status, with an Event or with an error."""
    return (
        before.objects != after.objects
        or before.events != after.events
        or before.unready != after.unready
        or before.failing != after.failing
    )


def harm_of(before: RestState, after: RestState) -> list[Difference]:
    """Return what does not work any more after an operation."""
    unready = [
        Difference(f"{key} ready", f"{subject_of(key)} is not ready: {reason}")
        for key, reason in sorted(after.unready.items())
        if key not in before.unready
    ]
    failing = [
        Difference(f"{text_without_names(error)}", f"the reconcile of {key} fails: {error}")
        for key, error in sorted(after.failing.items())
        if key not in before.failing
    ]
    return [*failing, *unready]


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


def is_empty(value: JsonValue) -> bool:
    """Whether a value says nothing: most operators take it for an absent one.

    >>> is_empty({"rules": [], "name": ""})
    True
    """
    if isinstance(value, dict):
        return all(is_empty(each) for each in value.values())
    if isinstance(value, list):
        return all(is_empty(each) for each in value)
    return value is ABSENT or value in (None, "", 0)


def text_without_names(text: str) -> str:
    """Return an error without the names and numbers in it: those of one bug differ in them.

    >>> text_without_names('secrets "a" not found') == text_without_names('secrets "b" not found')
    True
    """
    return _VARIABLE.sub("...", text)
