"""Replica counts in statuses of workloads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest.groups.core.validation.replica_counts import validate_counts

NUMBERS = st.one_of(st.none(), st.integers(-2, 3))
COUNTS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "collisionCount"), NUMBERS
    ),
)


@pytest.mark.parametrize("resource", ["deployments", "replicasets", "replicationcontrollers", "statefulsets"])
@given(status=COUNTS, old=COUNTS)
def test_counts_are_judged_whatever_is_missing(
    resource: str, status: dict[str, int | None], old: dict[str, int | None]
) -> None:
    """No count is negative or larger than the replicas; an unset count is zero."""
    result = {cause.field for cause in validate_counts(resource, status, old)}
    ready, available = status.get("readyReplicas") or 0, status.get("availableReplicas") or 0
    assert ("status.readyReplicas" in result) == (ready < 0 or ready > (status.get("replicas") or 0))
    if available > ready:
        assert "status.availableReplicas" in result
