"""The rules of holding a lease. Pure: time is passed in, requests are returned.

Time is always this process's own: a lease counts as expired when *we* have seen it unchanged for its duration.
Remote clocks are written down but never believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from opsdk.api.coordination.v1 import Lease, LeaseSpec
from opsdk.apimachinery.object import deep_copy
from opsdk.apimachinery.time import MicroTime
from opsdk.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElectionOptions:
    """The election's times, in seconds. The defaults are client-go's.

    Attributes:
        lease_duration: others wait so long after the last renewal they saw.
        renew_deadline: the leader gives up when it could not renew for so long. Smaller than `lease_duration`, by
            more than any request takes: in between nobody leads.
        retry_period: between two tries; stretched by up to 1.2 for those who wait.
        release_on_cancel: give the lease back at stop, so that the next leader need not wait it out.
    """

    name: str
    namespace: str
    identity: str
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    release_on_cancel: bool = True
    labels: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            raise UsageError("leader election needs the name of its lease: set leader_election_id")
        if not self.namespace:
            raise UsageError("leader election needs a namespace: set leader_election_namespace (not in a cluster)")
        if not self.identity:
            raise UsageError("leader election needs an identity that no other replica has")
        if not self.lease_duration > self.renew_deadline > self.retry_period * 1.2 > 0:
            raise UsageError(
                "leader election needs lease_duration > renew_deadline > retry_period * 1.2 > 0, not "
                f"{self.lease_duration:g}, {self.renew_deadline:g} and {self.retry_period:g}"
            )


class Role(Enum):
    """What this replica is."""

    WAITING = "waiting"
    """Somebody else leads, or nobody yet."""
    LEADING = "leading"
    """We hold the lease and have renewed it in time."""
    LOST = "lost"
    """We held it and may not act any more; final."""


@dataclass(slots=True)
class _ObservedLease:
    """The lease as last observed, and when it last changed by our clock."""

    lease: Lease
    observed_at: float


class LeaderElectionRules:
    """One replica's view of the lease.

    The loop asks `wanted` what to write, writes it, and reports with `acquired`, `observed` or `failed`.
    """

    def __init__(self, options: LeaderElectionOptions) -> None:
        self.options = options
        self.role = Role.WAITING
        self._observed: _ObservedLease | None = None
        self._renewed_at = 0.0

    # -------------------------------------------------------------- what was seen
    def observed(self, lease: Lease, now: float) -> None:
        """The lease as the server has it. Only a change of it counts as a sign of life of its holder."""
        if self._observed is None or _signature(self._observed.lease) != _signature(lease):
            self._observed = _ObservedLease(deep_copy(lease), now)
        else:
            self._observed.lease = deep_copy(lease)

    def acquired(self, lease: Lease, requested_at: float) -> None:
        """Our write was accepted: we lead, as of the moment we asked (not of the answer, which may be late)."""
        self._observed = _ObservedLease(deep_copy(lease), requested_at)
        self._renewed_at = requested_at
        if self.role is Role.WAITING:
            self.role = Role.LEADING

    def check(self, now: float) -> Role:
        """The role at this moment: a leader that could not renew in time has lost."""
        if self.role is Role.LEADING and now >= self.deadline():
            self.role = Role.LOST
        return self.role

    def deadline(self) -> float:
        """When leadership ends unless it is renewed."""
        return self._renewed_at + self.options.renew_deadline

    # -------------------------------------------------------------- what to write
    def can_acquire(self, now: float) -> bool:
        """Whether we may write ourselves into the lease that was observed last."""
        if self._observed is None:
            return True
        spec = self._observed.lease.spec
        if not spec.holder_identity or spec.holder_identity == self.options.identity:
            return True
        # The holder's own duration counts, as upstream: a holder may have been started with another one.
        duration = spec.lease_duration_seconds or self.options.lease_duration
        return now - self._observed.observed_at >= duration

    @property
    def observed_lease(self) -> Lease | None:
        """The lease as last observed."""
        return self._observed.lease if self._observed else None

    @property
    def holder(self) -> str:
        """Who holds it as far as we know."""
        return (self._observed.lease.spec.holder_identity or "") if self._observed else ""

    def desired_record(self, wall: datetime) -> Lease:
        """The lease with us as its holder. Whatever else stands in it is kept."""
        o = self.options
        lease = deep_copy(self._observed.lease) if self._observed else Lease(spec=LeaseSpec())
        lease.metadata.name, lease.metadata.namespace = o.name, o.namespace
        lease.metadata.labels.update(o.labels)
        spec = lease.spec
        time = MicroTime.of(wall)
        if spec.holder_identity != o.identity:
            spec.lease_transitions = (spec.lease_transitions or 0) + (1 if self._observed else 0)
            spec.acquire_time = time
        spec.holder_identity = o.identity
        spec.lease_duration_seconds = int(o.lease_duration)
        spec.renew_time = time
        return lease

    def released(self, wall: datetime) -> Lease | None:
        """The lease without a holder, to be written at the end; None if it is not ours to give back."""
        if self._observed is None or self.holder != self.options.identity:
            return None
        lease = deep_copy(self._observed.lease)
        lease.spec.holder_identity = ""
        lease.spec.lease_duration_seconds = 1
        lease.spec.renew_time = lease.spec.acquire_time = MicroTime.of(wall)
        return lease

    def __repr__(self) -> str:
        return f"<LeaseRules {self.options.identity} {self.role.value}, holder {self.holder or 'nobody'}>"


def _signature(lease: Lease) -> tuple[object, ...]:
    """What changes when a holder shows life."""
    spec = lease.spec
    return (
        lease.metadata.uid,
        spec.holder_identity,
        spec.renew_time,
        spec.acquire_time,
        spec.lease_duration_seconds,
        spec.lease_transitions,
    )
