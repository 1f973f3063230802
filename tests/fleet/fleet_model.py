"""A fleet of members against one server, as a discrete-event simulation of the pure rules.

Each request lands after a delay, and its answer arrives after another one or never. Members freeze, die and come back
with another identity; leases are deleted; members lose the way to what a shard stands for. After each event, at most
one member may write for a shard.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from msgspec.structs import replace

from opsdk.api.coordination.v1 import Lease
from opsdk.apimachinery.object import deep_copy
from opsdk.fleet.ownership_rules import OwnershipOptions, OwnershipRules, ShardState, StepKind
from opsdk.fleet.shard_lease import LeaseRole, lease_name, member_labels, shard_of
from opsdk.manager.leader_election.leader_election_record import LeaderElectionOptions, LeaderElectionRules, Role

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Server:
    """Leases with compare-and-swap."""

    def __init__(self) -> None:
        self.leases: dict[str, Lease] = {}
        self.version = 0
        self.on_create: Callable[[Lease], object] = lambda _lease: None

    def write(self, lease: Lease) -> Lease | None:
        """Create or update; None for a conflict."""
        name = lease.metadata.name
        stored = self.leases.get(name)
        if (stored.metadata.resource_version if stored else "") != lease.metadata.resource_version:
            return None
        self.version += 1
        lease = deep_copy(lease)
        lease.metadata.resource_version = str(self.version)
        if stored is None:
            lease.metadata.uid = f"uid-{self.version}"
            self.on_create(lease)
        self.leases[name] = lease
        return deep_copy(lease)

    def delete(self, lease: Lease) -> bool:
        """Delete an unchanged lease."""
        stored = self.leases.get(lease.metadata.name)
        if stored is None or stored.metadata.resource_version != lease.metadata.resource_version:
            return False
        del self.leases[lease.metadata.name]
        return True

    def list(self) -> list[Lease]:
        """Return all leases. Nothing changes them: a write replaces the lease, as in `opsdk.fleet.lease_list`."""
        return list(self.leases.values())


class Member:
    """One life of one replica."""

    def __init__(self, model: FleetModel, identity: str, version: str = "") -> None:
        self.model, self.identity = model, identity
        o = replace(model.options, version=version)
        self.rules = OwnershipRules(identity, o)
        self.rules.set_shards(model.shards)
        self.election = LeaderElectionRules(
            LeaderElectionOptions(
                name=lease_name(o.name, LeaseRole.MEMBER, identity),
                namespace=o.namespace,
                identity=identity,
                lease_duration=o.lease_duration,
                renew_deadline=o.renew_deadline,
                retry_period=o.retry_period,
                labels=member_labels(o.name, version),
            )
        )
        self.lists = 0
        """How many lists it has received."""
        self.has_no_lease = False
        """The last renewal found that the lease was deleted: the next one creates it."""
        self.dead = False
        self.frozen_until = 0.0
        self.blind_until = 0.0
        """Until then its reads get no answer, and its other requests do."""

    def may_write(self, shard: str) -> bool:
        """Whether a write for the shard would be sent now."""
        now = self.model.now
        return not self.dead and self.election.is_leading(now) and not self.rules.refusal(shard, now)

    # -------------------------------------------------------------- loops
    def renew(self) -> None:
        """Renew the member's lease, as `LeaderElector` does."""
        model, began = self.model, self.model.now
        if self.election.role is Role.LEADING:
            self.election.trying(began)
        if self.election.check(began) is Role.LOST:
            self.dead = True
            model.at(model.rng.uniform(0, 3), model.spawn)
            return
        rules = LeaderElectionRules(self.election.options) if self.has_no_lease else self.election
        lease = rules.desired_record(EPOCH + timedelta(seconds=began))

        def answered(result: Lease | None) -> None:
            self.has_no_lease = False
            if result is not None:
                self.election.acquired(result, began, model.now)
                return
            # The lease was deleted, or an answer was lost: read it, as the elector does.
            stored = model.server.leases.get(lease.metadata.name)
            if stored is None:
                self.has_no_lease = True
            else:
                self.election.observed(stored, model.now)

        model.request(self, lambda: model.server.write(lease), answered)
        model.at(model.options.retry_period, lambda: model.on(self, self.renew))

    def round(self) -> None:
        """List the leases and carry out the steps, then begin again."""
        model, requested_at = self.model, self.model.now
        again = [False]
        for shard in self.rules.states():
            self.rules.report_reachability(shard, is_reachable=model.reaches(self.identity, shard), now=model.now)

        def next_round() -> None:
            if not again[0]:
                again[0] = True
                model.on(self, self.round)

        def answered(leases: list[Lease]) -> None:
            if again[0] or self.election.role is not Role.LEADING:
                return
            self.lists += 1
            self.rules.observed(leases, requested_at=requested_at, answered_at=model.now)
            self.carry_out()
            if self.rules.leaving and not self.rules.states():
                self.leave()

        if model.now >= self.blind_until:
            model.request(self, model.server.list, answered)
        model.at(model.options.retry_period, next_round)

    def leave(self) -> None:
        """Delete the member's lease and end, as after a graceful stop."""
        self.dead = True
        if (lease := self.model.server.leases.get(self.election.options.name)) is not None:
            self.model.server.delete(lease)

    def carry_out(self) -> None:
        """Carry out what the rules decide."""
        model = self.model
        for step in self.rules.decide(EPOCH):
            if step.kind is StepKind.WARM:
                model.after(self, model.rng.uniform(0, 4), partial(self.warm, step.shard))
            elif step.kind is StepKind.DRAIN:
                model.after(self, model.rng.uniform(0, 6), partial(self.rules.drained, step.shard))
            elif step.kind is StepKind.WRITE:
                self._send_write(step.shard, step.lease)
            elif step.kind is StepKind.DELETE:
                self._send_delete(step.shard, step.lease)
            elif step.kind is StepKind.OWN:
                model.owned.setdefault(step.shard, []).append(self.identity)

    def warm(self, shard: str) -> None:
        """End the warm-up of a shard, as soon as it is reached."""
        if self.model.reaches(self.identity, shard):
            self.rules.warmed(shard)
        elif self.rules.states().get(shard) is ShardState.WARMING:
            self.model.after(self, 1, partial(self.warm, shard))

    def _send_write(self, shard: str, lease: Lease) -> None:
        model, requested_at, lists = self.model, self.model.now, self.lists

        def answered(result: Lease | None) -> None:
            # The loop reads again only after its writes are answered, so a late answer is not reported.
            if result is not None and self.lists == lists:
                self.rules.wrote(shard, result, requested_at=requested_at, answered_at=model.now)

        model.request(self, lambda: model.server.write(lease), answered)

    def _send_delete(self, shard: str, lease: Lease) -> None:
        lists = self.lists

        def answered(result: bool) -> None:
            if result and shard and self.lists == lists:
                self.rules.deleted(shard)

        self.model.request(self, lambda: self.model.server.delete(lease), answered)


class FleetModel:
    """Members, shards, a server and faults, from one seed."""

    def __init__(self, seed: int, *, members: int = 3, shards: int = 6) -> None:
        self.rng = random.Random(seed)
        self.options = OwnershipOptions(name="f", namespace="n", drain_timeout=6.0)
        self.server = Server()
        self.shards = frozenset(f"s{number}" for number in range(shards))
        self.now = 0.0
        self.members: list[Member] = []
        self.owned: dict[str, list[str]] = {}
        self.faults = True
        self.fault_rate = 0.1
        self.overlaps: list[str] = []
        self.cut_until: dict[tuple[str, str], float] = {}
        """By member and shard, until when that member does not reach that shard."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        for _ in range(members):
            self.at(self.rng.uniform(0, 3), self.spawn)

    # -------------------------------------------------------------- events
    def at(self, seconds: float, function: Callable[[], None]) -> None:
        """Call `function` after `seconds`."""
        self._count += 1
        heapq.heappush(self._events, (self.now + seconds, self._count, function))

    def after(self, member: Member, seconds: float, function: Callable[[], None]) -> None:
        """Call `function` on a member after `seconds`, see `on`."""
        self.at(seconds, lambda: self.on(member, function))

    def on(self, member: Member, function: Callable[[], None]) -> None:
        """Call `function` on a member: after its freeze, and not when it is dead."""
        if member.dead:
            return
        if member.frozen_until > self.now:
            self.at(member.frozen_until - self.now, lambda: self.on(member, function))
        else:
            function()

    def request(self, member: Member, land: Callable[[], object], answered: Callable[[object], None]) -> None:
        """Send a request: it lands later or never, and its answer arrives later or never."""
        faulty = self.faults and self.rng.random() < self.fault_rate
        there, back = self.rng.uniform(0.001, 0.3), self.rng.uniform(0.001, 0.3)
        if faulty:
            there *= self.rng.choice([1, 20, 60])
            back *= self.rng.choice([1, 20, 60])
        fate = self.rng.random() if faulty else 1.0

        def landed() -> None:
            result = land()
            if fate > 0.3:
                self.at(back, lambda: self.on(member, lambda: answered(result)))

        if fate > 0.15:
            self.at(there, landed)

    def spawn(self) -> None:
        """Start a member with a new identity."""
        member = Member(self, f"m{self._count}")
        self.members.append(member)
        member.renew()
        member.round()

    def reaches(self, member: str, shard: str) -> bool:
        """Whether a member reaches what a shard stands for."""
        return self.now >= self.cut_until.get((member, shard), 0.0)

    def cut(self, seconds: float, shard: str, *members: str) -> None:
        """Let some members, all without names, not reach a shard for a time."""
        for member in members or [member.identity for member in self.members]:
            self.cut_until[member, shard] = self.now + seconds

    # -------------------------------------------------------------- runs
    def run(self, seconds: float) -> None:
        """Let events happen for `seconds`, and check the invariant after each."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, function = heapq.heappop(self._events)
            function()
            leaders = [member for member in self.members if not member.dead and member.election.is_leading(self.now)]
            # Without the lease of the member, none of its writes is sent.
            for shard in sorted(self.shards) if len(leaders) > 1 else ():
                writers = [member.identity for member in leaders if member.may_write(shard)]
                if len(writers) > 1:
                    self.overlaps.append(f"{self.now:.2f}: {shard} is written by {writers}")
        self.now = end

    def fault(self) -> None:
        """Freeze, kill, start, or delete something."""
        alive = [member for member in self.members if not member.dead]
        draw = self.rng.random()
        if draw < 0.4 and alive:
            self.rng.choice(alive).frozen_until = self.now + self.rng.uniform(1, 40)
        elif draw < 0.6 and len(alive) > 1:
            self.rng.choice(alive).dead = True
            self.at(self.rng.uniform(0, 20), self.spawn)
        elif draw < 0.65:
            self.spawn()
        elif draw < 0.7 and alive:
            shard = self.rng.choice(sorted(self.shards))
            self.cut(self.rng.uniform(30, 300), shard, self.rng.choice(alive).identity)
        elif draw < 0.8 and alive:
            self.rng.choice(alive).rules.leaving = True
            self.at(self.rng.uniform(0, 20), self.spawn)
        elif draw < 0.9 and self.server.leases:
            lease = self.rng.choice(sorted(self.server.leases))
            del self.server.leases[lease]
        else:
            number = self.rng.randrange(len(self.shards) + 2)
            self.shards = self.shards ^ {f"s{number}"} or self.shards
            for member in alive:
                self.at(self.rng.uniform(0, 3), lambda member=member: member.rules.set_shards(self.shards))

    def delete_shard_leases(self) -> None:
        """Delete the leases of all shards, as ``kubectl delete leases --all`` does."""
        for name in [name for name, lease in self.server.leases.items() if shard_of(lease)]:
            del self.server.leases[name]

    def settle(self) -> None:
        """End the faults, and let the fleet come to rest."""
        self.faults = False
        self.cut_until.clear()
        for member in self.members:
            member.frozen_until = 0.0
            member.rules.set_shards(self.shards)
        self.run(120)

    def owners(self) -> dict[str, list[str]]:
        """Return who may write for each shard."""
        return {shard: [m.identity for m in self.members if m.may_write(shard)] for shard in sorted(self.shards)}
