"""The rules of ownership, played as a fleet of members with faults."""

from __future__ import annotations

import pytest
from fleet_model import FleetModel

from opsdk.fleet.shard_lease import holder_of

SEEDS = [*range(12), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 60))]


def test_shards_are_owned_as_placed() -> None:
    """Without faults, each shard ends with the member that the placement names."""
    model = FleetModel(1, members=3, shards=20)
    model.faults = False
    model.run(60)
    placement = model.members[0].rules.placement()
    assert model.owners() == {shard: [member] for shard, member in placement.items()}
    assert not model.overlaps


def test_a_member_that_joins_takes_its_share_and_no_more() -> None:
    """Only the shards that the placement moves get another owner."""
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


@pytest.mark.parametrize("seed", SEEDS)
def test_a_shard_never_has_two_writers(seed: int) -> None:
    """Whatever freezes, dies, is deleted or answered late, at most one member may write for a shard at any time.

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
