"""Two replicas and one Lease: every sequence of requests, lost answers and seconds up to a length."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from state_search import reachable_states

from opsdk.api.coordination.v1 import Lease
from opsdk.apimachinery.object import deep_copy
from opsdk.apimachinery.time import MicroTime
from opsdk.manager.leader_election.leader_election_record import LeaderElectionOptions, LeaderElectionRules, Role

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
LEASE_SECONDS = 2.0


class Replica:
    """One replica. A write is on its way until it lands, and its answer until it arrives."""

    def __init__(self, identity: str) -> None:
        options = LeaderElectionOptions(
            name="lease",
            namespace="default",
            identity=identity,
            lease_duration=LEASE_SECONDS,
            renew_deadline=1.5,
            retry_period=1.0,
        )
        self.rules = LeaderElectionRules(options)
        self.version: int | None = None
        """Of the Lease that it has read; None if it found none."""
        self.write: tuple[Lease, int | None, float] | None = None
        self.answer: tuple[Lease | None, int, float] | None = None


class ElectionPair:
    """A server with one Lease, and two replicas that want it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lease: Lease | None = None
        self.version = 0
        self.replicas = {"a": Replica("a"), "b": Replica("b")}

    def operations(self) -> Mapping[str, Callable[[], None]]:
        """Requests that may be sent, writes that may land, answers that may arrive or be lost, and a second."""
        operations: dict[str, Callable[[], None]] = {"wait": self.wait}
        for name, replica in self.replicas.items():
            if replica.write is not None:
                operations[f"write of {name} lands"] = partial(self.land, replica)
            elif replica.answer is not None:
                operations[f"answer to {name} arrives"] = partial(self.arrive, replica)
                operations[f"answer to {name} is lost"] = partial(self.lose, replica)
            elif replica.rules.role is not Role.LOST:
                operations[f"{name} reads"] = partial(self.read, replica)
                if self.may_write(replica):
                    operations[f"{name} writes"] = partial(self.send, replica)
        return operations

    def may_write(self, replica: Replica) -> bool:
        """Whether the rules let a replica create or update the Lease that it has read."""
        if replica.version is None:
            return replica.rules.can_create(self.now)
        return replica.rules.can_acquire(self.now)

    def state(self) -> Hashable:
        """Roles, what each replica has read, and what is under way, by times from now."""
        return (self.seen(self.lease), *(self.state_of(replica) for replica in self.replicas.values()))

    def state_of(self, replica: Replica) -> Hashable:
        """Return the part of a replica. Times that have passed long ago are alike."""
        rules = replica.rules
        leads = rules.role is Role.LEADING
        return (
            rules.role,
            self.version - replica.version if replica.version is not None else None,
            self.seen(rules.observed_lease),
            max(rules.expires_at() - self.now, -1.0),
            rules.deadline() - self.now if leads else 0.0,
            max(rules.leads_from() - self.now, -1.0),
            replica.write and self.request_state(*replica.write),
            replica.answer and self.request_state(*replica.answer),
        )

    def request_state(self, lease: Lease | None, version: int | None, sent_at: float) -> Hashable:
        """Return the part of a request or of an answer."""
        return self.seen(lease), self.distance(version), sent_at - self.now

    def seen(self, lease: Lease | None) -> Hashable:
        """Return what is compared of a Lease."""
        return lease and (lease.spec.holder_identity, max(self.age(lease), -9.0))

    def age(self, lease: Lease) -> float:
        """Return when the Lease was renewed, in seconds from now."""
        assert lease.spec.renew_time is not None
        return (lease.spec.renew_time - MicroTime.of(EPOCH)).total_seconds() - self.now

    def distance(self, version: int | None) -> int | None:
        """Return how many writes ago a version was stored."""
        return None if version is None else self.version - version

    # -------------------------------------------------------------- operations
    def wait(self) -> None:
        """A second passes."""
        self.now += 1.0
        for replica in self.replicas.values():
            replica.rules.check(self.now)
        self.check()

    def read(self, replica: Replica) -> None:
        """A replica reads the Lease."""
        if self.lease is None:
            replica.version = None
            return
        replica.version = self.version
        replica.rules.observed(deep_copy(self.lease), self.now)
        self.check()

    def send(self, replica: Replica) -> None:
        """A replica sends a write of the Lease as it has read it."""
        if replica.rules.role is Role.LEADING:
            replica.rules.trying(self.now)
        lease = replica.rules.desired_record(EPOCH + timedelta(seconds=self.now))
        replica.write = lease, replica.version, self.now

    def land(self, replica: Replica) -> None:
        """The server compares and swaps."""
        assert replica.write is not None
        lease, version, sent_at = replica.write
        replica.write = None
        accepted = version == (None if self.lease is None else self.version)
        if accepted:
            self.version += 1
            self.lease = deep_copy(lease)
        replica.answer = (lease if accepted else None), self.version, sent_at

    def arrive(self, replica: Replica) -> None:
        """A replica learns whether its write was stored."""
        assert replica.answer is not None
        lease, version, sent_at = replica.answer
        replica.answer = None
        if lease is not None:
            replica.version = version
            replica.rules.acquired(lease, sent_at, self.now)
        self.check()

    def lose(self, replica: Replica) -> None:
        """A replica does not learn it. The elector reads the Lease before it writes again."""
        replica.answer = None

    def check(self) -> None:
        """At most one replica leads."""
        leaders = [name for name, replica in self.replicas.items() if replica.rules.is_leading(self.now)]
        assert len(leaders) < 2, f"{' and '.join(leaders)} lead at {self.now:g} s"


@pytest.mark.slow
def test_two_replicas_never_lead_at_once() -> None:
    """In no state that a sequence of operations reaches."""
    assert reachable_states(ElectionPair, 10) > 5000


class TrustingPair(ElectionPair):
    """The bug: leadership counts from the answer, not from the request."""

    def arrive(self, replica: Replica) -> None:
        """Renew at the time of the answer."""
        assert replica.answer is not None
        lease, version, _ = replica.answer
        replica.answer = lease, version, self.now
        super().arrive(replica)


@pytest.mark.slow
def test_a_planted_bug_is_found_with_its_sequence() -> None:
    """The answer has to come late, and another replica has to take the Lease that has expired."""
    with pytest.raises(AssertionError, match=r"a and b lead at \d+ s\n(.*\n)*after a writes, "):
        reachable_states(TrustingPair, 9)
