"""Divides long loops over objects into slices, between which other tasks run.

Slices are counted in bytes, not in time, so that a run repeats exactly. A recording hides values, so it has other bytes
than the run. That is why it has the ends of the slices too.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Protocol

__all__ = ["SLICE_ENDS", "SliceEnds", "Slicer"]

# Bytes of objects in a slice: 5 to 10 ms of decoding and user functions.
_SLICE_BYTES = 128 * 1024
# Cost of an object besides its bytes.
_OBJECT_BYTES = 512


class SliceEnds(Protocol):
    """Observes or decides where slices end, so that a run can be repeated."""

    def ends(self, is_full: bool, once: str) -> bool:
        """Return whether the slice ends with the next object of this operator.

        Args:
            is_full: what its bytes say.
            once: see `Slicer`.
        """
        ...


SLICE_ENDS: Final[ContextVar[SliceEnds | None]] = ContextVar("opsdk_slice_ends", default=None)
"""The ends of slices of a recorded or replayed operator; None for others."""


class Slicer:
    """Counts the objects of one loop.

    The loop lets other tasks run where `add` returns True. ::

        slicer = Slicer()
        for data in objects:
            handle(data)
            if slicer.add(len(data)):
                await asyncio.sleep(0)

    Example:
        >>> slicer = Slicer()
        >>> [slicer.add(60_000) for _ in range(5)]
        [False, False, True, False, False]

    Args:
        once: the name of a loop that runs once in a process, such as the build of an index. Its objects are counted
            apart: a replay that begins with a checkpoint runs it later than the recording did.
    """

    __slots__ = ("_cost", "_ends", "_once")

    def __init__(self, *, once: str = "") -> None:
        self._cost = 0
        self._once = once
        self._ends = SLICE_ENDS.get()

    def add(self, size: int) -> bool:
        """Count an object of `size` bytes. Returns True if it ends the slice; the next one begins at once."""
        self._cost += size + _OBJECT_BYTES
        is_end = self._cost >= _SLICE_BYTES
        if self._ends is not None:
            is_end = self._ends.ends(is_end, self._once)
        if is_end:
            self._cost = 0
        return is_end
