"""Fairness between the flows of a queue: start-time fair queuing inside each priority. Pure.

A flow is a group of items, such as the requests of one namespace. A flow with the weight 2 gets twice the turns of one
with the weight 1, while both have ready items. A turn is one item, however long its processing takes.

Virtual time counts turns: an item that is served moves the next start of its flow by ``1 / weight``. The flow with the
earliest start is next. A flow that had no turn for a whole round starts at once, before those that are due at the same
time, so a tenant with few items waits for no round. One that had a turn keeps its place in the round, also while it has
no ready items: a tenant that adds one item after the other gets no more turns than one that adds them at once.

Invariants, after every call:
    * the item with the highest priority is served first, whatever its flow, unless the caller names a priority;
    * items of one flow are served in the order in which they became ready;
    * of two flows with ready items, ``turns / weight`` differ by at most the sum of their ``1 / weight``;
    * only flows with ready items, and those that had a turn in the present round, take memory.

Upstream: none. k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing has virtual time too. It estimates seconds, and deals
flows to a fixed number of queues.
"""

from __future__ import annotations

import heapq
import inspect
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from itertools import count
from typing import Any, Generic, TypeVar

import msgspec

from opsdk.base.options import Options
from opsdk.base.place import caller_place
from opsdk.errors import UsageError

__all__ = ["Fairness"]

K = TypeVar("K", bound=Hashable)

DEFAULT_WEIGHT = 1.0
"""The weight of a flow that has none of its own."""
WEIGHT_RANGE = "a weight is a number from 0.001 to 1000"
_MIN_WEIGHT, _MAX_WEIGHT = 0.001, 1000.0
# Fewer turns may stay after their flows.
_MANY_TURNS = 64


class Fairness(Options, frozen=True, kw_only=True):
    """Fairness between groups of a controller's requests, inside each priority.

    A turn is one reconcile, however long it takes: a tenant whose reconciles wait for minutes needs workers of its own,
    or a `reconciliation_timeout`.

    Attributes:
        flow: returns the group of a request, which must be hashable; None: its namespace. It is called whenever a
            request becomes ready, so it must be fast. If it raises, the error is logged and the namespace counts.
        weights: share of each group, by group or as a function; others have 1. A group with 2 gets twice the
            reconciles of one with 1 while both have requests. A weight is a number from 0.001 to 1000. If the function
            raises or returns anything else, the error is logged and the weight is 1.

    Raises:
        UsageError: an argument has a wrong type or value; the message has file and line.

    >>> from opsdk import ControllerOptions
    >>> options = ControllerOptions(fairness=Fairness(weights={"payments": 4}))
    """

    flow: Callable[[Any], Hashable] | None = None
    weights: Mapping[Any, float] | Callable[[Any], float] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.flow is not None:
            _check_function(self.flow, "flow", "a function from a request to its group")
        if not isinstance(self.weights, Mapping):
            _check_function(self.weights, "weights", "a mapping from groups to numbers, or a function")
            return
        for flow, weight in self.weights.items():
            if not is_weight(weight):
                raise _error(f"the weight of {flow!r} is {weight!r}: {WEIGHT_RANGE}")


def is_weight(value: object) -> bool:
    """Whether a value can be a weight. The limits bound a round, so no flow starves."""
    return isinstance(value, int | float) and not isinstance(value, bool) and _MIN_WEIGHT <= value <= _MAX_WEIGHT


def _check_function(function: object, keyword: str, expected: str) -> None:
    if isinstance(function, type) or not callable(function):
        raise _error(f"{keyword} of Fairness takes {expected}, but got {function!r}")
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        raise _error(f"{keyword} of Fairness got {function!r}, which is async: declare it with a plain def")


def _error(text: str) -> UsageError:
    return UsageError(f"{caller_place()}: {text}")


class _Flow(Generic[K]):
    """A flow of one priority: its ready items in the order in which they became ready."""

    __slots__ = ("had_turn", "items", "key", "step")

    def __init__(self, key: Hashable, weight: float) -> None:
        self.key = key
        self.step = 1.0 / weight
        self.had_turn = False
        # Not a dict: that one takes longer and longer to return its first key while others are removed before it.
        self.items: OrderedDict[K, None] = OrderedDict()


class _Level(Generic[K]):
    """The flows of one priority."""

    __slots__ = ("flows", "time", "turns")

    def __init__(self) -> None:
        self.time = 0.0
        self.flows: dict[Hashable, _Flow[K]] = {}
        # The next turn of each flow: its start, whether it had one in this round, and a number for the order of ties.
        self.turns: list[tuple[float, bool, int, _Flow[K]]] = []


class FairOrder(Generic[K]):
    """The order of a queue's ready items.

    Args:
        flow_of: the flow of an item.
        weight_of: the weight of a flow, from 0.001 to 1000; called when a flow gets its first ready item.

    >>> order = FairOrder(flow_of=lambda item: item[0], weight_of=lambda flow: 1.0)
    >>> for item in ["a1", "a2", "a3", "b1"]:
    ...     order.push(0, item)
    >>> [order.pop() for _ in range(5)]
    ['a1', 'b1', 'a2', 'a3', None]
    """

    def __init__(self, flow_of: Callable[[K], Hashable], weight_of: Callable[[Hashable], float]) -> None:
        self._flow_of = flow_of
        self._weight_of = weight_of
        self._levels: dict[int, _Level[K]] = {}
        # The negative priorities of the levels: a heap.
        self._priorities: list[int] = []
        self._numbers = count()

    def emptied(self) -> FairOrder[K]:
        """Return an order of the same kind without items."""
        return FairOrder(self._flow_of, self._weight_of)

    def push(self, priority: int, item: K) -> None:
        """Add an item that became ready. It must not be here already."""
        level = self._levels.get(priority)
        if level is None:
            level = self._levels[priority] = _Level()
            heapq.heappush(self._priorities, -priority)
        key = self._flow_of(item)
        flow = level.flows.get(key)
        if flow is None:
            flow = level.flows[key] = _Flow(key, self._weight_of(key))
            heapq.heappush(level.turns, (level.time, False, next(self._numbers), flow))
        flow.items[item] = None

    def pop(self, priority: int | None = None) -> K | None:
        """Remove and return the next item; None if there is none.

        Args:
            priority: one with ready items; None for the highest.
        """
        if priority is not None:
            return self._next(self._levels[priority])
        while self._priorities:
            if (item := self._next(self._levels[-self._priorities[0]])) is not None:
                return item
            del self._levels[-heapq.heappop(self._priorities)]
        return None

    def _next(self, level: _Level[K]) -> K | None:
        while level.turns:
            start, _, _, flow = level.turns[0]
            level.time = start
            if not flow.items:
                heapq.heappop(level.turns)
                self._forget(level, flow)  # a whole round without a ready item
                continue
            flow.had_turn = True
            heapq.heapreplace(level.turns, (start + flow.step, True, next(self._numbers), flow))
            return flow.items.popitem(last=False)[0]
        return None

    def discard(self, priority: int, item: K) -> None:
        """Remove an item, which uses no turn. Its flow may be another one than it was."""
        level = self._levels[priority]
        flow = level.flows.get(self._flow_of(item))
        if flow is None or item not in flow.items:
            flow = next(flow for flow in level.flows.values() if item in flow.items)
        del flow.items[item]
        if flow.items or flow.had_turn:
            return
        # A flow without a turn in this round has no place to keep.
        self._forget(level, flow)
        if len(level.turns) > _MANY_TURNS and len(level.turns) > 2 * len(level.flows):
            level.turns = [turn for turn in level.turns if level.flows.get(turn[3].key) is turn[3]]
            heapq.heapify(level.turns)

    @staticmethod
    def _forget(level: _Level[K], flow: _Flow[K]) -> None:
        if level.flows.get(flow.key) is flow:
            del level.flows[flow.key]

    def depth(self) -> dict[tuple[int, Hashable], int]:
        """Return the number of ready items by priority and flow."""
        return {
            (priority, key): len(flow.items)
            for priority, level in self._levels.items()
            for key, flow in level.flows.items()
            if flow.items
        }

    def flows(self) -> int:
        """Return the number of flows that take memory, counted for each priority."""
        return sum(len(level.flows) for level in self._levels.values())
