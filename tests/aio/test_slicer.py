"""The slicer's law: a slice ends at the object that fills it, and no slice is longer than that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opsdk.aio.slicer import SLICE_ENDS, SliceEnds, Slicer


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


@given(st.lists(st.tuples(st.integers(0, 60_000), st.integers(0, 60_000)), max_size=40))
def test_a_run_with_other_sizes_has_the_recorded_slices(sizes: list[tuple[int, int]]) -> None:
    """A recording hides values: its objects are larger or smaller than those of the run."""
    recorded: list[bool] = []

    class Recorder:
        def ends(self, is_full: bool, once: str) -> bool:
            recorded.append(is_full)
            return is_full

    class Replay:
        def __init__(self) -> None:
            self._ends = iter(recorded)

        def ends(self, is_full: bool, once: str) -> bool:
            return next(self._ends)

    def slices(ends: SliceEnds, of_objects: list[int]) -> list[bool]:
        token = SLICE_ENDS.set(ends)
        slicer = Slicer()
        SLICE_ENDS.reset(token)
        return [slicer.add(size) for size in of_objects]

    before = slices(Recorder(), [size for size, _ in sizes])
    assert slices(Replay(), [size for _, size in sizes]) == before
