"""Fairness between the flows of a queue: start-time fair queuing inside each priority. Pure.

A flow is a group of items, such as the requests of one namespace. A flow with the weight 2 gets twice the turns of one
with the weight 1, while both have ready items. A turn is one item, however long its processing takes.

Virtual time counts turns: an item that is served moves the next start of its flow by ``1 / weight``. The flow with the
earliest start is next. A flow that had no turn for a whole round starts at once, before those that are due at the same
time, so a tenant with few items waits for no round. One that had a turn keeps its place in the round, also while it has
no ready items: a tenant that adds one item after the other gets no more turns than one that adds them at once.

Invariants, after every call:
    * the item with the highest priority is served first, whatever its flow;
    * items of one flow are served in the order in which they became ready;
    * of two flows with ready items, ``turns / weight`` differ by at most the sum of their ``1 / weight``;
    * only flows with ready items, and those that had a turn in the present round, take memory.

Upstream: none. k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing has virtual time too. It estimates seconds, and deals
flows to a fixed number of queues.
"""

from __future__ import annotations

import heapq
import inspect
from collections import deque
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


class _Level(Generic[K]):
    """The flows of one priority."""

    __slots__ = ("flows", "time", "turns")

    def __init__(self) -> None:
        self.time = 0.0
        self.flows: dict[Hashable, deque[tuple[int, K]]] = {}
        # One turn for each flow: its start, whether it had a turn in this round, and a number for the order of ties.
        self.turns: list[tuple[float, bool, int, Hashable]] = []


class FairOrder(Generic[K]):
    """The order of a queue's ready items.

    Args:
        flow_of: the flow of an item.
        weight_of: the weight of a flow, from 0.001 to 1000.

    >>> order = FairOrder(flow_of=lambda item: item[0], weight_of=lambda flow: 1.0)
    >>> for ticket, item in enumerate(["a1", "a2", "a3", "b1"]):
    ...     order.push(0, ticket, item)
    >>> [order.pop(lambda ticket, item: True)[1] for _ in range(4)]
    ['a1', 'b1', 'a2', 'a3']
    """

    def __init__(self, flow_of: Callable[[K], Hashable], weight_of: Callable[[Hashable], float]) -> None:
        self._flow_of = flow_of
        self._weight_of = weight_of
        self._levels: dict[int, _Level[K]] = {}
        self._priorities: list[int] = []
        """The negative priorities of the levels: a heap."""
        self._numbers = count()
        self.places = 0
        """Items, with places that are outdated because the item got another one."""

    def push(self, priority: int, ticket: int, item: K) -> None:
        """Add an item that became ready. `ticket` identifies the place; later ones are larger."""
        level = self._levels.get(priority)
        if level is None:
            level = self._levels[priority] = _Level()
            heapq.heappush(self._priorities, -priority)
        flow = self._flow_of(item)
        places = level.flows.get(flow)
        if places is None:
            places = level.flows[flow] = deque()
            heapq.heappush(level.turns, (level.time, False, next(self._numbers), flow))
        places.append((ticket, item))
        self.places += 1

    def pop(self, is_valid: Callable[[int, K], bool]) -> tuple[int, K] | None:
        """Remove and return the next place; None if there is none. `is_valid` tells it from outdated ones."""
        while self._priorities:
            level = self._levels[-self._priorities[0]]
            while level.turns:
                start, _, _, flow = heapq.heappop(level.turns)
                level.time = start
                place = self._next_place(level.flows[flow], is_valid)
                if place is None:
                    del level.flows[flow]  # a whole round without a ready item
                    continue
                next_start = start + 1.0 / self._weight_of(flow)
                heapq.heappush(level.turns, (next_start, True, next(self._numbers), flow))
                return place
            del self._levels[-heapq.heappop(self._priorities)]
        return None

    def _next_place(self, places: deque[tuple[int, K]], is_valid: Callable[[int, K], bool]) -> tuple[int, K] | None:
        while places:
            place = places.popleft()
            self.places -= 1
            if is_valid(*place):
                return place
        return None

    def compact(self, is_valid: Callable[[int, K], bool]) -> None:
        """Remove the outdated places."""
        self.places = 0
        for level in self._levels.values():
            for flow, places in level.flows.items():
                level.flows[flow] = deque(place for place in places if is_valid(*place))
            # A flow without a turn in this round has no place to keep.
            level.turns = [turn for turn in level.turns if turn[1] or level.flows[turn[3]]]
            heapq.heapify(level.turns)
            kept = {turn[3] for turn in level.turns}
            level.flows = {flow: places for flow, places in level.flows.items() if flow in kept}
            self.places += sum(map(len, level.flows.values()))

    def flows(self) -> int:
        """Return the number of flows that take memory, counted for each priority."""
        return sum(len(level.flows) for level in self._levels.values())
