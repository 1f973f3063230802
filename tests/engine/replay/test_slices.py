"""Where slices end in a replay."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from opsdk.aio.slicer import SLICE_ENDS, Slicer
from opsdk.engine.replay.run import _RecordedSlices


def test_a_loop_that_ran_before_the_checkpoint_moves_no_slice() -> None:
    """An index that the recording had built is built again, at another time, and without a pause."""
    timeline: Any = SimpleNamespace(slice_ends={("", 5), ("index b", 1)}, checkpoint=object())
    slices = _RecordedSlices(timeline)
    slices.continue_after(3)
    token = SLICE_ENDS.set(slices)
    watch, former, new = Slicer(), Slicer(once="index a"), Slicer(once="index b")
    SLICE_ENDS.reset(token)
    assert [watch.add(1) for _ in range(2)] == [False, False]
    assert not any(former.add(100_000) for _ in range(20))
    assert [new.add(1), new.add(1)] == [False, True]
    assert [watch.add(1), watch.add(1)] == [True, False]
