"""What a simulation or a verification declares: the operator, its environment, its workload, and its invariants."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from opsdk.builder.operator import Operator
from opsdk.client.client import Client
from opsdk.engine.doubles import EMPTY_CLUSTER, Doubles, DoublesFactory, factory_of
from opsdk.engine.running_environment import RunningEnvironment
from opsdk.engine.world.exchange import Exchange


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The argument of actions, checks and invariants.

    Attributes:
        client: reads and writes directly, without faults.
        rng: the random numbers of this action.
        env: the environment, for its journal and its other tools.
        exchanges: every request of the replicas until now.
        systems: the doubles of external systems, see `Doubles.systems`; None without doubles.
    """

    client: Client
    rng: random.Random
    env: Any
    exchanges: Sequence[Exchange]
    systems: Any = None


Action = Callable[[World], Awaitable[None]]
"""An async function that changes the cluster as a user or another program would. It must accept any state."""


@dataclass(frozen=True, kw_only=True)
class SimulatedOperator:
    """The attributes of `Simulation` that do not depend on how its runs are disturbed; see there."""

    operator: Callable[[], Operator] | None = None
    doubles: DoublesFactory | None = None
    environment: Callable[[], AbstractAsyncContextManager[RunningEnvironment]]
    actions: Sequence[Action] = ()
    check: Action
    invariants: Sequence[Action] = ()
    children: Sequence[type[Any]] = ()
    replicas: int = 1
    settle: float = 300.0
    calm: float = 30.0
    at_rest: Sequence[Action] = ()
    allowed_hosts: Sequence[str] = ()
    ignored: Sequence[str] = ()

    def __post_init__(self) -> None:
        factory_of(self.operator, self.doubles)

    def new_doubles(self) -> Doubles[Any]:
        """Return the doubles of a new run, with the operator that uses them."""
        return factory_of(self.operator, self.doubles)(EMPTY_CLUSTER)

    def action(self, name: str) -> Action | None:
        """Return the action with a name; None if a step has the name of a fault."""
        return next((action for action in self.actions if name_of(action) == name), None)


def name_of(action: Action) -> str:
    """Return the name of an action or a check."""
    return getattr(action, "__name__", repr(action))
