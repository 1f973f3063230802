"""Divides long loops over objects into slices, between which other tasks run. Pure.

Slices are counted in bytes, not in time, so that a run repeats exactly.
"""

from __future__ import annotations

# Bytes of objects in a slice: 5 to 10 ms of decoding and user functions.
_SLICE_BYTES = 128 * 1024
# Cost of an object besides its bytes.
_OBJECT_BYTES = 512


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
    """

    __slots__ = ("_cost",)

    def __init__(self) -> None:
        self._cost = 0

    def add(self, size: int) -> bool:
        """Count an object of `size` bytes. Returns True if it ends the slice; the next one begins at once."""
        self._cost += size + _OBJECT_BYTES
        if self._cost < _SLICE_BYTES:
            return False
        self._cost = 0
        return True
