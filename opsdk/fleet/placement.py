"""Placement of shards on members: rendezvous hashing with bounded load. Pure.

Every replica computes the same placement from the same members and shards, without a coordinator. A member that joins
takes shards from all others; the shards of a member that leaves spread over the rest. Other shards stay, apart from a
few that move because a member would exceed its bound.

Upstream: Thaler and Ravishankar, "Using name-based mappings to increase hit rates" (rendezvous hashing); Mirrokni,
Thorup and Zadimoghaddam, "Consistent hashing with bounded loads".
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from hashlib import blake2b

from opsdk.errors import UsageError


def weight(member: str, shard: str) -> int:
    """Return the weight of a member for a shard: a 64-bit hash, equal in every process.

    >>> weight("replica-0", "cluster-7") == weight("replica-0", "cluster-7")
    True
    """
    digest = blake2b(f"{len(member)}:{member}{shard}".encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "big")


def bound(members: int, shards: int, load_factor: float) -> int:
    """Return how many shards one member may have.

    >>> bound(5, 50, 1.25)
    13
    """
    return math.ceil(load_factor * shards / members)


def place(members: Collection[str], shards: Collection[str], *, load_factor: float = 1.25) -> Mapping[str, str]:
    """Return the member of each shard; empty without members.

    Each shard goes to the member with the highest weight that is below its bound.

    Args:
        members: names of the live members.
        shards: names of all shards.
        load_factor: a member gets at most this times its fair share, rounded up. At least 1; close to 1 balances
            better, and moves more shards when the members change.

    Raises:
        UsageError: `load_factor` is below 1.

    >>> place(["a", "b"], ["x", "y", "z"], load_factor=1.0) == place(["b", "a"], ["z", "y", "x"], load_factor=1.0)
    True
    """
    if load_factor < 1:
        raise UsageError(f"load_factor is {load_factor:g}: it must be at least 1, or some shards have no member")
    if not members:
        return {}
    limit = bound(len(set(members)), len(set(shards)), load_factor)
    loads = dict.fromkeys(sorted(members), 0)
    placed: dict[str, str] = {}
    # Sort by hash, not by name: a new name must not move the ones after it.
    for shard in sorted(set(shards), key=lambda name: (weight("", name), name)):
        free = [member for member in loads if loads[member] < limit]
        chosen = max(free, key=lambda member: (weight(member, shard), member))
        loads[chosen] += 1
        placed[shard] = chosen
    return placed
