"""The slicer's law: a slice ends at the object that fills it, and no slice is longer than that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opsdk.cache.slicer import Slicer


@given(st.lists(st.integers(0, 300_000), max_size=200))
def test_a_slice_ends_at_the_object_that_reaches_its_size(sizes: list[int]) -> None:
    """Without its last object a slice is below 128 KB, with it it is not; the rest is below."""
    slicer = Slicer()
    cost = 0
    for size in sizes:
        before, cost = cost, cost + size + 512
        assert before < 128 * 1024
        assert slicer.add(size) is (cost >= 128 * 1024)
        if cost >= 128 * 1024:
            cost = 0
