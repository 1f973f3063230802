"""The rules of ownership, played as a fleet of members with faults."""

from __future__ import annotations

import pytest

from opsdk.api.coordination.v1 import Lease
from opsdk.fleet.shard_lease import LeaseRole, holder_of, lease_name, preferred_holder_of, shard_of, stand_in_of
from tests.fleet.fleet_model import FleetModel

DEEP = [pytest.mark.slow, pytest.mark.deep]
SEEDS = [*range(3), *(pytest.param(seed, marks=DEEP) for seed in range(3, 16))]


def test_shards_are_owned_as_placed() -> None:
    """Without faults, each shard ends with the member that the placement names."""
    model = FleetModel(1, members=3, shards=20)
    model.faults = False
    model.run(60)
    placement = model.members[0].rules.placement()
    assert model.owners() == {shard: [member] for shard, member in placement.items()}
    assert not model.overlaps


def test_a_member_that_joins_takes_its_share_and_no_more() -> None:
    """When a member joins, only the shards that the placement moves change their owner."""
    model = FleetModel(2, members=3, shards=60)
    model.faults = False
    model.run(60)
    before = model.owners()
    model.spawn()
    model.run(60)
    after = model.owners()
    moved = [shard for shard in before if before[shard] != after[shard]]
    assert 5 <= len(moved) <= 30
    assert all(len(owners) == 1 for owners in after.values())
    assert not model.overlaps


def test_members_that_all_leave_do_not_hand_shards_round() -> None:
    """Each shard is drained once and then free, however many members leave at the same time."""
    model = FleetModel(4, members=4, shards=20)
    model.faults = False
    model.run(60)
    before = model.server.version
    for member in model.members:
        member.rules.leaving = True
    model.run(20)
    assert all(member.dead for member in model.members)
    assert {holder_of(lease) for lease in model.server.leases.values()} == {""}
    # A shard is handed over at most once, and then freed; the rest are renewals.
    renewals = len(model.members) * 20 / model.options.retry_period
    assert model.server.version - before <= 2 * len(model.shards) + renewals


def calm_model(seed: int, *, members: int, shards: int = 6) -> FleetModel:
    """Return a model without faults that has come to rest."""
    model = FleetModel(seed, members=members, shards=shards)
    model.faults = False
    model.run(60)
    return model


def owner_of(model: FleetModel, shard: str) -> str:
    """Return the only owner of a shard."""
    (owner,) = model.owners()[shard]
    return owner


@pytest.mark.parametrize("seed", range(5))
def test_members_that_start_after_a_crash_do_not_prolong_the_gap(seed: int) -> None:
    """Each new member observes the dead holder for a whole lease; another one has the shards until then."""
    model = calm_model(seed, members=3)
    lost = owner_of(model, "s1")
    next(member for member in model.members if member.identity == lost).dead = True
    for _ in range(3):
        model.run(4.5)
        model.spawn()
    model.run(model.options.lease_duration + 5 * model.options.retry_period - 3 * 4.5)
    alive = [member for member in model.members if not member.dead]
    holders = {holder_of(lease) for lease in model.server.leases.values() if shard_of(lease)}
    assert holders <= {member.identity for member in alive}
    model.run(60)
    assert model.owners() == {shard: [member] for shard, member in alive[0].rules.placement().items()}
    assert not model.overlaps


@pytest.mark.parametrize("seed", range(3))
def test_a_shard_goes_to_the_member_that_reaches_it(seed: int) -> None:
    """If only one member reaches a shard, that one gets it: after the timeout, and at most one turn for each member.

    Other shards stay. When the member of the placement reaches it again, it gets it back.
    """
    model = calm_model(seed, members=5)
    before = model.owners()
    (others := [m.identity for m in model.members]).remove(owner := owner_of(model, "s1"))
    model.cut(3600, "s1", owner, *others[1:])
    timeout = model.options.unreachable_timeout
    model.run(timeout - 5)
    assert owner_of(model, "s1") == owner
    model.run(timeout * (1 + len(others)))
    assert owner_of(model, "s1") == others[0]
    assert {**model.owners(), "s1": []} == {**before, "s1": []}
    model.cut_until.clear()
    model.run(2 * timeout)
    assert model.owners() == before
    assert not model.overlaps


def test_a_shard_that_no_member_reaches_stays() -> None:
    """An unreachable shard stays with its owner, which invites other members with growing pauses."""
    model = calm_model(3, members=4, shards=2)
    owner = owner_of(model, "s1")
    model.cut(1e9, "s1")
    invited: list[str] = []
    for _ in range(24):
        model.run(60)
        assert owner_of(model, "s1") == owner
        lease = next(lease for lease in model.server.leases.values() if shard_of(lease) == "s1")
        if (stand_in := stand_in_of(lease)) != (invited[-1] if invited else ""):
            invited.append(stand_in)
    # 1 minute, then rounds of 3 and 6 minutes, each followed by a pause of two turns; see test_outage.py.
    assert 6 <= len(invited) <= 11
    assert set(invited) == {"", *(m.identity for m in model.members if m.identity != owner)}
    assert not model.overlaps


@pytest.mark.slow
def test_a_link_that_comes_and_goes_moves_a_shard_ever_more_seldom() -> None:
    """A member that reaches a shard for moments only does not get it back each time."""
    model = calm_model(5, members=3, shards=2)
    owner = owner_of(model, "s1")
    lease = lease_name(model.options.name, LeaseRole.SHARD, "s1")
    holders = [owner]
    for _ in range(30):
        model.cut(150, "s1", owner)
        for _ in range(20):
            model.run(10)
            if (holder := holder_of(model.server.leases[lease])) != holders[-1]:
                holders.append(holder)
    # 6,000 s: it stays away for 60, 120, 240 ... 1,920 s. With 60 s each time, it moved 60 times.
    assert holders.count(owner) in range(3, 9)
    assert not model.overlaps


@pytest.mark.parametrize("seed", SEEDS)
def test_a_shard_never_has_two_writers(seed: int) -> None:
    """Under any faults, at most one member may write for a shard.

    After the faults, each shard has exactly one owner again.
    """
    model = FleetModel(seed, members=2 + seed % 3)
    for _ in range(20):
        model.run(model.rng.uniform(1, 30))
        model.fault()
    assert not model.overlaps
    model.settle()
    assert not model.overlaps
    assert [len(owners) for owners in model.owners().values()] == [1] * len(model.shards)


@pytest.mark.parametrize("seed", [12, 23, 26])
@pytest.mark.slow
def test_a_member_is_preferred_only_while_it_is_warm(seed: int) -> None:
    """A member that warmed up for a shard withdraws when the placement names another one.

    Otherwise the owner would hand the shard over later, while the member is cold.
    """
    model = FleetModel(seed, members=4, shards=30)
    for _ in range(12):
        model.run(model.rng.uniform(1, 30))
        model.fault()
    model.settle()
    alive = {member.identity for member in model.members if not member.dead}
    assert alive.isdisjoint(map(preferred_holder_of, model.server.leases.values()))


@pytest.mark.parametrize("seed", SEEDS)
def test_deleted_leases_do_not_make_a_second_writer(seed: int) -> None:
    """Members that see a lease vanish wait until its holder knows, also if the holder cannot read and shards move."""
    model = FleetModel(seed, members=2, shards=8)
    for _ in range(6):
        model.run(model.rng.uniform(16, 30))
        model.rng.choice(model.members).blind_until = model.now + model.rng.uniform(5, 40)
        model.delete_shard_leases()
        if len(model.members) < 5:
            model.at(model.rng.uniform(0, 4), model.spawn)
    assert not model.overlaps
    model.settle()
    assert [len(owners) for owners in model.owners().values()] == [1] * len(model.shards)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 30, *(pytest.param(seed, marks=DEEP) for seed in range(1, 7))])
def test_leases_deleted_again_and_again_do_not_make_a_second_writer(seed: int) -> None:
    """A lease that is deleted within seconds of its creation, before others could read it, still has one writer.

    Also while shards move, and while members cannot read or their requests are late.
    """
    model = FleetModel(seed, members=3, shards=8)
    model.fault_rate = 0.3

    def delete_soon(lease: Lease) -> None:
        if shard_of(lease) and model.rng.random() < 0.7:
            model.at(model.rng.uniform(0, 0.5), lambda: model.server.delete(lease))

    for _ in range(8):
        model.run(model.rng.uniform(16, 30))
        model.server.on_create = delete_soon
        model.delete_shard_leases()
        if len(model.members) < 6:
            model.at(model.rng.uniform(0, 12), model.spawn)
        model.run(30)
        model.server.on_create = lambda _lease: None
    assert not model.overlaps
    model.settle()
    assert [len(owners) for owners in model.owners().values()] == [1] * len(model.shards)
