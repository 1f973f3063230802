"""Options of a `GenericController`, with the settings of norman and lasso as presets.

Upstream: github.com/rancher/norman/controller/generic_controller.go, github.com/rancher/lasso/pkg/controller
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from enum import Enum
from typing import TypeVar

from opsdk.controller.options import QueueOptions
from opsdk.queue.rate_limiters import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    MaxOfRateLimiter,
)

K = TypeVar("K", bound=Hashable)


class RetryPolicy(Enum):
    """Selects the handlers of an object that are retried after a failure."""

    ALL = "all"
    """All of them, as norman and lasso do."""
    FAILED = "failed"
    """Only those that failed, each with a backoff of its own."""


class SlowingRateLimiter(ItemExponentialFailureRateLimiter[K]):
    """An exponential delay, and a fixed one after many failures.

    Args:
        base: the first delay in seconds.
        cap: the longest exponential delay.
        slow: the delay after `slow_after` failures.
        slow_after: number of failures.

    >>> limiter = SlowingRateLimiter(slow_after=2)
    >>> [limiter.when("site", now=0.0) for _ in range(4)]
    [0.005, 0.01, 120.0, 120.0]
    """

    def __init__(self, *, base: float = 0.005, cap: float = 30.0, slow: float = 120.0, slow_after: int = 30) -> None:
        super().__init__(base=base, cap=cap)
        self.slow = slow
        self.slow_after = slow_after

    def when(self, item: K, *, now: float) -> float:
        """Return the next delay of the item."""
        is_slow = self.num_requeues(item) >= self.slow_after
        delay = super().when(item, now=now)
        return self.slow if is_slow else delay


class GenericControllerOptions(QueueOptions, frozen=True, kw_only=True):
    """Options of a `GenericController`. Times are in seconds.

    The defaults are lasso's limiter and workers with `RetryPolicy.FAILED`: a first retry after 5 ms resolves
    conflicts at once, and a handler that succeeded is not called again because another one failed. There is no resync,
    because informers of opsdk lose no event; set one for handlers that depend on another system.

    Attributes:
        workers: objects that are handled at the same time. With two or more workers, one is reserved for new events.
        retry: which handlers are called again after a failure.
        rate_limiter: delays after failures, for each object, or for each handler of an object; None is lasso's. Each
            controller gets a copy.
        handler_timeout: time for one call of a handler; 0 for no limit. A handler may have its own timeout.
        resync: interval in which all handlers are called for all objects; 0 for never.
        shutdown_timeout: time for running handlers to finish at stop, before they are cancelled.
        needs_leader_election: run only on the elected replica.
        pausing: what the annotation ``opsdk.dev/paused`` does: no handler is called for a paused object. None ignores
            it.

    Raises:
        UsageError: a value has a wrong type, or is out of range; the message has file and line.
    """

    workers: int = 5
    retry: RetryPolicy = RetryPolicy.FAILED
    handler_timeout: float = 120.0
    resync: float = 0.0

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        yield from self._wrong_numbers(1, "a number of workers, at least 1", "workers")
        yield from self._wrong_types(RetryPolicy, "RetryPolicy.FAILED or RetryPolicy.ALL", "retry")
        yield from self._wrong_times("handler_timeout", "resync")


LASSO = GenericControllerOptions(retry=RetryPolicy.ALL, handler_timeout=0.0)
"""lasso's: 5 ms to 30 s, 2 min after 30 failures, five workers, all handlers again after a failure."""
NORMAN = GenericControllerOptions(
    retry=RetryPolicy.ALL,
    rate_limiter=MaxOfRateLimiter(
        [ItemExponentialFailureRateLimiter(base=0.5, cap=1000.0), BucketRateLimiter(qps=10.0, burst=100)]
    ),
    handler_timeout=0.0,
    resync=7200.0,
)
"""norman's: 500 ms to 1000 s joined with ten retries a second (100 at once), and a resync every two hours."""
