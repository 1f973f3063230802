"""Settings of Python's garbage collector for a long-running program."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Decoding 10,000 Pods allocates 400,000 containers. With Python's defaults the collector runs through the growing heap
# repeatedly: it doubles the time and stalls the loop for up to 400 ms. With these, a pause walks 25,000
# containers, which takes 5 ms. With 1,000 in the middle it walked all of a list that was being decoded: 100 ms. Cycles
# that live longer than that are collected every 50 million allocations.
_THRESHOLDS = (5_000, 5, 2_000)
SELDOM = _THRESHOLDS[2]
"""Collections of the middle generation between two of the oldest one, for a program that runs for long."""


def tune_garbage_collector() -> None:
    """Keep pauses short: never scan the objects that exist now, and scan old objects rarely.

    Call it once, when the program has loaded its modules. It changes the whole process.
    """
    # Not the oldest generation: modules leave next to no garbage there, and looking for it takes 15 ms.
    gc.collect(1)
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


# A run of a verification leaves 2 MB of cycles. With Python's defaults, looking at all old objects takes a fifth of it.
OFTEN_REPEATED = 20
"""Collections of the middle generation between two of the oldest one, for work of a second that is often repeated."""


@contextmanager
def rare_collections(oldest: int = SELDOM) -> Iterator[None]:
    """Collect as rarely as `tune_garbage_collector` inside the block, and freeze nothing: for work that ends.

    Args:
        oldest: collections of the middle generation between two of the oldest one, as of `gc.set_threshold`.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS[:2], oldest)
    try:
        yield
    finally:
        gc.set_threshold(*before)
