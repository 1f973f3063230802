"""Puts reconciled objects with equal changes together: a thousand equal lines hide the one that differs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from opsdk.engine.plan import Consequence, PlannedChange, PlannedObject

__all__ = ["Collapsed", "collapse_consequences", "collapse_objects"]


T = TypeVar("T", PlannedObject, Consequence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collapsed(Generic[T]):
    """A reconciled object or a consequence, and equal ones.

    Attributes:
        first: the first of them, which is shown.
        others: the subjects of the others.
    """

    first: T
    others: Sequence[str] = ()


def collapse_objects(objects: Sequence[PlannedObject]) -> list[Collapsed[PlannedObject]]:
    """Return the objects, equal ones together, in the order of the first ones.

    Two are equal if their changes are, apart from their own namespaces and names.
    """
    return _collapsed(objects, _shape)


def collapse_consequences(consequences: Sequence[Consequence]) -> list[Collapsed[Consequence]]:
    """Return the consequences, equal ones together, in the order of the first ones."""
    return _collapsed(
        consequences,
        lambda each: (each.severity, each.kind, each.subject.partition(" ")[0], _anonymous(each.message, each.subject)),
    )


def _collapsed(items: Sequence[T], shape: Callable[[T], object]) -> list[Collapsed[T]]:
    together: dict[object, list[T]] = {}
    for item in items:
        together.setdefault(shape(item), []).append(item)
    return [Collapsed(first=first, others=[each.subject for each in others]) for first, *others in together.values()]


def _shape(planned: PlannedObject) -> object:
    return (
        planned.controller,
        planned.subject.partition(" ")[0] if planned.controller else planned.subject,
        tuple(_change_shape(change, planned.subject) for change in planned.changes),
    )


def _change_shape(change: PlannedChange, subject: str) -> object:
    differences = tuple(_anonymous(str(difference), subject) for difference in change.differences)
    return (change.action, change.kind, _anonymous(change.name, subject), differences, tuple(change.effects))


def _anonymous(text: str, subject: str) -> str:
    """Return a text without the namespace and name of an object."""
    key = subject.rpartition(" ")[2]
    namespace, _, name = key.rpartition("/")
    if len(name) > 1:
        text = text.replace(name, "NAME")
    return text.replace(namespace, "NAMESPACE") if len(namespace) > 1 else text
