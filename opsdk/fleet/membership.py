"""The live members of a fleet, as one replica observes their leases. Pure.

A member is dead when its lease did not change for its duration, measured by this process's clock between two reads of
the server. Times that other replicas wrote are never compared.

Upstream: k8s.io/client-go/tools/leaderelection/leaderelection.go (v1.36): observedRecord and observedTime
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from opsdk.api.coordination.v1 import Lease
from opsdk.fleet.shard_lease import holder_of, shard_of, version_of


class _ObservedMember(msgspec.Struct):
    """The state of a member's lease, and when this process first read that state; None after it was deleted."""

    lease: Lease | None
    version: str
    since: float
    duration: float


class Membership:
    """The members of a fleet as their leases show them.

    Args:
        identity: this member. It counts as alive: its own elector detects a lost lease.
        lease_duration: seconds, for members whose lease was deleted.
    """

    def __init__(self, identity: str, *, lease_duration: float) -> None:
        self._identity = identity
        self._lease_duration = lease_duration
        self._members: dict[str, _ObservedMember] = {}
        self._read_at = 0.0

    def observed(self, leases: Iterable[Lease], *, requested_at: float, answered_at: float) -> None:
        """Report a list of the fleet's leases that was read from the server, not from a cache.

        Args:
            leases: all leases of the fleet.
            requested_at: when the list was requested. The list is not older than this time.
            answered_at: when the response arrived. All changes in it happened before.
        """
        # As of the list before. A lease that is missing now may have been renewed since then, and deleted.
        dead = {identity for identity in self._members if not self.is_alive(identity)}
        self._read_at = requested_at
        shown: set[str] = set()
        holders: set[str] = set()
        for lease in leases:
            holder = holder_of(lease)
            if shard_of(lease):
                holders.add(holder)
            elif holder:
                shown.add(holder)
                self._observe(holder, lease, answered_at)
        # The member of a deleted lease may not have observed the deletion yet.
        for holder in sorted((holders | self._members.keys()) - shown - {""}):
            member = self._members.get(holder)
            if member is not None and holder in dead:
                member.lease = None
            elif member is None or member.lease is not None:
                self._members[holder] = _ObservedMember(None, "", answered_at, self._lease_duration)
        for holder in sorted(self._members.keys() - shown - holders):
            if not self.is_alive(holder):
                del self._members[holder]

    def _observe(self, holder: str, lease: Lease, answered_at: float) -> None:
        member = self._members.get(holder)
        version = lease.metadata.resource_version
        if member is None or member.version != version:
            duration = float(lease.spec.lease_duration_seconds or self._lease_duration)
            self._members[holder] = _ObservedMember(lease, version, answered_at, duration)

    def is_alive(self, identity: str) -> bool:
        """Whether a member may still act, according to the last list.

        The lease was renewed at some time before `since`. Its holder stops before the duration has passed, unless a
        later renewal succeeds; that renewal would be in a list that was requested after the duration.
        """
        if identity == self._identity:
            return True
        member = self._members.get(identity)
        return member is not None and self._read_at < member.since + member.duration

    def candidates(self) -> frozenset[str]:
        """Return the members that take shards: alive, with a lease that is not released."""
        others = {identity for identity, m in self._members.items() if m.lease is not None and self.is_alive(identity)}
        return frozenset(others | {self._identity})

    def version_of(self, identity: str) -> str:
        """Return the version that the lease of another member names; empty for none, and without a lease."""
        member = self._members.get(identity)
        return version_of(member.lease) if member is not None and member.lease is not None else ""

    def stale_leases(self, *, after: float) -> list[Lease]:
        """Return the leases of members that have been dead for `after` seconds."""
        return [
            member.lease
            for identity, member in self._members.items()
            if member.lease is not None
            and identity != self._identity
            and self._read_at >= member.since + member.duration + after
        ]

    def __repr__(self) -> str:
        return f"<Membership of {self._identity}: {len(self.candidates())} alive>"
