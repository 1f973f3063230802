"""The states that a search has reached, in memory that its processes share."""

from __future__ import annotations

import mmap
import multiprocessing
import struct
from typing import Final

from opsdk.errors import OpsdkError
from opsdk.verification.exploration.bounds import Bounds

__all__ = ["KnownStates"]

_SLOT: Final = struct.Struct("<8sQ")
_HEAD: Final = struct.Struct("<Q")
_STOPPED: Final = struct.Struct("<?")
_FIRST: Final = 16
_MAX_PROBES: Final = 64


class KnownStates:
    """A hash table of state digests: for each, with which bounds the search went on from there.

    A search that goes on with more reaches all that one with less does.

    Args:
        bounds: of the whole search.
        slots: number of states that there is room for, a power of two.

    >>> states = KnownStates(Bounds(crashes=1, stale_views=0, deviations=0), slots=1024)
    >>> states.add(b"12345678", states.bounds), states.add(b"12345678", states.bounds), len(states)
    (True, False, 1)
    """

    def __init__(self, bounds: Bounds, *, slots: int = 1 << 21) -> None:
        self.bounds = bounds
        self._slots = slots
        self._lock = multiprocessing.get_context("fork").Lock()
        self._memory = mmap.mmap(-1, _FIRST + slots * _SLOT.size)

    @property
    def stopped(self) -> bool:
        """Whether the search ends early: no process goes on to further states."""
        return bool(_STOPPED.unpack_from(self._memory, _HEAD.size)[0])

    def stop(self) -> None:
        """End the search early."""
        _STOPPED.pack_into(self._memory, _HEAD.size, True)

    def __len__(self) -> int:
        return int(_HEAD.unpack_from(self._memory)[0])

    def add(self, state: bytes, left: Bounds) -> bool:
        """Add a state. Returns False if the search went on from it with as much or more."""
        bit = 1 << self.bounds.number_of(left)
        with self._lock:
            offset = self._offset_of(state)
            _, mask = _SLOT.unpack_from(self._memory, offset)
            if mask & bit:
                return False
            if not mask:
                _HEAD.pack_into(self._memory, 0, len(self) + 1)
            _SLOT.pack_into(self._memory, offset, state, mask | self._covered(left))
            return True

    def _offset_of(self, state: bytes) -> int:
        """Return where a state is, or where it belongs."""
        first = int.from_bytes(state, "little")
        for probe in range(_MAX_PROBES):
            offset = _FIRST + ((first + probe) % self._slots) * _SLOT.size
            there, mask = _SLOT.unpack_from(self._memory, offset)
            if not mask or there == state:
                return offset
        raise OpsdkError(f"the search has reached more than {len(self)} states: use smaller bounds or fewer actions")

    def _covered(self, left: Bounds) -> int:
        """Return the bits of everything that is not more than what is left."""
        mask = 0
        for crashes in range(left.crashes + 1):
            for stale_views in range(left.stale_views + 1):
                for deviations in range(left.deviations + 1):
                    less = Bounds(crashes=crashes, stale_views=stale_views, deviations=deviations)
                    mask |= 1 << self.bounds.number_of(less)
        return mask
