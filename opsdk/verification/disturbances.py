"""Disturbances of a run, one for each place where something can go wrong in it. Pure.

The reference run is a run of the workload without disturbances. Each of its writes that changed something, and each of
its watch messages, is a place. All places are enumerated, so a window of a millisecond is found as well as a long one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import zip_longest
from typing import Any, Final, TypeVar, cast

import msgspec

from opsdk.engine.world.disturber import WatchMessage
from opsdk.engine.world.exchange import Exchange
from opsdk.engine.world.faults import Fault

__all__ = [
    "COUNTED",
    "DEFAULT_KINDS",
    "FAULTS",
    "FOREIGN",
    "NEEDS_STANDBY",
    "NOTHING_ATTACKED",
    "Disturbance",
    "DisturbanceKind",
    "by_kind",
    "counts_of",
    "guided_disturbances",
    "most_different",
    "rule_of",
    "title_of",
]


class DisturbanceKind(StrEnum):
    """What goes wrong."""

    CRASH_AFTER = "crash_after"
    """The replica ends after the server has stored a write, and before the answer. It restarts a second later."""
    LOSE_ANSWER = "lose_answer"
    """The server stores a write, and the connection breaks before the answer."""
    CONFLICT = "conflict"
    """A write is not stored: the answer is 409."""
    REFUSE = "refuse"
    """A write is not stored: the answer is 503."""
    LOSE_LEASE = "lose_lease"
    """From a write on, the leader's requests for its lease are answered with 503, until another replica leads."""
    EARLY = "early"
    """The next action of the user comes during a write, not at rest: an object is deleted while it is created."""
    STALE = "stale"
    """The watch of one kind stands still, from a message on until the operator has reacted to the next action."""
    HIDE = "hide"
    """The watch of one kind breaks before a message. It lists anew after the object has changed again."""
    TAKE_OVER = "take_over"
    """The watch of one kind of a standby stands still from a message on. After the next action the leader ends, and the
    standby leads with its old view for a while."""
    DELETE_CHILD = "delete_child"
    """A foreign client deletes an object of the operator that has an owner, when the operator is at rest."""
    EDIT_CHILD = "edit_child"
    """A foreign client changes such an object."""
    DRIFT = "drift"
    """A foreign client changes such an object: what the next process restores, the present one must restore too."""
    PAST = "restart_into_past"
    """The process restarts, and reads the objects of one kind as they were before. Only for lists at any version."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


WRITES: Final = frozenset({
    DisturbanceKind.CRASH_AFTER,
    DisturbanceKind.LOSE_ANSWER,
    DisturbanceKind.CONFLICT,
    DisturbanceKind.REFUSE,
    DisturbanceKind.LOSE_LEASE,
    DisturbanceKind.EARLY,
})  # fmt: skip
"""Kinds that hit a write."""

FAULTS: Final = {
    DisturbanceKind.CRASH_AFTER: Fault.CRASH_AFTER_WRITE,
    DisturbanceKind.LOSE_ANSWER: Fault.LOSE_ANSWER,
    DisturbanceKind.CONFLICT: Fault.CONFLICTING_WRITE,
    DisturbanceKind.REFUSE: Fault.UNAVAILABLE,
}
"""The faults of the links for the kinds that have one."""
FOREIGN: Final = frozenset({DisturbanceKind.DELETE_CHILD, DisturbanceKind.EDIT_CHILD, DisturbanceKind.DRIFT})
"""Kinds that come from a foreign client."""
DEFAULT_KINDS: Final = tuple(kind for kind in DisturbanceKind if kind is not DisturbanceKind.EDIT_CHILD)
"""All kinds but one: not each operator undoes what others change in its children."""
NEEDS_STANDBY: Final = frozenset({DisturbanceKind.LOSE_LEASE, DisturbanceKind.TAKE_OVER})
"""Kinds that need a second replica."""
NOTHING_ATTACKED: Final = "nothing was attacked, so this says nothing of the operator"
"""The report of a verification that ran no disturbance."""
_NO_CHILDREN: Final[Mapping[int, Collection[str]]] = {}
COUNTED: Final = WRITES - {DisturbanceKind.EARLY} | {DisturbanceKind.TAKE_OVER}
"""Kinds during which an operator has little reason to create or delete objects more often than without a fault."""


class Disturbance(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """One disturbance.

    Attributes:
        kind: what goes wrong.
        number: of the write, or of the message of its watch; for a foreign client, of the actions before.
        path: of the watch, or the storage key of a child; of the write, for readers.
        method: of the write, for readers.
    """

    kind: DisturbanceKind
    number: int
    path: str = ""
    method: str = ""

    def __str__(self) -> str:
        if self.kind in WRITES:
            return f"{self.kind.value} write {self.number}, {self.method} {self.path}"
        if self.kind in FOREIGN:
            return f"{self.kind.value} {self.path} after {self.number} actions"
        return f"{self.kind.value} message {self.number} of {self.path}"


T = TypeVar("T")
DisturbanceT = TypeVar("DisturbanceT", bound=Disturbance)
_NOTHING: Final[Any] = object()
_TURNS: Final = {DisturbanceKind.TAKE_OVER: 3.0, DisturbanceKind.LOSE_LEASE: 0.25}
"""Turns of a kind while the others have one. Old views are many, and a lost lease stops any leader alike."""


def guided_disturbances(
    writes: Sequence[Exchange],
    messages: Sequence[WatchMessage],
    children: Mapping[int, Collection[str]] = _NO_CHILDREN,
) -> Iterator[Disturbance]:
    """Yield the disturbances of a reference run: first the crashes, then what is lost, refused, stale and hidden.

    A write that changed nothing is no place for a crash. A message whose objects never change again is not hidden. A
    standby stands still before messages that follow an action: without the first ones it never has a view. A child is
    deleted and edited once, at the first rest at which it exists.

    Args:
        writes: of the operator.
        messages: of its watches.
        children: storage keys of its objects that have an owner, at each rest by the number of actions before.

    >>> writes = [Exchange(time=0.0, client="replica-0.1", method="POST", target="/a", revision=7)]
    >>> [each.kind.value for each in guided_disturbances(writes, [])]
    ['crash_after', 'lose_answer', 'refuse', 'early']
    """
    has_standby = any(message.standby for message in messages)
    yield from _at_writes(
        [(number, write) for number, write in enumerate(writes, 1) if write.changed], has_standby=has_standby
    )
    yield from _at_messages(messages)
    yield from _of_children(children)


def _at_writes(effective: Sequence[tuple[int, Exchange]], *, has_standby: bool) -> Iterator[Disturbance]:
    for kind in DisturbanceKind:
        if kind not in WRITES or (kind is DisturbanceKind.LOSE_LEASE and not has_standby):
            continue
        for number, write in effective:
            if kind is not DisturbanceKind.CONFLICT or write.method in ("PUT", "PATCH"):
                yield Disturbance(kind=kind, number=number, path=write.path, method=write.method)


def _at_messages(messages: Sequence[WatchMessage]) -> Iterator[Disturbance]:
    # A view stands still for all replicas: those of a standby are the same places again.
    of_leader = [message for message in messages if not message.standby]
    for message in of_leader:
        yield Disturbance(kind=DisturbanceKind.STALE, number=message.number, path=message.path)
    last = {(message.path, key): message.number for message in messages for key in message.keys}
    for message in of_leader:
        if any(last[message.path, key] > message.number for key in message.keys):
            yield Disturbance(kind=DisturbanceKind.HIDE, number=message.number, path=message.path)
    for message in _most_outdated([each for each in messages if each.standby and each.keys and each.action >= 0]):
        yield Disturbance(kind=DisturbanceKind.TAKE_OVER, number=message.number, path=message.path)


def _most_outdated(messages: Sequence[WatchMessage]) -> list[WatchMessage]:
    """Return messages of a standby, first those without which its view differs most from what the leader did.

    The first message of a watch after an action is the action itself, or the first thing that the leader did. An action
    of which one watch has messages changed no other kind: the leader did nothing.
    """
    paths: dict[int, set[str]] = {}
    for message in messages:
        paths.setdefault(message.action, set()).add(message.path)
    effective = {action for action, watched in paths.items() if len(watched) > 1}
    met: set[tuple[str, int]] = set()
    ranked = []
    for message in messages:
        place = (message.path, message.action)
        ranked.append(((message.action not in effective, place in met), message))
        met.add(place)
    return [message for _, message in sorted(ranked, key=lambda each: each[0])]


def _of_children(children: Mapping[int, Collection[str]]) -> Iterator[Disturbance]:
    first: dict[str, int] = {}
    for number, keys in sorted(children.items()):
        for key in sorted(keys):
            first.setdefault(key, number)
    for kind in (DisturbanceKind.DELETE_CHILD, DisturbanceKind.EDIT_CHILD, DisturbanceKind.DRIFT):
        for key, number in first.items():
            yield Disturbance(kind=kind, number=number, path=key)


def most_different(
    places: Iterable[tuple[int, DisturbanceT]], budget: int | None
) -> tuple[list[tuple[int, DisturbanceT]], Counter[DisturbanceKind]]:
    """Return the disturbances of a budget, and the number of the others by kind.

    The kinds take turns, some more often than others. A kind begins with one place of each sort: at a write or a watch
    of a resource. Each workload begins at another place, so that all of its actions are met. The choice depends neither
    on the time nor on the number of processes.

    Args:
        places: each with the number of its workload.
        budget: None for all.

    >>> crash = [(0, Disturbance(kind=DisturbanceKind.CRASH_AFTER, number=n, path="/api/v1/pods")) for n in (1, 2)]
    >>> refuse = [(0, Disturbance(kind=DisturbanceKind.REFUSE, number=1, path="/api/v1/pods"))]
    >>> chosen, beyond = most_different([*crash, *refuse], 2)
    >>> [str(each) for _, each in chosen], beyond.total()
    (['crash_after write 1,  /api/v1/pods', 'refuse write 1,  /api/v1/pods'], 1)
    """
    sorts: dict[tuple[object, ...], dict[int, list[tuple[int, DisturbanceT]]]] = {}
    for place in places:
        sorts.setdefault(_sort_of(place[1]), {}).setdefault(place[0], []).append(place)
    kinds: dict[DisturbanceKind, list[list[tuple[int, DisturbanceT]]]] = {}
    for sort, by_workload in sorts.items():
        kind = cast("DisturbanceKind", sort[0])
        # Old views are in the order of what they hide.
        is_ordered = kind is DisturbanceKind.TAKE_OVER
        lists = [_beginning_at(each, 0 if is_ordered else number) for number, each in by_workload.items()]
        kinds.setdefault(kind, []).append(list(_in_turn(lists)))
    ranked = [
        (number / _TURNS.get(kind, 1), place)
        for kind, of_sorts in kinds.items()
        for number, place in enumerate(_in_turn(of_sorts), 1)
    ]
    ordered = [place for _, place in sorted(ranked, key=lambda each: each[0])]
    size = len(ordered) if budget is None else budget
    return ordered[:size], Counter(each.kind for _, each in ordered[size:])


def _beginning_at(members: Sequence[T], place: int) -> Sequence[T]:
    """Return members from one on, and then the former ones."""
    begin = place % len(members)
    return [*members[begin:], *members[:begin]]


def _in_turn(groups: Iterable[Sequence[T]]) -> Iterator[T]:
    """Yield the first member of each group, then the second one of each, and so on."""
    for members in zip_longest(*groups, fillvalue=_NOTHING):
        yield from (each for each in members if each is not _NOTHING)


def _sort_of(disturbance: Disturbance) -> tuple[object, ...]:
    """Return what equal disturbances have in common: kind, method, and the path without namespaces and names."""
    parts = [part for part in disturbance.path.split("/") if part]
    if "namespaces" in parts[:-2]:
        place = parts.index("namespaces")
        parts = parts[:place] + parts[place + 2 :]
    begin = 3 if parts[:1] == ["apis"] else 2
    resource = (*parts[: begin + 1], *parts[begin + 2 :])
    return disturbance.kind, disturbance.method, resource


def rule_of(disturbance: Disturbance | None) -> str:
    """Return the kind of a disturbance as the rule of a report."""
    return disturbance.kind.value if disturbance is not None else "no disturbance"


def title_of(disturbance: Disturbance | None) -> str:
    """Return a disturbance as the title of a report."""
    return str(disturbance) if disturbance is not None else "without a disturbance"


def by_kind(counts: Counter[DisturbanceKind]) -> str:
    """Return the numbers of disturbances as text.

    >>> by_kind(Counter({DisturbanceKind.CONFLICT: 2}))
    '2 conflict'
    """
    return ", ".join(f"{count} {kind}" for kind, count in counts_of(counts).items())


def counts_of(counts: Counter[DisturbanceKind]) -> dict[str, int]:
    """Return the numbers of disturbances for programs."""
    return {kind.value: count for kind, count in sorted(counts.items())}
