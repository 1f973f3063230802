"""The leases of a fleet: one for each member, one for each shard. Pure.

A member renews one lease for all its shards, so renewals do not grow with the number of shards. The
lease of a shard names its holder, and the member that is ready to take it over; it is written only on changes.

Upstream: k8s.io/api/coordination/v1 (v1.36)
Deviates: annotations name the preferred holder and the stand-in. Servers drop ``spec.preferredHolder`` unless the
feature gate CoordinatedLeaderElection is on.
"""

from __future__ import annotations

import re
from datetime import datetime
from enum import Enum
from hashlib import blake2b

from opsdk.api.coordination.v1 import Lease, LeaseSpec
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import deep_copy
from opsdk.apimachinery.time import MicroTime

FLEET_LABEL = "fleet.opsdk.dev/name"
ROLE_LABEL = "fleet.opsdk.dev/role"
VERSION_LABEL = "fleet.opsdk.dev/version"
SHARD_ANNOTATION = "fleet.opsdk.dev/shard"
PREFERRED_ANNOTATION = "fleet.opsdk.dev/preferred-holder"
STAND_IN_ANNOTATION = "fleet.opsdk.dev/stand-in"
UNSETTLED_ANNOTATION = "fleet.opsdk.dev/unsettled"

_NOT_DNS = re.compile(r"[^a-z0-9]+")
# Maximum length of the shard's name in a lease name; the rest is the fleet's name and a hash.
_NAME_LENGTH = 100


class LeaseRole(Enum):
    """The subject of a lease of a fleet."""

    MEMBER = "member"
    SHARD = "shard"
    CANARY = "canary"
    """The choice of shards for a new version, see `opsdk.fleet.canary_rules`."""


def lease_name(fleet: str, role: LeaseRole, name: str) -> str:
    """Return the name of a lease: readable, valid for every `name`, and different for different ones.

    >>> lease_name("shop", LeaseRole.SHARD, "eu/West 1")
    'shop-shard-eu-west-1-ed49d043'
    """
    readable = _NOT_DNS.sub("-", name.lower()).strip("-")[:_NAME_LENGTH].strip("-")
    digest = blake2b(name.encode(), digest_size=4).hexdigest()
    return "-".join(part for part in (fleet, role.value, readable, digest) if part)


def member_labels(fleet: str, version: str = "") -> tuple[tuple[str, str], ...]:
    """Return the labels of a member's lease."""
    labels = ((FLEET_LABEL, fleet), (ROLE_LABEL, LeaseRole.MEMBER.value))
    return (*labels, (VERSION_LABEL, version)) if version else labels


def version_of(lease: Lease) -> str:
    """Return the version of the operator of a member; empty for none."""
    return lease.metadata.labels.get(VERSION_LABEL, "")


def shard_of(lease: Lease) -> str:
    """Return the shard of a lease; empty for the lease of a member."""
    return lease.metadata.annotations.get(SHARD_ANNOTATION, "")


def new_shard_lease(fleet: str, namespace: str, shard: str, *, is_settled: bool = True) -> Lease:
    """Return the lease of a shard, without a holder; see `is_unsettled` for a lease that replaces a deleted one."""
    metadata = ObjectMeta(
        name=lease_name(fleet, LeaseRole.SHARD, shard),
        namespace=namespace,
        labels={FLEET_LABEL: fleet, ROLE_LABEL: LeaseRole.SHARD.value},
        annotations={SHARD_ANNOTATION: shard, **({} if is_settled else {UNSETTLED_ANNOTATION: "true"})},
    )
    return Lease(metadata=metadata, spec=LeaseSpec())


def holder_of(lease: Lease | None) -> str:
    """Return the identity of the holder; empty without a lease or a holder."""
    return (lease.spec.holder_identity or "") if lease is not None else ""


def preferred_holder_of(lease: Lease | None) -> str:
    """Return the member that is ready to take the lease over; empty for none."""
    return lease.metadata.annotations.get(PREFERRED_ANNOTATION, "") if lease is not None else ""


def stand_in_of(lease: Lease | None) -> str:
    """Return the member that the holder invites, because it cannot reach the shard's cluster; empty for none."""
    return lease.metadata.annotations.get(STAND_IN_ANNOTATION, "") if lease is not None else ""


def is_unsettled(lease: Lease | None) -> bool:
    """Whether the lease replaces a deleted one, whose holder may not have observed the deletion yet."""
    return lease is not None and UNSETTLED_ANNOTATION in lease.metadata.annotations


def with_no_former_holder(lease: Lease) -> Lease:
    """Return the lease as settled: no holder of an earlier lease is active."""
    changed = deep_copy(lease)
    changed.metadata.annotations.pop(UNSETTLED_ANNOTATION, None)
    return changed


def held_by(lease: Lease, holder: str, wall: datetime) -> Lease:
    """Return the lease with another holder, empty for none. No member is preferred or invited any more."""
    changed = with_invitation(lease, "")
    spec = changed.spec
    spec.lease_transitions = (spec.lease_transitions or 0) + (1 if spec.holder_identity else 0)
    spec.holder_identity = holder or None
    spec.acquire_time = MicroTime.of(wall)
    return changed


def preferred_by(lease: Lease, member: str) -> Lease:
    """Return the lease with `member` as the one that is ready to take it over, empty for none."""
    changed = deep_copy(lease)
    changed.metadata.annotations.pop(PREFERRED_ANNOTATION, None)
    if member:
        changed.metadata.annotations[PREFERRED_ANNOTATION] = member
    return changed


def with_invitation(lease: Lease, member: str) -> Lease:
    """Return the lease with an invitation to `member`, empty for none. No member is preferred any more."""
    changed = deep_copy(lease)
    annotations = changed.metadata.annotations
    annotations.pop(PREFERRED_ANNOTATION, None)
    annotations.pop(STAND_IN_ANNOTATION, None)
    if member:
        annotations[STAND_IN_ANNOTATION] = member
    return changed
