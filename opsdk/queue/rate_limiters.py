"""Rate limiters: how long a failed item waits. Pure: the caller passes the time.

Upstream: k8s.io/client-go/util/workqueue/default_rate_limiters.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from opsdk.aio.token_bucket import TokenBucket
from opsdk.base.place import caller_place
from opsdk.errors import UsageError

__all__ = [
    "BucketRateLimiter",
    "ItemExponentialFailureRateLimiter",
    "ItemFastSlowRateLimiter",
    "MaxOfRateLimiter",
    "RateLimiter",
]

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class RateLimiter(Protocol[K_contra]):
    """Decides how long an item waits before its next attempt."""

    def when(self, item: K_contra, *, now: float) -> float:
        """Count a failure of `item`, and return the seconds to wait."""
        ...

    def forget(self, item: K_contra) -> None:
        """Reset the failures of `item`, because it succeeded."""
        ...

    def num_requeues(self, item: K_contra) -> int:
        """Return the number of failures of `item`."""
        ...


class ItemExponentialFailureRateLimiter(Generic[K]):
    """``base * 2 ** failures`` seconds for each item, at most `cap` seconds.

    The defaults, 5 ms and 1000 s, are controller-runtime's.
    """

    def __init__(self, *, base: float = 0.005, cap: float = 1000.0) -> None:
        if not (_is_number(base) and _is_number(cap) and 0 < base <= cap):
            raise UsageError(f"{caller_place()}: need 0 < base <= cap, not base={base!r} and cap={cap!r}")
        self.base = base
        self.cap = cap
        self._failures: dict[K, int] = {}

    def when(self, item: K, *, now: float) -> float:
        """Return the next delay of the item."""
        failures = self._failures.get(item, 0)
        self._failures[item] = failures + 1
        # The bound keeps the power finite; the cap applies long before 64 doublings.
        return min(self.cap, self.base * 2.0 ** min(failures, 64))

    def forget(self, item: K) -> None:
        """Start again at `base`."""
        self._failures.pop(item, None)

    def num_requeues(self, item: K) -> int:
        """Return the failures since the last `forget`."""
        return self._failures.get(item, 0)


class ItemFastSlowRateLimiter(Generic[K]):
    """`fast` seconds for the first `fast_attempts` failures, then `slow` seconds."""

    def __init__(self, *, fast: float, slow: float, fast_attempts: int) -> None:
        if not all(_is_number(value) and value >= 0 for value in (fast, slow, fast_attempts)):
            values = f"fast={fast!r}, slow={slow!r} and fast_attempts={fast_attempts!r}"
            raise UsageError(f"{caller_place()}: need numbers of at least 0, not {values}")
        self.fast, self.slow, self.fast_attempts = fast, slow, fast_attempts
        self._failures: dict[K, int] = {}

    def when(self, item: K, *, now: float) -> float:
        """Return `fast` or `slow`."""
        self._failures[item] = self._failures.get(item, 0) + 1
        return self.fast if self._failures[item] <= self.fast_attempts else self.slow

    def forget(self, item: K) -> None:
        """Start again with `fast`."""
        self._failures.pop(item, None)

    def num_requeues(self, item: K) -> int:
        """Return the failures since the last `forget`."""
        return self._failures.get(item, 0)


class BucketRateLimiter(Generic[K]):
    """A token bucket for all items: `qps` on average, `burst` at once."""

    def __init__(self, *, qps: float = 10.0, burst: int = 100) -> None:
        if not (_is_number(qps) and _is_number(burst) and qps > 0 and burst >= 1):
            raise UsageError(f"{caller_place()}: need qps > 0 and burst >= 1, not qps={qps!r} and burst={burst!r}")
        self._bucket = TokenBucket(qps, burst)

    def when(self, item: K, *, now: float) -> float:
        """Reserve a token, and return the seconds until it is valid."""
        return self._bucket.reserve(now)

    def forget(self, item: K) -> None:
        """Do nothing: tokens return only with time."""

    def num_requeues(self, item: K) -> int:
        """Return 0."""
        return 0


class MaxOfRateLimiter(Generic[K]):
    """The longest delay of several limiters."""

    def __init__(self, limiters: Sequence[RateLimiter[K]]) -> None:
        members: object = limiters
        if not isinstance(members, Sequence) or not members or not all(hasattr(member, "when") for member in members):
            raise UsageError(f"{caller_place()}: limiters is {limiters!r}: pass a list of rate limiters")
        self.limiters = limiters

    def when(self, item: K, *, now: float) -> float:
        """Return the longest delay."""
        return max(limiter.when(item, now=now) for limiter in self.limiters)

    def forget(self, item: K) -> None:
        """Forget the item in all limiters."""
        for limiter in self.limiters:
            limiter.forget(item)

    def num_requeues(self, item: K) -> int:
        """Return the largest number of failures."""
        return max(limiter.num_requeues(item) for limiter in self.limiters)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
