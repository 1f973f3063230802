"""A server with leases, and a replica of a fleet without its event loop, as values for an exhaustive search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from opsdk.api.coordination.v1 import Lease
from opsdk.apimachinery.object import deep_copy
from opsdk.fleet.ownership_rules import OwnershipOptions, OwnershipRules, OwnershipStep
from opsdk.fleet.shard_lease import LeaseRole, lease_name, member_labels
from opsdk.manager.leader_election.leader_election_record import LeaderElectionOptions, LeaderElectionRules

FIRST_VERSION = 100
"""Smaller numbers in a state are no resource versions."""


class LeaseServer:
    """Leases with compare-and-swap. A stored lease is never changed."""

    def __init__(self) -> None:
        self.leases: dict[str, Lease] = {}
        self.version = FIRST_VERSION

    def write(self, lease: Lease) -> Lease | None:
        """Create or update a lease. Returns None for a conflict."""
        stored = self.leases.get(lease.metadata.name)
        if (stored.metadata.resource_version if stored else "") != lease.metadata.resource_version:
            return None
        self.version += 1
        lease = deep_copy(lease)
        lease.metadata.resource_version = str(self.version)
        lease.metadata.uid = stored.metadata.uid if stored else str(self.version)
        self.leases[lease.metadata.name] = lease
        return lease

    def delete(self, lease: Lease) -> bool:
        """Delete an unchanged lease."""
        stored = self.leases.get(lease.metadata.name)
        if stored is None or stored.metadata.resource_version != lease.metadata.resource_version:
            return False
        del self.leases[lease.metadata.name]
        return True


class Replica:
    """One replica with one identity. It joins with another one after it has lost its lease, or has left."""

    rules_class: type[OwnershipRules] = OwnershipRules
    versions: ClassVar[Mapping[str, str]] = {}
    """The version of the operator by the first letter of the identity."""

    def __init__(self, identity: str, shards: tuple[str, ...]) -> None:
        self.identity = identity
        options = OwnershipOptions(
            name="f",
            namespace="n",
            version=self.versions.get(identity[0], ""),
            lease_duration=2.0,
            renew_deadline=1.5,
            retry_period=1.0,
            drain_timeout=2.0,
            unreachable_timeout=1.0,
        )
        self.rules = self.rules_class(identity, options)
        self.rules.set_shards(shards)
        self.election = LeaderElectionRules(
            LeaderElectionOptions(
                name=lease_name("f", LeaseRole.MEMBER, identity),
                namespace="n",
                identity=identity,
                lease_duration=2.0,
                renew_deadline=1.5,
                retry_period=1.0,
                labels=member_labels("f", options.version),
            )
        )
        self.ended = False
        self.stands_still = False
        self.listed: tuple[tuple[Lease, ...], float] | None = None
        """A list whose answer is late, and when it was requested."""
        self.writes: tuple[OwnershipStep, ...] = ()
        """What the replica sends next, and waits for."""
        self.sent_at = 0.0
        self.unreachable: frozenset[str] = frozenset()

    def may_write(self, shard: str, now: float) -> bool:
        """Whether the fence of a shard lets a write pass."""
        return not self.ended and self.election.is_leading(now) and not self.rules.refusal(shard, now)
