"""The groups of a manager, its states, and the plan of its stop. Pure.

Upstream: sigs.k8s.io/controller-runtime/pkg/manager/internal.go (engageStopProcedure)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Phase(Enum):
    """The group of a runnable. Groups start in this order and stop in reverse."""

    HTTP = "http servers"
    WEBHOOKS = "webhooks"
    CACHES = "caches"
    OTHERS = "others"
    LEADER = "leader"
    """Only on the elected replica; without an election, on every replica."""


class ManagerState(Enum):
    """State of a manager. It only moves forward."""

    NEW = "new"
    """Accepts health checks, an election and a client."""
    RUNNING = "running"
    """From the start of the first group. Runnables that are added start at once."""
    STOPPING = "stopping"
    """The groups end. No runnable is accepted."""
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopPlan:
    """How a manager stops. See `plan_stop`.

    Attributes:
        phases: the groups, in the order in which they end.
        grace: seconds for all groups together; None for no limit.
        releases_lease: the lease is released after the last group.
    """

    phases: tuple[Phase, ...]
    grace: float | None
    releases_lease: bool

    def remaining(self, elapsed: float) -> float | None:
        """Return the seconds for the next group, `elapsed` seconds after the stop began; None for no limit."""
        return None if self.grace is None else max(self.grace - elapsed, 0.0)

    def failure(self, late: Sequence[str]) -> str:
        """Return the error text for runnables that did not end in time; empty if they had no time."""
        if not late or self.grace == 0:
            return ""
        within = "" if self.grace is None else f" within grace period of {self.grace:g} s"
        return f"failed waiting for all runnables to end{within}: {', '.join(late)}"


def plan_stop(*, lease_lost: bool, shutdown_timeout: float | None) -> StopPlan:
    """Return the plan of a stop.

    >>> plan_stop(lease_lost=True, shutdown_timeout=30).phases[0]
    <Phase.LEADER: 'leader'>
    """
    servers = (Phase.CACHES, Phase.WEBHOOKS, Phase.HTTP)
    if lease_lost:
        # Another replica may already lead: what needs leadership ends first, and without delay.
        return StopPlan(phases=(Phase.LEADER, Phase.OTHERS, *servers), grace=0.0, releases_lease=False)
    return StopPlan(phases=(Phase.OTHERS, Phase.LEADER, *servers), grace=shutdown_timeout, releases_lease=True)
