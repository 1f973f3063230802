"""Whom an owner invites that cannot reach its shard."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opsdk.fleet.outage import Outage, doubled_wait

MEMBERS = ["a", "b", "c", "d"]


def invitations(outage: Outage, seconds: int, others: list[str]) -> list[tuple[int, str]]:
    """Return when which member was invited, empty for none, in some seconds."""
    changes = [(0, "")]
    for now in range(seconds):
        if (member := outage.stand_in(now, others)) != changes[-1][1]:
            changes.append((now, member))
    return changes


def test_each_member_has_one_turn_in_each_round() -> None:
    """After the timeout each other member is invited once; turns and pauses double from round to round."""
    changes = invitations(Outage("eu", since=0.0, timeout=60.0), 1600, MEMBERS)
    assert [time for time, _ in changes] == [0, 60, 120, 180, 240, 300, 420, 540, 660, 780, 900, 1140, 1380]
    order = [member for _, member in changes]
    assert sorted(order[1:5]) == MEMBERS
    assert order[5] == order[10] == ""
    assert order[6:10] == order[1:5]


def test_shards_of_one_owner_spread_over_the_others() -> None:
    """The first invited member depends on the shard."""
    first = {Outage(f"s{n}", since=0.0, timeout=1.0).stand_in(1.0, MEMBERS) for n in range(40)}
    assert first == set(MEMBERS)


def test_a_member_that_joins_is_invited_in_a_pause() -> None:
    """A new member may reach what the others do not: its turn comes at once."""
    outage = Outage("eu", since=0.0, timeout=60.0)
    assert [outage.stand_in(now, ["a"]) for now in (60.0, 121.0)] == ["a", ""]
    assert outage.stand_in(130.0, ["a", "b"]) == "b"
    assert outage.stand_in(260.0, ["a", "b"]) == ""


def test_a_member_that_leaves_ends_its_turn() -> None:
    """Only live members are invited, so a member that leaves ends its turn."""
    outage = Outage("eu", since=0.0, timeout=60.0)
    gone = outage.stand_in(60.0, ["a", "b"])
    (other,) = {"a", "b"} - {gone}
    assert outage.stand_in(70.0, [other]) == other
    assert outage.stand_in(80.0, []) == ""


@given(
    steps=st.lists(st.tuples(st.floats(0.1, 200), st.sets(st.sampled_from(MEMBERS))), max_size=40),
    timeout=st.floats(1, 100),
)
def test_invitations_stay_within_their_bounds(steps: list[tuple[float, set[str]]], timeout: float) -> None:
    """Invitations go to live members, after the timeout, and at most once before each pause."""
    outage, now = Outage("eu", since=0.0, timeout=timeout), 0.0
    previous, changes, pauses = "", 0, 0
    for seconds, others in steps:
        now += seconds
        member = outage.stand_in(now, others)
        assert member in others | {""}
        assert not member or now >= timeout
        assert outage.stand_in(now, others) == member
        changes += member not in ("", previous)
        pauses += previous != "" and member == ""
        previous = member
    # Without a pause in between, each member has one turn.
    assert changes <= len(MEMBERS) * (pauses + 1)
    assert doubled_wait(timeout, 1_000) == 32 * timeout
