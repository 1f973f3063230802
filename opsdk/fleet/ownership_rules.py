"""Ownership of shards: the rules of one member. Pure.

A canary limits the placement to the members of one version for each shard: `opsdk.fleet.canary_rules`.

The loop in `opsdk.fleet.ownership` reads the fleet's leases, reports them with `observed`, and carries out the steps
that `decide` returns. A shard moves in one of four ways:

* It is free, or its holder is dead: the member that the placement names takes it. If that member leaves the shard of a
  dead holder for two periods, any other member takes it.
* Its holder is alive and another member is placed: that member warms up and writes itself as the preferred holder; the
  holder drains its work before it writes the new holder. The shard always has exactly one owner.
* Its holder cannot reach the shard's cluster: it invites other members one after the other. The one that becomes
  warm is the preferred holder, as above.
* Its holder leaves: it drains, and hands the shard to the member that the placement names without it.

Every write of a shard's lease is a compare-and-swap on its resourceVersion. Ownership counts only as long as the
member's own lease is valid and a recent read of the server confirmed the holder.

A create has no resourceVersion to compare. So a lease that replaces a deleted one is unsettled: its holder works only
after the lease has existed for `lease_duration`. By then the holder of the deleted lease has stopped, even if it did
not observe the deletion.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from enum import Enum

import msgspec

from opsdk.api.coordination.v1 import Lease
from opsdk.errors import DecodeError, UsageError
from opsdk.fleet.canary_rules import Canary, check_version, place_versions, read_canary
from opsdk.fleet.membership import Membership
from opsdk.fleet.outage import Outage, doubled_wait
from opsdk.fleet.shard_lease import (
    held_by,
    holder_of,
    is_unsettled,
    new_shard_lease,
    preferred_by,
    preferred_holder_of,
    shard_of,
    stand_in_of,
    with_invitation,
    with_no_former_holder,
)
from opsdk.manager.leader_election.lease_options import LeaseOptions

# Leases of dead members and of removed shards are deleted after this many lease durations.
_STALE_LEASE_DURATIONS = 10
# A member without a read for this many periods may have missed a lease.
_MAX_READ_GAP_PERIODS = 3
# A shard without a live holder that its placed member does not take for this many periods goes to any other member.
_UNTAKEN_PERIODS = 2
# Unconfirmed ownership ends this fraction of the lease before others may take it, as in leader election.
_MARGIN = 0.05


class ShardingOptions(LeaseOptions, frozen=True, kw_only=True):
    """How shards move between members. Times are in seconds.

    Attributes:
        load_factor: see `opsdk.fleet.placement.place`.
        drain_timeout: time for running work to finish before a shard is handed over; then it is cancelled.
        unreachable_timeout: an owner that cannot reach a shard for this long invites other members to take it.
        version: of the operator, for a canary; empty for none.
    """

    version: str = ""
    load_factor: float = 1.25
    drain_timeout: float = 20.0
    unreachable_timeout: float = 60.0


class OwnershipOptions(ShardingOptions, frozen=True, kw_only=True):
    """Options of an ownership. Times are in seconds.

    Attributes:
        name: the name of the fleet, part of the lease names. Members and shards with this name belong together.
        namespace: the namespace of the leases.
        lease_duration: the time after which the shards of a member that does not renew its lease go to others.
        renew_deadline: a member whose renewals fail for this long releases all shards.
        retry_period: time between two renewals, and between two reads of the leases.
        load_factor: see `opsdk.fleet.placement.place`.
        drain_timeout: time for running work to finish before a shard is handed over; then it is cancelled.
        unreachable_timeout: an owner that cannot reach a shard for this long invites other members to take it, one
            after the other; ``math.inf`` for never. See `opsdk.fleet.outage.Outage`.
        version: of the operator. A canary gives chosen shards to the members of one version; see
            `opsdk.fleet.canary_rules`. At most 63 characters of a label value; empty for none.
    """

    name: str
    namespace: str

    def __post_init__(self) -> None:
        if not self.name or not self.namespace:
            raise UsageError("ownership needs a name and a namespace for its leases")
        check_version(self.version)
        if self.load_factor < 1:
            raise UsageError(f"load_factor is {self.load_factor:g}: it must be at least 1")
        if self.drain_timeout < 0:
            raise UsageError(f"drain_timeout is {self.drain_timeout:g}: it must be at least 0")
        if not self.unreachable_timeout > 0:
            raise UsageError(f"unreachable_timeout is {self.unreachable_timeout:g}: it must be above 0")


class ShardState(Enum):
    """The state of a shard on this member."""

    NONE = "none"
    WARMING = "warming"
    """The caches fill; nothing is written."""
    WARM = "warm"
    """The caches are filled, and the holder is informed."""
    OWNED = "owned"
    DRAINING = "draining"
    """Running work may finish."""
    DRAINED = "drained"
    """No work runs any more; the next holder is not written yet."""


_ACTIVE_STATES = (ShardState.OWNED, ShardState.DRAINING, ShardState.DRAINED)


class StepKind(Enum):
    """A step for the loop."""

    WARM = "warm"
    COOL = "cool"
    """Stop a warm-up: another member keeps or takes the shard."""
    OWN = "own"
    DRAIN = "drain"
    """Finish running work, then report `OwnershipRules.drained`."""
    LOSE = "lose"
    """Cancel all work; its writes are rejected already."""
    WRITE = "write"
    """Create or update `lease`, then report `OwnershipRules.wrote` if the server accepted it."""
    DELETE = "delete"
    """Delete `lease` if it is unchanged."""


class OwnershipStep(msgspec.Struct, frozen=True):
    """One step. `shard` is empty for the lease of a member."""

    kind: StepKind
    shard: str
    lease: Lease | None = None


class _Shard(msgspec.Struct):
    """The state of one shard, as this member observes it."""

    name: str
    state: ShardState = ShardState.NONE
    lease: Lease | None = None
    confirmed_at: float = 0.0
    written_at: float = -math.inf
    """When the server responded to the last write of the lease. A list requested before may not have that write."""
    vanished_at: float | None = None
    """When the lease was first missing although it may have a holder; None without a holder, or if the lease exists."""
    is_replaced: bool = False
    """Whether the missing lease had a holder, so that the next lease is unsettled."""
    unsettled_uid: str = ""
    """The uid of the unsettled lease; empty for a settled one."""
    settles_at: float = -math.inf
    """When the unsettled lease has existed for `lease_duration`."""
    available_since: float | None = None
    """Since when this member knows that no member can act for the shard; None while one can."""
    owned_at: float = 0.0
    """When the current ownership of this member began."""
    outage: Outage | None = None
    """Set while this member owns the shard and cannot reach it."""
    retreats: int = 0
    """The number of consecutive handovers because of an outage; a long ownership resets it."""
    returns_at: float = -math.inf
    """The time until which this member does not warm the shard up again, unless it is invited."""


class OwnershipRules:
    """One member's view of the fleet, from its first renewal until it loses its lease or leaves.

    Args:
        identity: this member; unique for each process and each restart of the loop.
        options: see `OwnershipOptions`.
    """

    def __init__(self, identity: str, options: OwnershipOptions) -> None:
        self.identity = identity
        self.options = options
        self.membership = Membership(identity, lease_duration=options.lease_duration)
        self.leaving = False
        self._shards: dict[str, _Shard] = {}
        self._names: frozenset[str] = frozenset()
        self._read_at = 0.0
        self._has_read = False
        self._missing_since: float | None = None
        self._placement_cache: tuple[object, Mapping[str, str]] = (None, {})
        self.canary: Canary | None = None
        """The choice of shards for a new version in the last list."""
        self.canary_problem = ""
        """Why the last list's choice is not used: the one before stays; empty if it is used."""

    # -------------------------------------------------------------- observations
    def set_shards(self, names: Collection[str]) -> None:
        """Set the existing shards."""
        self._names = frozenset(names)

    def observed(self, leases: Collection[Lease], *, requested_at: float, answered_at: float) -> None:
        """Report a list of the fleet's leases, see `Membership.observed`."""
        self.membership.observed(leases, requested_at=requested_at, answered_at=answered_at)
        self._observe_canary(leases)
        # A lease that this member did not see may have been deleted since its last read, before its holder observes
        # the deletion. A member that starts alone need not wait.
        is_alone = not self._has_read and len(self.membership.candidates()) == 1
        was_blind = requested_at - self._read_at > self.options.retry_period * _MAX_READ_GAP_PERIODS
        is_blind_spot = not is_alone and (not self._has_read or was_blind)
        if is_blind_spot:
            self._missing_since = answered_at
        self._has_read, self._read_at = True, requested_at
        by_shard = {name: lease for lease in leases if (name := shard_of(lease))}
        for name in sorted(self._names | by_shard.keys() | self._shards.keys()):
            shard = self._shards.setdefault(name, _Shard(name, vanished_at=self._missing_since))
            if requested_at < shard.written_at:
                continue
            lease = by_shard.get(name)
            if lease is None and (is_blind_spot or holder_of(shard.lease)):
                shard.vanished_at = answered_at
                shard.is_replaced = shard.is_replaced or bool(holder_of(shard.lease))
            self._set_lease(shard, lease, answered_at)
            if holder_of(lease) == self.identity:
                shard.confirmed_at = requested_at

    def _observe_canary(self, leases: Collection[Lease]) -> None:
        """Take the choice of a list. A broken one changes nothing: it must not give shards to any version."""
        try:
            self.canary, self.canary_problem = read_canary(leases), ""
        except DecodeError as error:
            self.canary_problem = str(error)

    def wrote(self, name: str, lease: Lease, *, requested_at: float, answered_at: float) -> None:
        """Report that the server accepted a write of a shard's lease."""
        shard = self._shards[name]
        self._set_lease(shard, lease, answered_at)
        shard.written_at = answered_at
        if holder_of(lease) == self.identity:
            shard.confirmed_at = requested_at
        if shard.state is ShardState.DRAINED:
            # Handed over, or taken again by a write that follows an earlier one whose response was lost.
            shard.state = ShardState.NONE

    def _set_lease(self, shard: _Shard, lease: Lease | None, at: float) -> None:
        """Store the lease of a shard, or its absence, as this member observed it at the time `at`."""
        shard.lease = lease
        if lease is None:
            return
        shard.vanished_at, shard.is_replaced = None, False
        if not is_unsettled(lease):
            shard.unsettled_uid, shard.settles_at = "", -math.inf
        elif lease.metadata.uid != shard.unsettled_uid:
            shard.unsettled_uid, shard.settles_at = lease.metadata.uid, at + self.options.lease_duration

    def deleted(self, name: str) -> None:
        """Report that the server deleted a shard's lease for this member."""
        shard = self._shards[name]
        shard.lease, shard.vanished_at, shard.is_replaced = None, None, False
        shard.state = ShardState.NONE

    def warmed(self, name: str) -> None:
        """Report that the caches of a shard are filled."""
        shard = self._shards.get(name)
        if shard is not None and shard.state is ShardState.WARMING:
            shard.state = ShardState.WARM

    def drained(self, name: str) -> None:
        """Report that all work of a shard has ended."""
        shard = self._shards.get(name)
        if shard is not None and shard.state is ShardState.DRAINING:
            shard.state = ShardState.DRAINED

    def report_reachability(self, name: str, *, is_reachable: bool, now: float) -> None:
        """Report whether this member can reach a shard that it owns, at the time `now`. Default: reachable."""
        shard = self._shards.get(name)
        if shard is None or shard.state is not ShardState.OWNED:
            return
        timeout = self.options.unreachable_timeout
        if is_reachable:
            shard.outage = None
        elif shard.outage is None:
            shard.outage = Outage(name, since=now, timeout=timeout)
            if now - shard.owned_at > doubled_wait(timeout, shard.retreats):
                shard.retreats = 0

    # -------------------------------------------------------------- state
    def refusal(self, name: str, now: float) -> str:
        """Return why a write for a shard must be rejected; empty if it is allowed. Changes nothing."""
        shard = self._shards.get(name)
        holder = holder_of(shard.lease) if shard is not None else ""
        is_working = shard is not None and shard.state in (ShardState.OWNED, ShardState.DRAINING)
        if shard is None or not is_working or holder != self.identity:
            return f"{self.identity} does not own {name} (last observed holder: {holder or 'none'})"
        if shard.confirmed_at < shard.settles_at:
            return f"the lease of {name} was deleted: writes wait until its earlier holders have stopped"
        if now >= self._ownership_expires_at(shard):
            return f"the ownership of {name} was not confirmed for {now - shard.confirmed_at:.1f} s"
        return ""

    def states(self) -> dict[str, ShardState]:
        """Return the state of each shard that this member owns, warms up or drains."""
        return {name: shard.state for name, shard in self._shards.items() if shard.state is not ShardState.NONE}

    def rows(self, now: float) -> list[dict[str, object]]:
        """Return the holder of each shard, and its state on this member. Durations are in seconds, to show them."""
        return [
            {
                "shard": name,
                "state": shard.state.value,
                "holder": holder_of(shard.lease),
                "confirmed_seconds": now - shard.confirmed_at if shard.state in _ACTIVE_STATES else None,
                "owned_seconds": now - shard.owned_at if shard.state in _ACTIVE_STATES else None,
                "reachable": shard.outage is None,
            }
            for name, shard in sorted(self._shards.items())
        ]

    def placement(self) -> Mapping[str, str]:
        """Return the member of each shard that exists, as this member sees the fleet.

        A shard that waits for a member of its version is missing.
        """
        versions = self.versions()
        key = (versions, self._names, self.canary)
        if self._placement_cache[0] != key:
            placed = place_versions(versions, self._names, self.canary, load_factor=self.options.load_factor)
            self._placement_cache = (key, placed)
        return self._placement_cache[1]

    def versions(self) -> dict[str, str]:
        """Return the version of each member that takes shards."""
        return {member: self.version_of(member) for member in self._members()}

    def version_of(self, member: str) -> str:
        """Return the version of a member; empty for none."""
        return self.options.version if member == self.identity else self.membership.version_of(member)

    def holders(self) -> dict[str, str]:
        """Return the holder of each shard in the last list; empty for none."""
        return {name: holder_of(shard.lease) for name, shard in sorted(self._shards.items()) if shard.lease is not None}

    def _members_for(self, shard: str) -> frozenset[str]:
        """Return the members that may take a shard."""
        return self._members() if self.canary is None else self.canary.members(shard, self.versions())

    def _members(self) -> frozenset[str]:
        """Return the members that take shards."""
        return self.membership.candidates() - ({self.identity} if self.leaving else frozenset())

    # -------------------------------------------------------------- decisions
    def decide(self, wall: datetime) -> list[OwnershipStep]:
        """Return the next steps, and change the states of the shards with them. `wall` is written into leases."""
        placement = self.placement()
        steps: list[OwnershipStep] = []
        for shard in list(self._shards.values()):
            stand_in, target = stand_in_of(shard.lease), placement.get(shard.name, "")
            if target and stand_in and stand_in in self._members_for(shard.name):
                target = stand_in
            steps += self._decide_shard(shard, target, wall)
            is_gone = shard.lease is None and shard.state is ShardState.NONE and shard.name not in self._names
            if is_gone and (shard.vanished_at is None or self._lease_duration_elapsed_since(shard.vanished_at)):
                del self._shards[shard.name]
        return steps + self._delete_stale_leases()

    def _decide_shard(self, shard: _Shard, target: str, wall: datetime) -> Iterable[OwnershipStep]:
        """Return the steps for one shard, from its holder, its state here, and its target."""
        holder, state = holder_of(shard.lease), shard.state
        if holder == self.identity:
            return self._decide_held(shard, target, wall)
        if state is ShardState.DRAINED:
            shard.state = ShardState.NONE
            return ()
        if state in _ACTIVE_STATES and (shard.lease is not None or self._read_at >= self._ownership_expires_at(shard)):
            # This member is not the holder, or another member may have been since: its work ends.
            return self._set_state(shard, ShardState.NONE, StepKind.LOSE)
        if state in _ACTIVE_STATES:
            # Its lease was deleted. Until it is written again, writes are rejected, and work continues.
            return [self._write(shard, self.identity, wall)]
        if self._takes(shard, holder, target):
            return [self._write(shard, self.identity, wall)]
        if target != self.identity:
            return self._cancel_warmup(shard)
        if state is ShardState.NONE:
            if self._read_at < shard.returns_at and stand_in_of(shard.lease) != self.identity:
                return ()
            return self._set_state(shard, ShardState.WARMING, StepKind.WARM)
        if state is ShardState.WARM and shard.lease and preferred_holder_of(shard.lease) != self.identity:
            return [OwnershipStep(StepKind.WRITE, shard.name, preferred_by(shard.lease, self.identity))]
        return ()

    def _cancel_warmup(self, shard: _Shard) -> Iterable[OwnershipStep]:
        """End a warm-up, or remove this member as preferred holder: the shard must not go to a cold member."""
        if shard.state is not ShardState.NONE:
            return self._set_state(shard, ShardState.NONE, StepKind.COOL)
        if shard.lease is not None and preferred_holder_of(shard.lease) == self.identity:
            return [OwnershipStep(StepKind.WRITE, shard.name, preferred_by(shard.lease, ""))]
        return ()

    def _decide_held(self, shard: _Shard, target: str, wall: datetime) -> Iterable[OwnershipStep]:
        """Decide on a shard whose lease names this member."""
        if shard.state is ShardState.DRAINED:
            if shard.name not in self._names:
                return [OwnershipStep(StepKind.DELETE, shard.name, shard.lease)]
            # Without a target, the shard waits for a member of its version. Until then, this one keeps it.
            return [self._write(shard, target or ("" if self.leaving else self.identity), wall)]
        if shard.state is ShardState.DRAINING:
            return ()
        if shard.state is not ShardState.OWNED and self.leaving:
            # Another member handed it over before it observed that this one leaves. Another handover could circulate
            # between members that all leave, so it has no holder until the placement names a member that stays.
            if shard.state is not ShardState.NONE:
                return self._set_state(shard, ShardState.NONE, StepKind.COOL)
            return [self._write(shard, "", wall)]
        if shard.state is not ShardState.OWNED and self._read_at < shard.settles_at:
            return self._set_state(shard, ShardState.WARMING, StepKind.WARM) if shard.state is ShardState.NONE else ()
        if shard.state is not ShardState.OWNED:
            # This includes a shard that was drained for another member and is placed on this one again.
            shard.owned_at = self._read_at
            return self._set_state(shard, ShardState.OWNED, StepKind.OWN)
        return self._decide_owned(shard, target)

    def _decide_owned(self, shard: _Shard, target: str) -> Iterable[OwnershipStep]:
        """Decide whether this member releases a shard, and which member it invites if it cannot reach the shard."""
        is_wanted = target not in ("", self.identity) and preferred_holder_of(shard.lease) == target
        if self.leaving or shard.name not in self._names or is_wanted:
            if is_wanted and shard.outage is not None:
                shard.returns_at = self._read_at + doubled_wait(self.options.unreachable_timeout, shard.retreats)
                shard.retreats += 1
            return self._set_state(shard, ShardState.DRAINING, StepKind.DRAIN)
        assert shard.lease is not None
        if is_unsettled(shard.lease) and self._read_at >= shard.settles_at:
            return [OwnershipStep(StepKind.WRITE, shard.name, with_no_former_holder(shard.lease))]
        invited = ""
        if shard.outage is not None:
            invited = shard.outage.stand_in(self._read_at, self._members_for(shard.name) - {self.identity})
        if invited != stand_in_of(shard.lease):
            return [OwnershipStep(StepKind.WRITE, shard.name, with_invitation(shard.lease, invited))]
        return ()

    def _ownership_expires_at(self, shard: _Shard) -> float:
        """Return when the ownership of a shard ends without another confirmation."""
        return shard.confirmed_at + self.options.lease_duration * (1 - _MARGIN)

    def _lease_duration_elapsed_since(self, since: float) -> bool:
        """Whether every holder without a confirmation since a time has stopped."""
        return self._read_at >= since + self.options.lease_duration

    def _is_available(self, shard: _Shard, holder: str) -> bool:
        """Whether no member can still act for the shard."""
        if shard.vanished_at is not None and not shard.is_replaced:
            # The holder observes the deletion with its next read, or stops without one.
            return self._lease_duration_elapsed_since(shard.vanished_at)
        return not holder or not self.membership.is_alive(holder)

    def _takes(self, shard: _Shard, holder: str, target: str) -> bool:
        """Whether this member takes a shard without a live holder: as placed, or because the placed member does not.

        A placed member that has just started observes the dead holder for a whole lease first. It gets the shard by a
        hand-over later. A shard without a lease waits for the placed member: the lease may have been deleted.
        """
        if not self._is_available(shard, holder):
            shard.available_since = None
            return False
        if shard.available_since is None:
            shard.available_since = self._read_at
        if target in ("", self.identity) or self.leaving or not holder:
            return target == self.identity
        if self.canary is not None and not self.canary.may_stand_in(shard.name, self.options.version):
            return False
        return self._read_at >= shard.available_since + self.options.retry_period * _UNTAKEN_PERIODS

    def _write(self, shard: _Shard, holder: str, wall: datetime) -> OwnershipStep:
        lease = shard.lease
        if lease is None:
            is_settled = not shard.is_replaced and shard.state not in _ACTIVE_STATES
            lease = new_shard_lease(self.options.name, self.options.namespace, shard.name, is_settled=is_settled)
        return OwnershipStep(StepKind.WRITE, shard.name, held_by(lease, holder, wall))

    def _set_state(self, shard: _Shard, state: ShardState, kind: StepKind) -> list[OwnershipStep]:
        shard.state, shard.outage = state, None
        return [OwnershipStep(kind, shard.name)]

    def _delete_stale_leases(self) -> list[OwnershipStep]:
        """Return the deletions of stale leases. The first of the live members deletes them."""
        if self.identity != min(self.membership.candidates()) or self.leaving:
            return []
        after = self.options.lease_duration * _STALE_LEASE_DURATIONS
        # Delete the lease of a shard without a live holder: a new lease has the same state.
        leases = [
            shard.lease
            for shard in self._shards.values()
            if shard.lease is not None
            and self._names
            and shard.name not in self._names
            and self._is_available(shard, holder_of(shard.lease))
        ]
        return [
            OwnershipStep(StepKind.DELETE, "", lease) for lease in (*leases, *self.membership.stale_leases(after=after))
        ]

    def __repr__(self) -> str:
        owned = sum(shard.state in _ACTIVE_STATES for shard in self._shards.values())
        return f"<OwnershipRules {self.identity}: {owned} of {len(self._names)} shards>"
