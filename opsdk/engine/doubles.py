"""Doubles of external systems. Authors import them from `opsdk.testing.doubles`, which says what they are for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from opsdk.builder.operator import Operator
from opsdk.engine.snapshot import ClusterSnapshot
from opsdk.errors import UsageError

__all__ = ["EMPTY_CLUSTER", "Doubles", "DoublesFactory", "factory_of"]

S = TypeVar("S")

EMPTY_CLUSTER: Final = ClusterSnapshot(taken_at="1970-01-01T00:00:00Z")
"""A cluster without objects: the doubles of a test begin with nothing."""


@dataclass(frozen=True, kw_only=True)
class Doubles(Generic[S]):
    """Doubles of external systems, and the operator that uses them.

    Args:
        operator: creates an operator that uses the doubles; called for each start of a process. The doubles outlive it,
            as the real systems do.
        systems: the doubles, for the code of tests and simulations.

    >>> from opsdk import Operator
    >>> records: dict[str, str] = {}
    >>> doubles = Doubles(operator=lambda: Operator("dns"), systems=records)
    >>> doubles.operator().name
    'dns'
    """

    operator: Callable[[], Operator]
    systems: S


DoublesFactory = Callable[[ClusterSnapshot], Doubles[Any]]
"""Creates the doubles of one run. It puts them into the state that the objects of the cluster describe, such as a
record for each object whose status has its id, and returns a new `Doubles` each time."""


def factory_of(operator: Callable[[], Operator] | None, doubles: DoublesFactory | None) -> DoublesFactory:
    """Return what creates the doubles of a run; an operator without doubles has no systems.

    Raises:
        UsageError: not exactly one of the two is set.
    """
    if doubles is not None and operator is None:
        return doubles
    if operator is not None and doubles is None:
        return lambda _: Doubles(operator=operator, systems=None)
    raise UsageError("operator or doubles is missing, or both are set: pass a function that creates one of them")
