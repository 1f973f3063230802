"""The live members of a fleet, as one replica observes their leases."""

from __future__ import annotations

import pytest

from opsdk.api.coordination.v1 import Lease, LeaseSpec
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.fleet.membership import Membership


def lease(holder: str, version: int) -> Lease:
    """Return the lease of a member."""
    metadata = ObjectMeta(name=holder, namespace="n", resource_version=str(version))
    return Lease(metadata=metadata, spec=LeaseSpec(holder_identity=holder, lease_duration_seconds=15))


@pytest.mark.parametrize(("dead_in_a_list", "lives_on"), [(False, True), (True, False)])
def test_a_deleted_lease_may_have_been_renewed_since_the_last_list(dead_in_a_list: bool, lives_on: bool) -> None:
    """Its holder lives for another lease, unless an earlier list has shown that it is dead."""
    membership = Membership("me", lease_duration=15.0)
    membership.observed([lease("other", 1)], requested_at=0.0, answered_at=0.0)
    if dead_in_a_list:
        membership.observed([lease("other", 1)], requested_at=16.0, answered_at=16.0)
    held = Lease(
        metadata=ObjectMeta(name="s", namespace="n", annotations={"fleet.opsdk.dev/shard": "s"}),
        spec=LeaseSpec(holder_identity="other"),
    )
    membership.observed([held], requested_at=20.0, answered_at=20.0)
    assert membership.is_alive("other") is lives_on
    membership.observed([held], requested_at=36.0, answered_at=36.0)
    assert not membership.is_alive("other")
