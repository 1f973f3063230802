"""The order of children: which to apply now, which wait, and which to delete next. Pure.

Upstream: none; Java Operator SDK's workflows have these rules.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from typing import Generic, TypeVar

from opsdk.errors import UsageError

K = TypeVar("K", bound=Hashable)


class ChildState(Enum):
    """The state of a child in one reconcile."""

    MISSING = "missing"
    """The reconcile needs it, and another program has to create it."""
    PENDING = "pending"
    """It is not applied, because a child before it is not ready."""
    APPLYING = "applying"
    """Its apply is under way."""
    APPLIED = "applied"
    """It is applied, and nothing waits for its state."""
    READY = "ready"
    """It is applied and ready."""
    WAITING = "waiting"
    """It is applied and not ready."""
    FAILED = "failed"
    """Its apply failed, or its state is a failure that needs attention."""
    DELETING = "deleting"
    """Its deletion was requested."""
    GONE = "gone"
    """It is deleted."""


DONE = frozenset({ChildState.APPLIED, ChildState.READY})
"""The states in which children that come after it are applied."""
UNREADY = frozenset(
    {ChildState.MISSING, ChildState.PENDING, ChildState.WAITING, ChildState.FAILED, ChildState.DELETING}
)
"""The states that a reconcile waits for."""


class ChildGraph(Generic[K]):
    """Children, each with those that come before it.

    >>> graph = ChildGraph({"secret": [], "db": ["secret"], "web": ["db", "secret"]})
    >>> states = dict.fromkeys(["secret", "db", "web"], ChildState.PENDING)
    >>> graph.to_apply(states)
    ['secret']

    Args:
        after: the children in the order of their declaration, with the children that must be done before each.

    Raises:
        UsageError: a child comes after one that is not in the graph, after itself, or after one that comes after it.
    """

    def __init__(self, after: Mapping[K, Collection[K]]) -> None:
        self._after = {child: frozenset(before) for child, before in after.items()}
        for child, before in self._after.items():
            for missing in before - self._after.keys():
                raise UsageError(
                    f"{child} comes after {missing}, which is not in the set: add it, or remove it from after"
                )
        try:
            order = tuple(TopologicalSorter(self._after).static_order())
        except CycleError as error:
            # graphlib names each child before the one that comes after it.
            circle = " after ".join(map(str, reversed(error.args[1])))
            raise UsageError(f"the order of the children is a cycle: {circle}. Remove one of them from after") from None
        self._ancestors: dict[K, frozenset[K]] = {}
        for child in order:
            before = self._after[child]
            self._ancestors[child] = before.union(*(self._ancestors[other] for other in before))

    def __iter__(self) -> Iterator[K]:
        """Iterate over the children in the order of their declaration."""
        return iter(self._after)

    def ancestors(self, child: K) -> frozenset[K]:
        """Return the children that come before a child, directly or through others."""
        return self._ancestors[child]

    def to_apply(self, states: Mapping[K, ChildState]) -> list[K]:
        """Return the pending children for which everything before them is done."""
        return [
            child
            for child, before in self._after.items()
            if states[child] is ChildState.PENDING and all(states[other] in DONE for other in before)
        ]

    def waits_for(self, child: K, states: Mapping[K, ChildState]) -> list[K]:
        """Return the children that must be done before a child, and are not."""
        before = self._after[child]
        return [other for other in self._after if other in before and states[other] not in DONE]

    def __repr__(self) -> str:
        return f"<ChildGraph of {len(self._after)} children>"


def to_delete(before: Mapping[K, Collection[K]], deleting: Collection[K]) -> list[K]:
    """Return the children to delete now: those for which everything that comes after them is gone.

    Args:
        before: the children that exist, with those that come before each. Others in it are gone. Children in a circle,
            which different versions of a program may leave, are deleted at the same time.
        deleting: the children whose deletion was requested.

    >>> to_delete({"secret": [], "db": ["secret"], "web": ["db"]}, [])
    ['web']
    >>> to_delete({"secret": [], "db": ["secret"], "web": ["db"]}, ["web"])
    []
    """
    ancestors = {child: _reachable(child, before) for child in before}
    return [
        child
        for child in before
        if child not in deleting
        and all(other in ancestors[child] for other in before if other != child and child in ancestors[other])
    ]


def _reachable(child: K, before: Mapping[K, Collection[K]]) -> set[K]:
    reached: set[K] = set()
    pending = [*before[child]]
    while pending:
        other = pending.pop()
        if other in before and other not in reached:
            reached.add(other)
            pending += before[other]
    return reached
