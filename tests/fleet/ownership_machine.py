"""Two replicas of a fleet beside a server with leases, for an exhaustive search.

Each replica has the rules of its member lease and of the ownership of shards. Without a fault it renews each second,
and its lists and writes are answered at once. Each fault is an operation of its own: a replica stands still, a list or
a write is late, an answer is lost, a lease is deleted, a replica leaves or cannot reach a shard's cluster.

Laws:

1. At most one replica may write for a shard at any time.
2. When all replicas run and time passes, the replica that the placement names owns each shard, and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from state_search import flatten

from opsdk.api.coordination.v1 import Lease
from opsdk.fleet.canary_rules import Canary, CanaryPhase, canary_lease, canary_lease_name, encode_canary
from opsdk.fleet.ownership_rules import OwnershipRules, OwnershipStep, ShardState, StepKind
from opsdk.fleet.shard_lease import shard_of
from opsdk.manager.leader_election.leader_election_record import LeaderElectionRules, Role
from tests.fleet.fleet_replica import FIRST_VERSION, LeaseServer, Replica

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_SECONDS_TO_REST = 60
_LONG_AGO = -6.0
"""Times before this many seconds ago are alike: all waits in a search are shorter."""


class OwnershipBounds(NamedTuple):
    """What may happen in a search.

    Attributes:
        seconds: how much time passes.
        faults: how many faults occur.
        kinds: the faults, by their first words.
        shards: how many shards there are.
        owned: the search begins when each shard has its owner.
        joining: replica a, which the placement names for the first shard, joins during the search.
    """

    seconds: int = 4
    faults: int = 1
    kinds: tuple[str, ...] = ()
    shards: int = 1
    owned: bool = False
    joining: bool = False


class OwnershipMachine:
    """A server and two replicas."""

    replica_class: type[Replica] = Replica

    def __init__(self, bounds: OwnershipBounds) -> None:
        self.bounds = bounds
        self.seconds, self.faults = bounds.seconds, bounds.faults
        self.has_deleted = False
        self.now = 0.0
        self.server = LeaseServer()
        self.shards = tuple(f"s{number}" for number in range(bounds.shards))
        self.late: tuple[OwnershipStep, ...] = ()
        """Writes for whose answer their replica no longer waits."""
        self.lives = dict.fromkeys("b" if bounds.joining else "ab", 1)
        self.replicas = {name: self.replica_class(f"{name}1", self.shards) for name in self.lives}
        for replica in self.replicas.values():
            self.renew(replica)
        if bounds.owned:
            self.come_to_rest()
            self.seconds = bounds.seconds
        if bounds.joining:
            self.lives["a"] = 0
            self.replicas["a"] = self.replica_class("a0", self.shards)
            self.replicas["a"].ended = True

    # -------------------------------------------------------------- operations
    def operations(self) -> dict[str, Callable[[], None]]:
        """All that can happen now. Each one checks the first law."""
        steps: dict[str, Callable[[], None]] = {}
        faults: dict[str, Callable[[], None]] = {}
        if self.seconds:
            steps["a second passes"] = self.wait
        if self.late:
            steps["a late write lands"] = self.land_late
        for name, replica in self.replicas.items():
            if replica.ended:
                steps[f"{name} joins again"] = partial(self.join, name)
            elif replica.stands_still:
                steps[f"{name} continues"] = partial(self.stand, replica, still=False)
            else:
                steps |= {f"{name} {what}": step for what, step in self._steps_of(replica).items()}
                faults |= {f"{name} {what}": fault for what, fault in self._faults_of(replica).items()}
        for stored in self.server.leases if not self.has_deleted else ():
            faults[f"x deletes lease {stored}"] = partial(self.delete_lease, stored)
        if self.faults:
            allowed = {what: fault for what, fault in faults.items() if what[2:].startswith(self.bounds.kinds or "")}
            steps |= {what: partial(self._fault, fault) for what, fault in allowed.items()}
        return {what: partial(self._checked, step) for what, step in steps.items()}

    def _steps_of(self, replica: Replica) -> dict[str, Callable[[], None]]:
        steps: dict[str, Callable[[], None]] = {}
        if replica.listed is not None:
            steps["gets the late list"] = partial(self.get_list, replica)
        elif replica.writes:
            steps["writes"] = partial(self.write, replica)
        else:
            steps["lists"] = partial(self.sync, replica)
        for shard, state in replica.rules.states().items():
            if state is ShardState.WARMING and shard not in replica.unreachable:
                steps[f"has warmed {shard}"] = partial(replica.rules.warmed, shard)
            if state is ShardState.DRAINING:
                steps[f"has drained {shard}"] = partial(replica.rules.drained, shard)
        for shard in replica.unreachable:
            steps[f"reaches {shard}"] = partial(self.reach, replica, shard)
        return steps

    def _faults_of(self, replica: Replica) -> dict[str, Callable[[], None]]:
        faults: dict[str, Callable[[], None]] = {"stands still": partial(self.stand, replica, still=True)}
        if replica.listed is None and not replica.writes:
            faults["requests a list that is late"] = partial(self.request_list, replica)
        if replica.writes:
            faults["sends a write that is late"] = partial(self.write_late, replica)
            faults["gets no answer to a write"] = partial(self.lose_answer, replica)
        if not replica.rules.leaving:
            faults["leaves"] = partial(self.leave, replica)
        for shard in self.shards:
            if shard not in replica.unreachable:
                faults[f"cannot reach {shard}"] = partial(self.cut, replica, shard)
        return faults

    def _fault(self, fault: Callable[[], None]) -> None:
        self.faults -= 1
        fault()

    def _checked(self, step: Callable[[], None]) -> None:
        step()
        for shard in self.shards:
            writers = [name for name, replica in self.replicas.items() if replica.may_write(shard, self.now)]
            assert len(writers) < 2, f"{' and '.join(writers)} may write for {shard} at {self.now:g} s"

    # -------------------------------------------------------------- time, faults
    def wait(self) -> None:
        """A second passes. The replicas that run renew the leases of their members."""
        self.seconds -= 1
        self.now += 1.0
        for replica in self.replicas.values():
            if not replica.ended and not replica.stands_still:
                self.renew(replica)
                for shard in replica.rules.states():
                    is_reachable = shard not in replica.unreachable
                    replica.rules.report_reachability(shard, is_reachable=is_reachable, now=self.now)

    def renew(self, replica: Replica) -> None:
        """Renew the lease of a member, as `LeaderElector` does."""
        election = replica.election
        if election.role is Role.LEADING:
            election.trying(self.now)
        if election.check(self.now) is Role.LOST:
            replica.ended = True
            return
        stored = self.server.leases.get(election.options.name)
        if stored is not None:
            election.observed(stored, self.now)
        wall = EPOCH + timedelta(seconds=self.now)
        rules = election if stored is not None else LeaderElectionRules(election.options)
        written = self.server.write(rules.desired_record(wall))
        assert written is not None
        election.acquired(written, self.now, self.now)

    def stand(self, replica: Replica, *, still: bool) -> None:
        """A replica stops for a time, or continues."""
        replica.stands_still = still
        if not still and replica.election.check(self.now) is Role.LOST:
            replica.ended = True

    def join(self, name: str) -> None:
        """A replica starts again, with another identity."""
        self.lives[name] += 1
        replica = self.replicas[name] = self.replica_class(f"{name}{self.lives[name]}", self.shards)
        self.renew(replica)

    def delete_lease(self, name: str) -> None:
        """A user deletes a lease, once: a second deletion can hide a lease that was created in the meantime."""
        self.has_deleted = True
        del self.server.leases[name]

    def leave(self, replica: Replica) -> None:
        """A replica is stopped."""
        replica.rules.leaving = True

    def cut(self, replica: Replica, shard: str) -> None:
        """A replica does not reach the cluster of a shard."""
        replica.unreachable |= {shard}

    def reach(self, replica: Replica, shard: str) -> None:
        """A replica reaches the cluster of a shard again."""
        replica.unreachable -= {shard}

    # -------------------------------------------------------------- lists and writes
    def sync(self, replica: Replica) -> None:
        """A list is answered at once."""
        self.request_list(replica)
        self.get_list(replica)

    def request_list(self, replica: Replica) -> None:
        """A replica requests a list, which the server takes now."""
        replica.listed = tuple(self.server.leases.values()), self.now

    def get_list(self, replica: Replica) -> None:
        """The list arrives."""
        assert replica.listed is not None
        (leases, requested_at), replica.listed = replica.listed, None
        if replica.election.check(self.now) is not Role.LEADING:
            return
        replica.rules.observed(leases, requested_at=requested_at, answered_at=self.now)
        self.decide(replica)
        if replica.rules.leaving and not replica.rules.states() and not replica.writes:
            replica.ended = True
            self.server.leases.pop(replica.election.options.name, None)

    def decide(self, replica: Replica) -> None:
        """Carry out what the rules decide, until something is to be written."""
        while not replica.writes and (steps := replica.rules.decide(EPOCH)):
            replica.writes = tuple(step for step in steps if step.lease is not None)
            replica.sent_at = self.now

    def store(self, step: OwnershipStep) -> Lease | bool | None:
        """The server handles a write."""
        assert step.lease is not None
        return self.server.delete(step.lease) if step.kind is StepKind.DELETE else self.server.write(step.lease)

    def write(self, replica: Replica) -> None:
        """A write is answered. After a conflict, the replica lists again."""
        step, replica.writes = replica.writes[0], replica.writes[1:]
        result = self.store(step)
        if not result:
            replica.writes = ()
            return
        if isinstance(result, Lease):
            replica.rules.wrote(step.shard, result, requested_at=replica.sent_at, answered_at=self.now)
        elif step.shard:
            replica.rules.deleted(step.shard)
        self.decide(replica)

    def write_late(self, replica: Replica) -> None:
        """A write is under way for so long that the replica lists again."""
        self.late = (*self.late, replica.writes[0])
        replica.writes = ()

    def land_late(self) -> None:
        """A late write reaches the server."""
        step, self.late = self.late[0], self.late[1:]
        self.store(step)

    def lose_answer(self, replica: Replica) -> None:
        """The server handles a write, and the answer is lost."""
        self.store(replica.writes[0])
        replica.writes = ()

    # -------------------------------------------------------------- laws and the state
    def come_to_rest(self) -> None:
        """Let all replicas run, without faults, until each shard has its owner."""
        while self.late:
            self._checked(self.land_late)
        for _ in range(_SECONDS_TO_REST):
            for name, replica in tuple(self.replicas.items()):
                replica.unreachable = frozenset()
                self._checked(partial(self.stand, replica, still=False))
                if replica.ended:
                    self._checked(partial(self.join, name))
            self._checked(self.wait)
            for replica in self.replicas.values():
                self._work(replica)
            if self._is_placed():
                return
        owners = {name: replica.rules.states() for name, replica in self.replicas.items()}
        raise AssertionError(f"after {_SECONDS_TO_REST} s, the shards are {owners}")

    def _work(self, replica: Replica) -> None:
        """Let a replica do all that it can do now."""
        while not replica.ended:
            steps = self._steps_of(replica)
            listed = steps.pop("lists", None)
            if not steps:
                if listed is not None:
                    self._checked(listed)
                if replica.ended or not set(self._steps_of(replica)) - {"lists"}:
                    return
                continue
            self._checked(next(iter(steps.values())))

    def _is_placed(self) -> bool:
        for shard in self.shards:
            owners = [replica for replica in self.replicas.values() if replica.may_write(shard, self.now)]
            if len(owners) != 1 or owners[0].rules.leaving:
                return False
            placed = [replica.rules.placement().get(shard) for replica in self.replicas.values()]
            if placed != [owners[0].identity] * len(placed):
                return False
        return True

    def state(self) -> Hashable:
        """The state, with resource versions as ranks, and times from now."""
        replicas = [part for replica in self.replicas.values() for part in _replica_parts(replica)]
        budget = (self.seconds, self.faults, self.faults and self.has_deleted)
        flat = flatten((budget, self.lives, sorted(self.server.leases.items()), replicas, self.late), _PARTS)
        numbers = {one for one in flat if type(one) is int and one >= FIRST_VERSION}
        ranks = {number: FIRST_VERSION + rank for rank, number in enumerate(sorted(numbers))}
        return tuple(
            ranks.get(one, one) if type(one) is int else self._age(one) if type(one) is float else one for one in flat
        )

    def _age(self, time: float) -> float:
        return max(time - self.now, _LONG_AGO)


def _replica_parts(replica: Replica) -> tuple[Any, ...]:
    election = replica.election
    return (
        (replica.identity, replica.ended, replica.stands_still, sorted(replica.unreachable)),
        (replica.listed, replica.writes, replica.sent_at if replica.writes else 0),
        (election.role, election.save_times()),
        replica.rules,
    )


def _rules_parts(rules: OwnershipRules) -> tuple[Any, ...]:
    """Return all attributes but constants and the cache."""
    return tuple(part for name, part in vars(rules).items() if name not in ("identity", "options", "_placement_cache"))


_PARTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    OwnershipRules: _rules_parts,
    Canary: lambda canary: (encode_canary(canary),),
    Lease: lambda lease: (
        lease.metadata.name,
        lease.metadata.uid,
        lease.metadata.resource_version,
        lease.spec.holder_identity,
        lease.metadata.annotations if shard_of(lease) or not lease.spec.holder_identity else (),
    ),
}


class ReplicaWithVersion(Replica):
    """A replica of version 2, which is a, or of version 1."""

    versions = {"a": "2", "b": "1"}  # noqa: RUF012 - the base class declares it


class CanaryMachine(OwnershipMachine):
    """A machine with two versions, and a user who changes the choice once at any time."""

    replica_class = ReplicaWithVersion

    def __init__(self, bounds: OwnershipBounds) -> None:
        self.choices = 1
        super().__init__(bounds)

    def operations(self) -> dict[str, Callable[[], None]]:
        """All that can happen now, and the choices of the user."""
        steps = super().operations()
        for phase in CanaryPhase if self.choices else ():
            for fallback in (True, False):
                choice = Canary(version="2", base="1", shards=self.shards[:1], phase=phase, fallback=fallback)
                title = f"x chooses {phase.value}, {'a' if fallback else 'no'} fallback"
                steps[title] = partial(self._checked, partial(self.choose, choice))
        return steps

    def choose(self, canary: Canary) -> None:
        """A user writes a choice."""
        self.choices -= 1
        lease = canary_lease("f", "n", canary)
        stored = self.server.leases.get(canary_lease_name("f"))
        lease.metadata.resource_version = stored.metadata.resource_version if stored is not None else ""
        self.server.write(lease)

    def state(self) -> Hashable:
        """The state, with the choices that are left."""
        return self.choices, super().state()
