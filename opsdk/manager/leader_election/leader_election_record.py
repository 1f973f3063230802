"""Rules of leader election. Pure: the caller passes the time and sends the requests.

All times are this process's own. A lease expires when this process has observed no change for its duration; times
written by other replicas are never compared.

Upstream: k8s.io/client-go/tools/leaderelection/leaderelection.go (v1.36)
Deviates: client-go trusts that renew_deadline ends before the lease does. Here leadership also ends a margin before
other replicas may take the lease, whatever the options are and however late the first renewal began.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum

import msgspec

from opsdk.api.coordination.v1 import Lease, LeaseSpec
from opsdk.apimachinery.object import deep_copy
from opsdk.apimachinery.time import MicroTime
from opsdk.errors import UsageError
from opsdk.manager.leader_election.lease_options import LeaseOptions

# Leadership ends this share of the lease before others may take it: clocks of two machines run at different speeds, and
# a request needs time from the last check to the server.
_EXPIRY_MARGIN = 0.05
# One try is limited to this share of renew_deadline, but not below this many seconds, so that one hung request does not
# use up the deadline (controller-runtime: pkg/leaderelection/leader_election.go, the timeout of its client).
_ATTEMPT_TIMEOUT_SHARE = 0.5
_MIN_ATTEMPT_TIMEOUT = 1.0


class LeaderElectionOptions(LeaseOptions, frozen=True, kw_only=True):
    """The Lease and the durations of the election, in seconds. The defaults are client-go's.

    Attributes:
        name: the name of the Lease.
        namespace: the namespace of the Lease.
        identity: the unique name of this replica.
        lease_duration: other replicas wait this long after the last renewal they observed. The Lease holds whole
            seconds, so a fraction is cut off.
        renew_deadline: the leader stops when its renewals fail for this long. It starts `retry_period` after the last
            success, with the first try.
        retry_period: time between two tries; waiting replicas add up to 120 % of it as jitter.
        labels: labels of the Lease.
        namespace_source: where `namespace` comes from, for messages.
    """

    name: str
    namespace: str
    identity: str
    labels: tuple[tuple[str, str], ...] = ()
    namespace_source: str = "LeaderElectionOptions.namespace"

    def __post_init__(self) -> None:
        if not self.name:
            raise UsageError("leader election needs a Lease name: set leader_election_id")
        if not self.namespace:
            raise UsageError("leader election needs a namespace outside a cluster: set leader_election_namespace")
        if not self.identity:
            raise UsageError("leader election needs an identity that is unique for each replica")
        if not self.lease_duration > self.renew_deadline > self.retry_period * 1.2 > 0:
            raise UsageError(
                "leader election needs lease_duration > renew_deadline > retry_period * 1.2 > 0, not "
                f"{self.lease_duration:g}, {self.renew_deadline:g} and {self.retry_period:g}"
            )
        if self.longest_leadership <= self.retry_period * 1.2:
            raise UsageError(
                f"a lease_duration of {self.lease_duration:g} s is {self.recorded_duration} s in the Lease (it holds "
                f"whole seconds): too short for a retry_period of {self.retry_period:g} s"
            )

    @property
    def recorded_duration(self) -> int:
        """The duration in the Lease, in whole seconds, which other replicas use."""
        return int(self.lease_duration)

    @property
    def longest_leadership(self) -> float:
        """Seconds after a renewal when leadership always ends, before others may take the lease."""
        return self.recorded_duration * (1 - _EXPIRY_MARGIN)

    @property
    def try_timeout(self) -> float:
        """Seconds for one try to acquire or renew the lease."""
        return max(_MIN_ATTEMPT_TIMEOUT, self.renew_deadline * _ATTEMPT_TIMEOUT_SHARE)


class Role(Enum):
    """The role of this replica."""

    WAITING = "waiting"
    """Another replica leads, or none yet."""
    LEADING = "leading"
    """This replica holds the lease and has renewed it in time."""
    LOST = "lost"
    """This replica lost the lease and must not act any more. Final."""


class _ObservedLease(msgspec.Struct):
    """The lease as last observed, and when this process first observed that state."""

    lease: Lease
    observed_at: float


class SavedTimes(msgspec.Struct, frozen=True, array_like=True):
    """The times of `LeaderElectionRules`, for checkpoints.

    Attributes:
        observed_at: when the lease changed the last time; None without an observation.
        renewed_at: when this replica requested its last renewal.
        first_attempt_at: when the first try since then began; None without one.
        leads_from: from when on a renewal makes this replica the leader.
    """

    observed_at: float | None
    renewed_at: float
    first_attempt_at: float | None
    leads_from: float


class LeaderElectionRules:
    """One replica's view of the lease.

    The loop writes `desired_record` and reports results with `acquired` and `observed`.
    """

    def __init__(self, options: LeaderElectionOptions) -> None:
        self.options = options
        self.role = Role.WAITING
        self._observed: _ObservedLease | None = None
        self._renewed_at = 0.0
        self._first_attempt_at: float | None = None
        self._replacing = False
        self._leads_from = 0.0

    # -------------------------------------------------------------- observations
    def observed(self, lease: Lease, now: float) -> None:
        """Report the lease on the server. Only a change counts as a renewal by its holder."""
        if self._observed is None or _signature(self._observed.lease) != _signature(lease):
            self._observed = _ObservedLease(deep_copy(lease), now)
        else:
            self._observed.lease = deep_copy(lease)
        if self.holder not in {"", self.options.identity}:
            self._replacing = False

    def acquired(self, lease: Lease, requested_at: float, responded_at: float) -> None:
        """Report that the server accepted our write. Leadership counts from the time of the request."""
        if self._replacing:
            self._replacing = False
            self._leads_from = responded_at + self._longest_lease()
        self._observed = _ObservedLease(deep_copy(lease), requested_at)
        self._renewed_at = requested_at
        self._first_attempt_at = None
        if self.role is Role.WAITING and requested_at >= self._leads_from:
            self.role = Role.LEADING

    def replaces(self) -> None:
        """Report that this replica creates the lease in place of one that it has observed, and that is missing now.

        It leads a whole lease later. A leader may have created the lease too, unseen between two deletions, before this
        replica did. Its later renewals fail, and without a renewal its leadership ends before the lease would.

        A replica that has observed no lease cannot tell a deleted lease from the first start, and leads at once.
        """
        if self.role is Role.WAITING and self._observed is not None:
            self._replacing = True

    def _longest_lease(self) -> float:
        """Return the seconds of the observed lease or of the own one, whichever lasts longer."""
        observed = self._observed.lease.spec.lease_duration_seconds if self._observed else None
        return max(observed or 0, self.options.lease_duration)

    def leads_from(self) -> float:
        """Return the time from which a renewal makes this replica the leader."""
        return self._leads_from

    def trying(self, now: float) -> None:
        """Report that a renewal begins. The first one after a success starts `renew_deadline`."""
        if self._first_attempt_at is None:
            self._first_attempt_at = now

    def check(self, now: float) -> Role:
        """Return the role at the time `now`: a leader that could not renew in time has lost."""
        if self.role is Role.LEADING and now >= self.deadline():
            self.role = Role.LOST
        return self.role

    def is_leading(self, now: float) -> bool:
        """Whether this replica leads at the time `now`. Changes nothing, so any thread may call it."""
        return self.role is Role.LEADING and now < self.deadline()

    def deadline(self) -> float:
        """Return the time when leadership ends without a renewal."""
        latest = self._renewed_at + self.options.longest_leadership
        first_attempt_at = self._first_attempt_at  # read once: `is_leading` runs in other threads
        return latest if first_attempt_at is None else min(latest, first_attempt_at + self.options.renew_deadline)

    # -------------------------------------------------------------- writes
    def can_acquire(self, now: float) -> bool:
        """Whether this replica may take the observed lease."""
        if self._observed is None:
            return True
        spec = self._observed.lease.spec
        if not spec.holder_identity or spec.holder_identity == self.options.identity:
            return True
        return now >= self.expires_at()

    def can_create(self, now: float) -> bool:
        """Whether this replica may create the lease, which the server does not have.

        A deleted lease does not stop its holder, which creates it again at its next renewal. So a replica that has seen
        it waits until it would have expired, as for a lease that exists, and once more as long (`replaces`).
        """
        return self.role is Role.LEADING or self.can_acquire(now)

    def expires_at(self) -> float:
        """Return when the observed lease expires without another renewal; 0 without an observation."""
        if self._observed is None:
            return 0.0
        # Use the duration in the Lease, as upstream (isLeaseValid): the holder may have different options.
        duration = self._observed.lease.spec.lease_duration_seconds or self.options.lease_duration
        return self._observed.observed_at + duration

    # -------------------------------------------------------------- checkpoints
    def save_times(self) -> SavedTimes:
        """Return the times of the observations, for a checkpoint."""
        observed_at = self._observed.observed_at if self._observed is not None else None
        return SavedTimes(observed_at, self._renewed_at, self._first_attempt_at, self._leads_from)

    def restore_times(self, saved: SavedTimes) -> None:
        """Set the times of the observations. The observed lease is that of the checkpoint."""
        if self._observed is not None and saved.observed_at is not None:
            self._observed.observed_at = saved.observed_at
        self._renewed_at, self._first_attempt_at = saved.renewed_at, saved.first_attempt_at
        self._leads_from = saved.leads_from

    # -------------------------------------------------------------- the lease
    @property
    def observed_lease(self) -> Lease | None:
        """The lease as last observed, or None."""
        return self._observed.lease if self._observed else None

    @property
    def holder(self) -> str:
        """The identity of the last observed holder, or empty."""
        return (self._observed.lease.spec.holder_identity or "") if self._observed else ""

    def desired_record(self, wall: datetime) -> Lease:
        """Return the lease with this replica as its holder. Other fields are kept."""
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
        spec.lease_duration_seconds = o.recorded_duration
        spec.renew_time = time
        return lease

    def released(self, wall: datetime) -> Lease | None:
        """Return the lease without a holder, or None if this replica does not hold it."""
        if self._observed is None or self.holder != self.options.identity:
            return None
        lease = deep_copy(self._observed.lease)
        lease.spec.holder_identity = ""
        lease.spec.lease_duration_seconds = 1
        lease.spec.renew_time = lease.spec.acquire_time = MicroTime.of(wall)
        return lease

    def __repr__(self) -> str:
        return f"<LeaderElectionRules {self.options.identity} {self.role.value}, holder {self.holder or '-'}>"


def _signature(lease: Lease) -> tuple[object, ...]:
    """Return the fields that change when a holder renews."""
    spec = lease.spec
    return (
        lease.metadata.uid,
        spec.holder_identity,
        spec.renew_time,
        spec.acquire_time,
        spec.lease_duration_seconds,
        spec.lease_transitions,
    )
