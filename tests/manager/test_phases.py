"""The plan of a manager's stop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.manager.phases import Phase, plan_stop

TIMEOUTS = st.none() | st.floats(0, 100)


@given(lease_lost=st.booleans(), timeout=TIMEOUTS)
def test_each_group_stops_once_and_servers_stop_last(lease_lost: bool, timeout: float | None) -> None:
    """Each group stops once: caches after their readers, and servers of probes last."""
    plan = plan_stop(lease_lost=lease_lost, shutdown_timeout=timeout)
    assert sorted(plan.phases, key=lambda phase: phase.value) == sorted(Phase, key=lambda phase: phase.value)
    assert plan.phases[2:] == (Phase.CACHES, Phase.WEBHOOKS, Phase.HTTP)


def test_a_lost_lease_ends_the_leader_group_first_and_without_delay() -> None:
    """Another replica may already lead, so nothing waits, and there is no lease to release."""
    plan = plan_stop(lease_lost=True, shutdown_timeout=30)
    assert (plan.phases[0], plan.grace, plan.releases_lease) == (Phase.LEADER, 0, False)
    assert plan.failure(["a"]) == ""


@given(timeout=st.floats(0.1, 100), elapsed=st.lists(st.floats(0, 60), max_size=5))
def test_the_groups_share_the_shutdown_timeout(timeout: float, elapsed: list[float]) -> None:
    """The remaining time falls to zero and is never negative."""
    plan = plan_stop(lease_lost=False, shutdown_timeout=timeout)
    remaining = [plan.remaining(seconds) for seconds in sorted(elapsed)]
    assert remaining == sorted((seconds for seconds in remaining if seconds is not None), reverse=True)
    assert all(0 <= seconds <= timeout for seconds in remaining if seconds is not None)


@pytest.mark.parametrize(
    ("timeout", "text"),
    [(30, "failed waiting for all runnables to end within grace period of 30 s: a, b"),
     (None, "failed waiting for all runnables to end: a, b"),
     (0, "")],
)  # fmt: skip
def test_the_failure_names_the_late_runnables(timeout: float | None, text: str) -> None:
    """The failure names the late runnables; without a shutdown timeout none is late."""
    plan = plan_stop(lease_lost=False, shutdown_timeout=timeout)
    assert plan.failure(["a", "b"]) == text
    assert plan.failure([]) == ""
    assert plan.releases_lease
