"""Options of controllers."""

from __future__ import annotations

from typing import Any

from opsdk.base.options import Options
from opsdk.base.place import caller_place
from opsdk.controller.pausing import Pausing
from opsdk.errors import UsageError
from opsdk.event.sources import SyncPolicy
from opsdk.queue.fairness import Fairness
from opsdk.queue.rate_limiters import RateLimiter

# Seconds for a source to sync, as controller-runtime's CacheSyncTimeout.
_SYNC_TIMEOUT = 120.0


class ControllerOptions(Options, frozen=True, kw_only=True):
    """Options of a `Controller`. Times are in seconds.

    Attributes:
        max_concurrent_reconciles: number of workers; two workers never process the same key.
        cache_sync_timeout: time for every source to sync, see `sync_policy`. None is 120 s.
        sync_policy: action when a source cannot sync because its CRD, namespace or permission is missing. None is
            FAIL with a `cache_sync_timeout`, else RETRY. A source may have a policy of its own.
        reconciliation_timeout: time for one reconcile before it is cancelled and counts as failed; 0 for no limit.
        shutdown_timeout: time for running reconciles to finish at stop, before they are cancelled.
        needs_leader_election: run only on the elected replica.
        enable_warmup: start the sources before this replica leads, so that its caches are full when it
            does. Reconciles start with leadership only.
        rate_limiter: delays after failures; default: per key from 5 ms to 1000 s. Each controller gets a copy of its
            own, so that options may be shared.
        fairness: shares the workers between namespaces, or between other groups of requests, so that no tenant waits
            for the requests of another one; None reconciles requests of one priority in the order they became ready.
        pausing: how paused objects are treated, see `opsdk.controller.pausing`; None ignores the annotation.
            Controllers without a kind, or without a cluster, have no pauses.
    """

    max_concurrent_reconciles: int = 1
    cache_sync_timeout: float | None = None
    sync_policy: SyncPolicy | None = None
    reconciliation_timeout: float = 0.0
    shutdown_timeout: float = 20.0
    needs_leader_election: bool = True
    enable_warmup: bool = True
    rate_limiter: RateLimiter[Any] | None = None
    fairness: Fairness | None = None
    pausing: Pausing | None = Pausing()

    def __post_init__(self) -> None:
        if self.max_concurrent_reconciles < 1:
            raise UsageError(f"max_concurrent_reconciles is {self.max_concurrent_reconciles}: it must be at least 1")
        if self.fairness is not None and not isinstance(self.fairness, Fairness):
            raise UsageError(
                f"{caller_place()}: fairness takes the options of fairness, but got {self.fairness!r}: "
                "write fairness=Fairness()"
            )
        if self.pausing is not None and not isinstance(self.pausing, Pausing):
            raise UsageError(
                f"{caller_place()}: pausing takes the options of pauses, but got {self.pausing!r}: "
                "write pausing=Pausing(...), or pausing=None to ignore pauses"
            )

    @property
    def has_pause_condition(self) -> bool:
        """Whether a condition shows pauses."""
        return self.pausing is not None and bool(self.pausing.condition)

    @property
    def sync_timeout(self) -> float:
        """`cache_sync_timeout`, or its default."""
        return _SYNC_TIMEOUT if self.cache_sync_timeout is None else self.cache_sync_timeout

    @property
    def effective_sync_policy(self) -> SyncPolicy:
        """`sync_policy`, or its default."""
        default = SyncPolicy.RETRY if self.cache_sync_timeout is None else SyncPolicy.FAIL
        return self.sync_policy or default
