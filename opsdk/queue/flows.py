"""Calls an author's functions for the flow and the weight of requests. Their failures change no order but their own."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from operator import attrgetter
from typing import Any

from opsdk.aio.containment import contain
from opsdk.errors import UsageError
from opsdk.queue.fairness import DEFAULT_WEIGHT, WEIGHT_RANGE, Fairness, FairOrder, is_weight
from opsdk.telemetry.failures import FunctionFailures


def fair_order(name: str, fairness: Fairness, item_type: type = object) -> FairOrder[Any]:
    """Return the order of the queue of this name, and of items of this class."""
    flows = _Flows(name, fairness)
    # A function in C where the class has the attribute: each request that becomes ready calls it.
    namespace_of = attrgetter("namespace") if hasattr(item_type, "namespace") else _namespace_of
    return FairOrder(
        flow_of=namespace_of if fairness.flow is None else flows.flow_of,
        weight_of=flows.known_weight_of if isinstance(fairness.weights, Mapping) else flows.weight_of,
    )


def _namespace_of(item: Any) -> Hashable:
    """Return the namespace of a request; requests of another type without one are one flow."""
    namespace: Hashable = getattr(item, "namespace", "")
    return namespace


class _Flows:
    """The functions of a `Fairness`, and their failures."""

    def __init__(self, name: str, fairness: Fairness) -> None:
        self._fairness = fairness
        self._failures = FunctionFailures(f"the fairness of controller {name}")
        # A copy: the author may change the mapping to numbers that were never checked.
        self._known = dict(fairness.weights) if isinstance(fairness.weights, Mapping) else {}

    def flow_of(self, item: Any) -> Hashable:
        """Return the flow of a request: its namespace if the author's function fails."""
        assert self._fairness.flow is not None
        try:
            flow = self._fairness.flow(item)
            hash(flow)
        except BaseException as error:  # noqa: BLE001 - a user function may raise anything
            self._failures.failed("flow (the namespace counts)", item, contain(error))
            return _namespace_of(item)
        return flow

    def weight_of(self, flow: Hashable) -> float:
        """Return the weight of a flow: 1 if the author's function fails."""
        assert not isinstance(self._fairness.weights, Mapping)
        try:
            weight = self._fairness.weights(flow)
            if not is_weight(weight):
                raise UsageError(f"weights returned {weight!r}: {WEIGHT_RANGE}")  # noqa: TRY301 - one way out
        except BaseException as error:  # noqa: BLE001 - a user function may raise anything
            self._failures.failed("weights (the weight is 1)", flow, contain(error))
            return DEFAULT_WEIGHT
        return weight

    def known_weight_of(self, flow: Hashable) -> float:
        """Return the weight of a flow from the mapping."""
        return self._known.get(flow, DEFAULT_WEIGHT)
