"""The cache by identity: it never answers about another tree."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opsdk.structured_merge.identity_cache import IdentityCache


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 5))
def test_the_cache_knows_the_last_trees_by_identity(order: list[int], limit: int) -> None:
    """The cache finds a tree by identity, not equality, and evicts the oldest entry first."""
    cache = IdentityCache[int](limit=limit)
    trees = [{"same": True} for _ in range(10)]
    numbers: list[int] = []
    for number in order:
        if number not in numbers:
            cache.put(trees[number], number)
            numbers = [*numbers, number][-limit:]
        assert [index for index in range(10) if cache.get(trees[index]) == index] == sorted(numbers)
        assert cache.get({"same": True}) is None
