"""How long a failed item waits. Pure: the time is passed in."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from opsdk.errors import UsageError

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class RateLimiter(Protocol[K_contra]):
    """Says how long an item waits before its next try."""

    def when(self, item: K_contra, *, now: float) -> float:
        """Seconds to wait; counts as a failure of `item`."""
        ...

    def forget(self, item: K_contra) -> None:
        """The item succeeded: its failures no longer count."""
        ...

    def num_requeues(self, item: K_contra) -> int:
        """How many failures count at present."""
        ...


class ItemExponentialFailureRateLimiter(Generic[K]):
    """``base * 2 ** failures`` seconds for each item on its own, at most `cap`.

    The defaults, 5 ms and 1000 s, are those of controller-runtime.
    """

    def __init__(self, *, base: float = 0.005, cap: float = 1000.0) -> None:
        if not 0 < base <= cap:
            raise UsageError(f"need 0 < base <= cap, not base={base} and cap={cap}")
        self.base = base
        self.cap = cap
        self._failures: dict[K, int] = {}

    def when(self, item: K, *, now: float) -> float:  # noqa: ARG002 - the port's
        """The next wait of the item."""
        failures = self._failures.get(item, 0)
        self._failures[item] = failures + 1
        # Past 64 doublings the cap has long been reached; the bound keeps the power finite.
        return min(self.cap, self.base * 2.0 ** min(failures, 64))

    def forget(self, item: K) -> None:
        """Start again at `base`."""
        self._failures.pop(item, None)

    def num_requeues(self, item: K) -> int:
        """Failures since the last `forget`."""
        return self._failures.get(item, 0)


class ItemFastSlowRateLimiter(Generic[K]):
    """A few quick retries, then slow ones."""

    def __init__(self, *, fast: float, slow: float, fast_attempts: int) -> None:
        self.fast, self.slow, self.fast_attempts = fast, slow, fast_attempts
        self._failures: dict[K, int] = {}

    def when(self, item: K, *, now: float) -> float:  # noqa: ARG002 - the port's
        """`fast` for the first attempts, then `slow`."""
        self._failures[item] = self._failures.get(item, 0) + 1
        return self.fast if self._failures[item] <= self.fast_attempts else self.slow

    def forget(self, item: K) -> None:
        """Quick again."""
        self._failures.pop(item, None)

    def num_requeues(self, item: K) -> int:
        """Failures since the last `forget`."""
        return self._failures.get(item, 0)


class BucketRateLimiter(Generic[K]):
    """A token bucket shared by all items: `qps` on average, `burst` at once."""

    def __init__(self, *, qps: float = 10.0, burst: int = 100) -> None:
        if qps <= 0 or burst < 1:
            raise UsageError(f"need qps > 0 and burst >= 1, not qps={qps} and burst={burst}")
        self.qps, self.burst = qps, burst
        self._tokens = float(burst)
        self._at: float | None = None

    def when(self, item: K, *, now: float) -> float:  # noqa: ARG002 - shared by all items
        """Reserve a token; how long until it is there."""
        if self._at is not None:
            self._tokens = min(self.burst, self._tokens + (now - self._at) * self.qps)
        self._at = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self.qps)

    def forget(self, item: K) -> None:
        """Nothing: tokens come back with time only."""

    def num_requeues(self, item: K) -> int:  # noqa: ARG002 - the port's
        """Always 0."""
        return 0


class MaxOfRateLimiter(Generic[K]):
    """The longest wait of several limiters."""

    def __init__(self, limiters: Sequence[RateLimiter[K]]) -> None:
        self.limiters = limiters

    def when(self, item: K, *, now: float) -> float:
        """The longest."""
        return max(limiter.when(item, now=now) for limiter in self.limiters)

    def forget(self, item: K) -> None:
        """In all of them."""
        for limiter in self.limiters:
            limiter.forget(item)

    def num_requeues(self, item: K) -> int:
        """The most any of them counts."""
        return max(limiter.num_requeues(item) for limiter in self.limiters)
