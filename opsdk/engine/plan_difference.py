"""Subtracts the plan of another version from a plan: what this version does, and the other one does not. Pure.

Both plans begin at one state, with the same changes of the user. The clock, uids and addresses differ between two runs
of two versions, so equal fields are those that are equal without such values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from opsdk.engine.differences import Difference, new_fields
from opsdk.engine.masking import masked, masked_text
from opsdk.engine.plan import ChangeAction, Consequence, ConsequenceKind, Plan, PlannedChange, PlannedObject

__all__ = ["subtract_plan"]

_COUNTED: Final = frozenset({ConsequenceKind.LOOP, ConsequenceKind.FIGHT, ConsequenceKind.REFUSED})
"""Consequences whose messages have counts that depend on the length of the run."""
_NUMBER: Final = re.compile(r"\d+(\.\d+)?")


def subtract_plan(plan: Plan, other: Plan, *, against: str) -> Plan:
    """Return the plan without what the other one has equally.

    A change that both plans have, with different fields, keeps the fields that differ: from the value at the end of
    the other plan to the value at the end of this one. Changes that only the other plan has are in `Plan.omitted`.

    What one of the two could not see, their difference cannot show.

    Args:
        plan: of this version.
        other: of the other version, from the same state and with the same changes of the user.
        against: names the other version.
    """
    own_keys, other_keys = _keys(plan), _keys(other)
    others = {other_keys[id(change)]: change for change in other.changes}
    shared = set(own_keys.values())
    own_collected, other_collected = set(plan.collected), set(other.collected)
    other_consequences = {_consequence_key(each) for each in other.consequences}
    return replace(
        plan,
        against=against,
        objects=_filtered(
            plan.objects,
            lambda change: (
                None if _is_in(other_collected, change) else _beside(change, others.get(own_keys[id(change)]))
            ),
        ),
        omitted=_filtered(
            other.objects,
            lambda change: None if other_keys[id(change)] in shared or _is_in(own_collected, change) else change,
        ),
        unseen=tuple(dict.fromkeys((*plan.unseen, *other.unseen))),
        blind=tuple(dict.fromkeys((*plan.blind, *other.blind))),
        unknown=tuple(dict.fromkeys((*plan.unknown, *other.unknown))),
        consequences=[each for each in plan.consequences if _consequence_key(each) not in other_consequences],
    )


def _is_in(collected: Collection[str], change: PlannedChange) -> bool:
    """Whether the object of a deletion goes in the other run too: the garbage collector deletes it there."""
    return change.action is ChangeAction.DELETE and change.subject in collected


def _filtered(
    objects: Sequence[PlannedObject], choose: Callable[[PlannedChange], PlannedChange | None]
) -> Sequence[PlannedObject]:
    """Return the objects with the chosen changes; objects without any are left out."""
    chosen = (
        replace(planned, changes=[own for change in planned.changes if (own := choose(change)) is not None])
        for planned in objects
    )
    return [planned for planned in chosen if planned.changes]


def _keys(plan: Plan) -> Mapping[int, Hashable]:
    """Return, by the identity of each change, what identifies its object in both plans.

    Another version of its kind is the same object. Objects with generated names are told apart by their order.
    """
    counts: Counter[Hashable] = Counter()
    keys: dict[int, Hashable] = {}
    for change in plan.changes:
        group = change.api_version.rpartition("/")[0]
        key = (group, change.kind, change.namespace, change.generate_name or change.name)
        keys[id(change)] = (key, counts[key])
        counts[key] += 1
    return keys


def _consequence_key(consequence: Consequence) -> Hashable:
    message = masked_text(consequence.message)
    if consequence.kind in _COUNTED:
        message = _NUMBER.sub("...", message)
    return (consequence.kind, consequence.severity, consequence.subject, message)


# ------------------------------------------------------------------ fields
def _beside(change: PlannedChange, other: PlannedChange | None) -> PlannedChange | None:
    """Return the change with the fields that the other version leaves otherwise; None if there are none."""
    if other is None or change.action is not other.action:
        return change
    differing = list(_differing(_fields(change), _fields(other)))
    return replace(change, differences=differing) if differing else None


def _fields(change: PlannedChange) -> Mapping[str, Difference]:
    fields = {difference.path: difference for difference in new_fields(change.differences)}
    # It is known from the key, and a generated one differs.
    fields.pop("metadata.name", None)
    return fields


def _differing(own: Mapping[str, Difference], other: Mapping[str, Difference]) -> Iterator[Difference]:
    """Yield the fields with different ends. A field that one version does not change ends as it began."""
    for path in {**own, **other}:
        began = own[path].old if path in own else other[path].old
        own_end = own[path].new if path in own else began
        other_end = other[path].new if path in other else began
        if masked(path, own_end) != masked(path, other_end):
            yield Difference(path, other_end, own_end)
