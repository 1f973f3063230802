"""Outages: the owner of a shard cannot reach its cluster, and invites other members to take it over. Pure.

The owner keeps the shard until another member is ready: it invites the others one after the other, and an
invited member warms up. Only a member that reaches the cluster becomes warm, so otherwise the shard does not move.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from opsdk.fleet.placement import weight

# Turns, and pauses between two rounds, grow up to 2 to this power of timeouts: 32 minutes with the default of 60 s.
_MAX_DOUBLINGS = 5


def doubled_wait(timeout: float, repeats: int) -> float:
    """Return a wait in seconds that doubles with each repeat, up to 32 times the timeout.

    >>> [doubled_wait(60, repeats) for repeats in (0, 1, 2, 9)]
    [60.0, 120.0, 240.0, 1920.0]
    """
    return math.ldexp(timeout, min(repeats, _MAX_DOUBLINGS))


class Outage:
    """One period in which an owner cannot reach a shard.

    Each other member is invited for one turn. After all turns a pause follows, and then another round. Turns and
    pauses last `timeout` at first, and double with each round. A joining member is also invited during a pause.

    Args:
        shard: the shard.
        since: when it became unreachable, in seconds, on the clock of `now`.
        timeout: seconds until the first member is invited.

    >>> outage = Outage("eu", since=0.0, timeout=60.0)
    >>> [outage.stand_in(now, ["a"]) for now in (59.0, 60.0, 119.0, 120.0, 239.0, 240.0)]
    ['', 'a', 'a', '', '', 'a']
    """

    def __init__(self, shard: str, *, since: float, timeout: float) -> None:
        self.shard = shard
        self.since = since
        self._timeout = timeout
        self._rounds = 0
        self._invited_members: set[str] = set()
        self._stand_in = ""
        self._turn_ends_at = since + timeout
        """The end of the first wait, of a turn, or of a pause."""

    def stand_in(self, now: float, others: Collection[str]) -> str:
        """Return the member that is invited at the time `now`; empty for none.

        Args:
            now: the time, never earlier than that of an earlier call.
            others: the live members but the owner.
        """
        if now < self.since + self._timeout:
            return ""
        if self._stand_in in others and now < self._turn_ends_at:
            return self._stand_in
        if self._stand_in and self._invited_members >= set(others):
            self._rounds += 1
            self._stand_in, self._turn_ends_at = "", now + doubled_wait(self._timeout, self._rounds)
        if not self._stand_in and now >= self._turn_ends_at:
            self._invited_members.clear()
        # Select by weight, so that the shards of an unreachable owner spread over all other members.
        free = [member for member in others if member not in self._invited_members]
        self._stand_in = max(free, key=lambda member: (weight(member, self.shard), member), default="")
        if self._stand_in:
            self._invited_members.add(self._stand_in)
            self._turn_ends_at = now + doubled_wait(self._timeout, self._rounds)
        return self._stand_in

    def __repr__(self) -> str:
        return f"<Outage of {self.shard}: {self._stand_in or 'no member'} is invited, round {self._rounds + 1}>"
