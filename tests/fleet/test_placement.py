"""Placement of shards on members."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.errors import UsageError
from opsdk.fleet.placement import bound, place

NAMES = st.text("abcdefghijklmnopqrstuvwxyz-/0123456789", min_size=1, max_size=12)
MEMBERS = st.sets(NAMES, min_size=1, max_size=8)
SHARDS = st.sets(NAMES, max_size=60)
FACTORS = st.floats(1.0, 3.0)


@given(MEMBERS, SHARDS, FACTORS)
def test_every_shard_has_a_member_within_its_bound(members: set[str], shards: set[str], factor: float) -> None:
    """Each shard is placed once, and no member exceeds its bound."""
    placed = place(members, shards, load_factor=factor)
    assert placed.keys() == shards
    assert set(placed.values()) <= members
    if shards:
        assert max(Counter(placed.values()).values()) <= bound(len(members), len(shards), factor)


@given(MEMBERS, SHARDS, st.randoms())
def test_the_order_of_the_names_does_not_matter(members: set[str], shards: set[str], rng: object) -> None:
    """Replicas that see the same names in another order compute the same placement."""
    assert place(sorted(members), sorted(shards)) == place(sorted(members)[::-1], sorted(shards)[::-1])


@given(MEMBERS, SHARDS, NAMES)
def test_without_bounds_only_the_joining_member_gains_shards(members: set[str], shards: set[str], new: str) -> None:
    """Rendezvous hashing: a shard moves to the member that joined, or it stays."""
    factor = float(len(members) + 1)
    before = place(members, shards, load_factor=factor)
    after = place(members | {new}, shards, load_factor=factor)
    assert {after[shard] for shard in shards if after[shard] != before[shard]} <= {new}


@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_a_member_that_joins_or_leaves_moves_about_its_share(count: int) -> None:
    """The default bound moves at most half a share more than what the joining member gets."""
    members = [f"replica-{number}" for number in range(count)]
    shards = [f"cluster-{number}" for number in range(1_000)]
    before = place(members, shards)
    after = place([*members, "replica-new"], shards)
    moved = sum(before[shard] != after[shard] for shard in shards)
    share = math.ceil(len(shards) / (count + 1))
    assert moved <= share * 1.5
    assert Counter(after.values())["replica-new"] >= share * 0.5


def test_a_shard_that_joins_moves_few_others() -> None:
    """The bound depends on the number of shards, so a new one shifts at most one for each member."""
    members = [f"replica-{number}" for number in range(5)]
    shards = [f"cluster-{number}" for number in range(100)]
    for number in range(50):
        before, after = place(members, shards), place(members, [*shards, f"new-{number}"])
        assert sum(before[shard] != after[shard] for shard in shards) <= 5


def test_a_load_factor_below_one_is_refused() -> None:
    """Below 1, some shards would have no member."""
    with pytest.raises(UsageError, match="at least 1"):
        place(["a"], ["x"], load_factor=0.9)


def test_without_members_nothing_is_placed() -> None:
    """A placement without members is empty."""
    assert place([], ["x"]) == {}
