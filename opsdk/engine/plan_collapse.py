"""Puts reconciled objects with equal changes together: a thousand equal lines hide the one that differs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opsdk.engine.plan import Consequence, PlannedChange, PlannedObject

__all__ = ["CollapsedConsequence", "CollapsedObject", "collapse_consequences", "collapse_objects"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollapsedObject:
    """A reconciled object, and others with equal changes.

    Attributes:
        first: the first of them; its changes are shown.
        others: the subjects of the others.
    """

    first: PlannedObject
    others: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CollapsedConsequence:
    """A consequence, and equal ones of other objects.

    Attributes:
        first: the first of them.
        others: the subjects of the others.
    """

    first: Consequence
    others: Sequence[str] = ()


def collapse_objects(objects: Sequence[PlannedObject]) -> list[CollapsedObject]:
    """Return the objects, equal ones together, in the order of the first ones.

    Two are equal if their changes are, apart from their own namespaces and names.
    """
    together: dict[object, list[PlannedObject]] = {}
    for planned in objects:
        together.setdefault(_shape(planned), []).append(planned)
    return [
        CollapsedObject(first=members[0], others=[each.subject for each in members[1:]])
        for members in together.values()
    ]


def collapse_consequences(consequences: Sequence[Consequence]) -> list[CollapsedConsequence]:
    """Return the consequences, equal ones together, in the order of the first ones."""
    together: dict[object, list[Consequence]] = {}
    for each in consequences:
        shape = (each.severity, each.kind, each.subject.partition(" ")[0], _anonymous(each.message, each.subject))
        together.setdefault(shape, []).append(each)
    return [
        CollapsedConsequence(first=members[0], others=[each.subject for each in members[1:]])
        for members in together.values()
    ]


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
