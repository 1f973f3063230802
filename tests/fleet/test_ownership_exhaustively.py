"""Two replicas of a fleet: every sequence of seconds, lists, writes, warm-ups, drains and faults in bounds.

The bounds limit time and faults, so each search ends: there is no further state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from state_search import reachable_states

from opsdk.api.coordination.v1 import Lease
from opsdk.fleet.ownership_rules import OwnershipRules, OwnershipStep
from tests.fleet.fleet_replica import Replica
from tests.fleet.ownership_machine import CanaryMachine, OwnershipBounds, OwnershipMachine, ReplicaWithVersion

_NO_LIMIT = 1000
"""Operations: more than any sequence within the bounds has."""


def search(bounds: OwnershipBounds, machine: type[OwnershipMachine] = OwnershipMachine) -> int:
    """Carry out every sequence within the bounds. Returns the number of different states."""
    return reachable_states(lambda: machine(bounds), _NO_LIMIT, at_rest=OwnershipMachine.come_to_rest)


@pytest.mark.parametrize(
    ("bounds", "states"),
    [
        (OwnershipBounds(seconds=2, faults=0, shards=2), 280),
        pytest.param(OwnershipBounds(seconds=2, owned=True), 1400, marks=pytest.mark.slow),
        pytest.param(
            OwnershipBounds(seconds=3, kinds=("leaves", "cannot reach"), owned=True), 2400, marks=pytest.mark.slow
        ),
        pytest.param(OwnershipBounds(seconds=2, kinds=("gets", "sends", "requests")), 900, marks=pytest.mark.slow),
        pytest.param(OwnershipBounds(seconds=3, faults=0, owned=True, joining=True), 1600, marks=pytest.mark.slow),
    ],
)
def test_a_shard_has_one_owner_in_every_state(bounds: OwnershipBounds, states: int) -> None:
    """At most one replica may write, and at rest it is the one that the placement names."""
    assert search(bounds) > states


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize(
    ("bounds", "states"),
    [
        (OwnershipBounds(seconds=4, owned=True), 14_000),
        (OwnershipBounds(seconds=2), 8000),
        (OwnershipBounds(seconds=3, kinds=("stands", "gets", "sends")), 6500),
        (OwnershipBounds(seconds=2, owned=True, joining=True, kinds=("leaves",)), 4000),
        (OwnershipBounds(seconds=2, faults=2, kinds=("stands", "requests")), 10_000),
    ],
)
def test_a_shard_has_one_owner_in_more_states(bounds: OwnershipBounds, states: int) -> None:
    """More time, or a second fault."""
    assert search(bounds) > states


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bounds", "states"),
    [
        (OwnershipBounds(seconds=1, faults=0, owned=True, joining=True), 5000),
        pytest.param(OwnershipBounds(seconds=1, kinds=("leaves",), owned=True), 1000, marks=pytest.mark.deep),
    ],
)
def test_a_choice_of_a_version_at_any_time_gives_a_shard_one_owner(bounds: OwnershipBounds, states: int) -> None:
    """In every state of a hand-over, the user starts, promotes or aborts a canary, with a fallback and without."""
    assert search(bounds, CanaryMachine) > states


# ------------------------------------------------------------------ planted bugs
class GreedyRules(OwnershipRules):
    """The bug: a member takes the shard of a holder that is alive."""

    def _is_available(self, shard: Any, holder: str) -> bool:
        return True


class ClingingRules(OwnershipRules):
    """The bug: the owner of a shard does not hand it over to the preferred holder."""

    def _decide_owned(self, shard: Any, target: str) -> Iterable[OwnershipStep]:
        return super()._decide_owned(shard, self.identity)


class HastyRules(OwnershipRules):
    """The bug: a list counts from its answer, not from its request."""

    def observed(self, leases: Collection[Lease], *, requested_at: float, answered_at: float) -> None:
        """Take the list as new."""
        super().observed(leases, requested_at=answered_at, answered_at=answered_at)


class GreedyReplica(Replica):
    """A replica with the first bug."""

    rules_class = GreedyRules


class ClingingReplica(Replica):
    """A replica with the second bug."""

    rules_class = ClingingRules


class HastyReplica(Replica):
    """A replica with the third bug."""

    rules_class = HastyRules


class GreedyMachine(OwnershipMachine):
    """A machine with the first bug."""

    replica_class = GreedyReplica


class ClingingMachine(OwnershipMachine):
    """A machine with the second bug."""

    replica_class = ClingingReplica


class HastyMachine(OwnershipMachine):
    """A machine with the third bug."""

    replica_class = HastyReplica


class HastyVersionRules(OwnershipRules):
    """The bug: a member takes the shard of a holder of another version."""

    def _is_available(self, shard: Any, holder: str) -> bool:
        is_other = bool(holder) and self.version_of(holder) != self.options.version
        return (self.canary is not None and is_other) or super()._is_available(shard, holder)


class HastyVersionReplica(ReplicaWithVersion):
    """A replica with the fourth bug."""

    rules_class = HastyVersionRules


class HastyVersionMachine(CanaryMachine):
    """A machine with the fourth bug."""

    replica_class = HastyVersionReplica


@pytest.mark.parametrize(
    ("machine", "bounds", "message"),
    [
        (GreedyMachine, OwnershipBounds(seconds=1, faults=0, owned=True, joining=True), "a may write for s0"),
        (ClingingMachine, OwnershipBounds(seconds=1, faults=0, owned=True, joining=True), "after 60 s, .*OWNED"),
        (
            HastyVersionMachine,
            OwnershipBounds(seconds=1, faults=0, owned=True),
            "may write for s0 .*\nafter x chooses",
        ),
        pytest.param(
            HastyMachine,
            OwnershipBounds(seconds=3, kinds=("requests",)),
            "may write for s0 .*\nafter .* is late, ",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_planted_bug_is_found_with_its_sequence(
    machine: type[OwnershipMachine], bounds: OwnershipBounds, message: str
) -> None:
    """The shortest one."""
    with pytest.raises(AssertionError, match=message):
        search(bounds, machine)
