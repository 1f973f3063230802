"""Delta debugging: the smallest part of a plan that still fails. Pure.

Algorithm: A. Zeller, R. Hildebrandt: Simplifying and Isolating Failure-Inducing Input (ddmin).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrink(steps: Sequence[T], fails: Callable[[Sequence[T]], bool], *, max_runs: int = 200) -> tuple[T, ...]:
    """Return a subsequence of `steps` that still fails, and of which no single step can be left out.

    Args:
        steps: a failing sequence.
        fails: whether a subsequence fails.
        max_runs: calls of `fails`; after these, the smallest result so far is returned.

    >>> shrink(range(20), lambda part: 3 in part and 17 in part)
    (3, 17)
    """
    best = tuple(steps)
    parts, runs = 2, 0
    if best and fails(()):
        return ()
    while best and runs < max_runs:
        size = max(1, len(best) // parts)
        for start in range(0, len(best), size):
            rest = best[:start] + best[start + size :]
            runs += 1
            if rest and fails(rest):
                best, parts = rest, max(parts - 1, 2)
                break
            if runs >= max_runs:
                return best
        else:
            if size == 1:
                return best
            parts = min(parts * 2, len(best))
    return best
